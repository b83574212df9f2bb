"""aider (`aider --message-file`), a plain-text agent without a protocol: its text decides, not its exit code.

After each answer of the model it tells of the tokens in a line of its own; that line is the only sign that an answer
came whole. Its own error after the last one, or without any, is the end of a run that failed.
"""

import os
import re
import shutil

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import MAX_MESSAGE, fault
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.fields import added, first_line
from rulebook_ralph.agents.limit_times import Now
from rulebook_ralph.agents.reader import MAX_TOOL_RESULTS, TEXT_HEAD, TEXT_TAIL, Reader, tool_result
from rulebook_ralph.process.streams import HeadTail, LineSplitter
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult, ErrorKind, Usage

_CACHES = ".aider.tags.cache.v*"
_LONGEST_LINE = 1024 * 1024
_LARGEST = 2**53
_AMOUNT = r"(\d{1,15}(?:\.\d{1,6})?)([kM]?)"
_TOKENS = re.compile(
    rf"Tokens: {_AMOUNT} sent(?:, {_AMOUNT} cache write)?(?:, {_AMOUNT} cache hit)?, {_AMOUNT} received\."
    r"(?: Cost: .*)?"
)
_SESSION_COST = re.compile(r"Cost: \$\d{1,9}(?:\.\d{1,20})? message, \$(\d{1,9}(?:\.\d{1,20})?)\s+session\.")
_TIMES = {"": 1, "k": 1000, "M": 1_000_000}
_BEFORE_THE_ANSWER = re.compile(
    r"Analytics have|Detected dumb terminal|Update git (?:name|email)|Aider v\d|(?:Main |Weak |Editor )?[Mm]odel:"
    r"|Git repo:|Repo-map:|Added .* to the chat|Warning:|https://aider\.chat/|Skipping |Using .* model"
)
_EDIT_BEGINS = re.compile(r"<{5,9} SEARCH")
_EDIT_ENDS = re.compile(r">{5,9} REPLACE")
_FENCE = re.compile(r"(`{3,9})(?!ralph-report)[\w+#.-]*")
_PATH = re.compile(r"[^\s`<>]{1,300}")
_APPLIED = re.compile(r"Applied edit to (.+)")
_ERRORS: tuple[tuple[re.Pattern[str], ErrorKind | None], ...] = (
    (re.compile(r"litellm\.BudgetExceededError: "), "max-budget"),
    (re.compile(r"litellm\.(?:APIConnectionError|Timeout): "), "network"),
    (re.compile(r"litellm\.\w+(?:Error|Exception): "), None),
    (re.compile(r"Model \S+ has hit a token limit!"), "context-too-long"),
    (re.compile(r"Only \d+ reflections allowed, stopping\."), "max-turns"),
    (re.compile(r"No LLM model was specified and no API keys were provided\."), "authentication"),
)
"""None: the words of the error tell its kind."""
_FIRST_WORDS = ("litellm.", "Model ", "Only ", "No LLM ")
_PROVIDERS = "litellm."
"""How the errors of a provider begin: on a line of their own, or where the answer broke off."""


class _Answer:
    """What the model says between two reports of tokens.

    The text of edits is work, and no part of the message: between SEARCH and REPLACE, or fenced below a file's name.
    """

    def __init__(self, *, begun: bool = False) -> None:
        self.begun = begun
        self._kept = HeadTail(head=TEXT_HEAD, tail=TEXT_TAIL)
        self._before = ""
        self._ends: re.Pattern[str] | None = None

    def line(self, line: str) -> None:
        self.begun = self.begun or (bool(line) and not _BEFORE_THE_ANSWER.match(line))
        if self._ends:
            self._ends = None if self._ends.fullmatch(line) else self._ends
        elif _EDIT_BEGINS.fullmatch(line):
            self._ends = _EDIT_ENDS
        elif (fence := _FENCE.fullmatch(line)) and _PATH.fullmatch(self._before):
            self._ends = re.compile(fence[1])
        elif self.begun:
            self._kept.feed(line.encode() + b"\n")
        self._before = line

    def text(self) -> str:
        return self._kept.text().strip()


class AiderReader(Reader):
    """Keeps the model's last answer (without the edits in it), the sums, and the error it ended with."""

    log_in = "set the API key that the model's provider asks for, such as OPENAI_API_KEY, in the environment"

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._lines = LineSplitter(self._line, longest=_LONGEST_LINE)
        self._answer = _Answer()
        self._error = ""
        self._error_kind: ErrorKind | None = None
        self._in_error = False
        self._after_tokens = False
        self._after_blank = True

    def feed(self, block: bytes) -> None:
        self._lines.feed(block.replace(b"\n", b" \n"))  # the splitter passes over empty lines, which tell something

    def finish(self) -> None:
        self._lines.close()
        if self.succeeded is None:
            self.final_text = self._answer.text()
        if self._error:
            kind, said = self._error_kind, self._error
            self.succeeded, self.fault = False, self.advised(fault(kind, said)) if kind else self.error(said)

    def _line(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        if tokens := _TOKENS.fullmatch(line):
            self._answered(tokens)
            return
        if self._after_tokens:
            self._cost_in(line)
        if self._is_of_an_error(line):
            return
        if self.succeeded and (applied := _APPLIED.fullmatch(line)):
            result = tool_result("edit", applied[1], success=True)
            self.tool_results = (*self.tool_results, result)[-MAX_TOOL_RESULTS:]
            self.report(AgentActivity("tool", "edit", first_line(applied[1])))
            return
        self._answer.line(line)
        if self._after_blank and self._answer.begun and (said := first_line(line)):
            self.report(AgentActivity("text", said))
        self._after_blank = not line

    def _answered(self, tokens: re.Match[str]) -> None:
        """An answer came whole: errors before it were tried again with success."""
        sent, written, read, received = (_count(tokens[place], tokens[place + 1]) for place in (1, 3, 5, 7))
        spent = Usage(
            input_tokens=max(0, sent - written - read),
            output_tokens=received,
            cache_read_tokens=read,
            cache_write_tokens=written,
        )
        self.usage = added(self.usage, spent)
        self.succeeded, self.final_text, self._error = True, self._answer.text(), ""
        self._answer = _Answer(begun=True)
        self._cost_in(tokens[0])

    def _cost_in(self, line: str) -> None:
        """The cost of the whole session; it stands in the line of the tokens or, where that gets long, in the next."""
        self._after_tokens = line.startswith("Tokens: ")
        if found := _SESSION_COST.search(line[:MAX_MESSAGE]):
            self.cost_usd = float(found[1])

    def _is_of_an_error(self, line: str) -> bool:
        """Whether it begins one, or goes on with one: up to the next empty line."""
        begin = max(0, line.find(_PROVIDERS))
        if begin or line.startswith(_FIRST_WORDS):
            for pattern, kind in _ERRORS:
                if pattern.match(line, begin):
                    self._answer.line(line[:begin])
                    self._error, self._error_kind, self._in_error = line[begin : begin + MAX_MESSAGE], kind, True
                    return True
        if not self._error or not self._in_error:
            return False
        self._in_error = bool(line)
        if line.startswith("Retrying in "):
            self._in_error = False
            self._answer = _Answer(begun=True)  # what came of it before is asked for anew
            self.report(AgentActivity("retry", first_line(line), first_line(self._error)))
        elif line:
            self._error = f"{self._error} {line}"[:MAX_MESSAGE]
        return True


class Aider(CliAgent):
    """`settings.args` overrule all but the permissions. It never runs a command unasked; asking questions only, it does
    not edit either.
    """

    program = "aider"
    install = "uv tool install aider-chat"
    version_prefix = "aider "
    reader = AiderReader
    options = (
        *("--yes-always", "--no-pretty", "--no-fancy-input", "--no-check-update", "--no-show-release-notes"),
        *("--no-show-model-warnings", "--no-analytics", "--no-detect-urls", "--no-gitignore"),
        *("--chat-history-file", os.devnull, "--input-history-file", os.devnull),
        *("--no-auto-commits", "--no-dirty-commits"),
    )
    """Asks nobody, opens no browser, fetches no page that the prompt names, and makes no commit, which would cost a
    further request for its message."""

    prompt_via = "file"
    prompt_option = ("--message-file",)

    def run(self, invocation: Invocation) -> AgentResult:
        older = set(invocation.outside.glob(_CACHES))
        try:
            return super().run(invocation)
        finally:  # its cache would be taken for work
            for cache in set(invocation.outside.glob(_CACHES)) - older:
                shutil.rmtree(cache, ignore_errors=True)

    def argv(self, invocation: Invocation) -> tuple[str, ...]:
        last = ("--chat-mode", "ask", "--dry-run") if self.settings.permissions == "ask" else ()
        return (*super().argv(invocation), *last)

    def surroundings(self) -> dict[str, str]:
        return {"COLUMNS": "1000"}  # else it breaks its lines at 80 columns


def _count(digits: str | None, times: str | None) -> int:
    return min(_LARGEST, round(float(digits or 0) * _TIMES[times or ""]))
