"""aider (`aider --message-file`), a plain-text agent without a protocol: its text decides, not its exit code.

After each answer of the model it tells of the tokens in a line of its own; that line is the only sign that an answer
came whole. Its own error after the last one, or without any, is the end of a run that failed.
"""

import os
import re
import shutil
from dataclasses import dataclass
from dataclasses import replace as changed
from pathlib import Path

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import ApiError, api_error
from rulebook_ralph.agents.cli import CliAgent, prompt_file, run_agent, visible
from rulebook_ralph.agents.command import TEXT_HEAD, TEXT_TAIL
from rulebook_ralph.agents.events import MAX_MESSAGE, MAX_TOOL_RESULTS, Transcript, added, first_line, tool_result
from rulebook_ralph.agents.limit_times import Now, local_clock
from rulebook_ralph.process.streams import HeadTail, LineSplitter
from rulebook_ralph.process.supervisor import Command
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentFault, AgentResult, ErrorKind, ToolResult, Usage

_ALWAYS = (
    *("--yes-always", "--no-pretty", "--no-fancy-input", "--no-check-update", "--no-show-release-notes"),
    *("--no-show-model-warnings", "--no-analytics", "--no-detect-urls", "--no-gitignore"),
    *("--chat-history-file", os.devnull, "--input-history-file", os.devnull),
    *("--no-auto-commits", "--no-dirty-commits"),
)
"""Asks nobody, opens no browser, fetches no page that the prompt names, and makes no commit, which would cost a further
request for its message."""

_PERMISSIONS: dict[str, tuple[str, ...]] = {"ask": ("--chat-mode", "ask", "--dry-run")}
"""It never runs a command unasked; asking questions only, it does not edit either."""

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

_LOG_IN = "set the API key that the model's provider asks for, such as OPENAI_API_KEY, in the environment"


@dataclass(slots=True)
class _Error:
    kind: ErrorKind | None
    message: str
    ended: bool = False


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


class AiderReader:
    """Keeps the model's last answer (without the edits in it), the sums, and the error it ended with."""

    def __init__(self, report: Report, now: Now) -> None:
        self._report = report
        self._now = now
        self._lines = LineSplitter(self._line, longest=_LONGEST_LINE)
        self._answer = _Answer()
        self._final_text: str | None = None
        self._error: _Error | None = None
        self._tool_results: list[ToolResult] = []
        self._usage = Usage()
        self._cost: float | None = None
        self._after_tokens = False
        self._after_blank = True

    def feed(self, block: bytes) -> None:
        self._lines.feed(block.replace(b"\n", b" \n"))  # the splitter passes over empty lines, which tell something

    def close(self) -> Transcript:
        self._lines.close()
        whole = self._final_text is not None
        return Transcript(
            succeeded=False if self._error else True if whole else None,
            final_text=self._final_text if self._final_text is not None else self._answer.text(),
            tool_results=tuple(self._tool_results),
            usage=self._usage,
            cost_usd=self._cost,
            fault=self._fault(self._error) if self._error else None,
        )

    def _line(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        tokens = _TOKENS.fullmatch(line)
        if tokens:
            self._answered(tokens)
            return
        if self._after_tokens:
            self._cost_in(line)
        if self._is_of_an_error(line):
            return
        applied = _APPLIED.fullmatch(line) if self._final_text is not None else None
        if applied:
            self._applied(applied[1])
            return
        self._answer.line(line)
        if self._after_blank and self._answer.begun and (said := first_line(line)):
            self._report(AgentActivity("text", said))
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
        self._usage = added(self._usage, spent)
        self._error = None
        self._final_text = self._answer.text()
        self._answer = _Answer(begun=True)
        self._after_tokens = True
        self._cost_in(tokens[0])

    def _cost_in(self, line: str) -> None:
        """The cost of the whole session; it stands in the line of the tokens or, where that gets long, in the next."""
        self._after_tokens = line.startswith("Tokens: ")
        if found := _SESSION_COST.search(line[:MAX_MESSAGE]):
            self._cost = float(found[1])

    def _is_of_an_error(self, line: str) -> bool:
        begin = max(0, line.find(_PROVIDERS))
        if begin or line.startswith(_FIRST_WORDS):
            for pattern, kind in _ERRORS:
                if pattern.match(line, begin):
                    self._answer.line(line[:begin])
                    self._error = _Error(kind, line[begin : begin + MAX_MESSAGE])
                    return True
        if self._error is None or self._error.ended:
            return False
        self._error.ended = not line
        if line.startswith("Retrying in "):
            self._error.ended = True
            self._answer = _Answer(begun=True)  # what came of it before is asked for anew
            self._report(AgentActivity("retry", first_line(line), first_line(self._error.message)))
        elif line:
            self._error.message = f"{self._error.message} {line}"[:MAX_MESSAGE]
        return True

    def _applied(self, path: str) -> None:
        self._tool_results.append(tool_result("edit", path, success=True))
        del self._tool_results[:-MAX_TOOL_RESULTS]
        self._report(AgentActivity("tool", "edit", first_line(path)))

    def _fault(self, error: _Error) -> AgentFault:
        told = ApiError(error.kind, error.message) if error.kind else api_error(error.message, self._now())
        return told.fault(log_in=_LOG_IN)


class Aider(CliAgent):
    """The prompt goes by a file outside the workspace. `settings.args` overrule all but the permissions."""

    program = "aider"
    install = "uv tool install aider-chat"
    version_prefix = "aider "
    reader = AiderReader

    def run(self, invocation: Invocation) -> AgentResult:
        older = set(invocation.outside.glob(_CACHES))
        now = local_clock(invocation.environment)
        try:
            with prompt_file(invocation.prompt) as prompt:
                command = self._command(invocation, prompt)
                return run_agent(self.name, command, invocation, lambda report: AiderReader(report, now))
        finally:  # its cache would be taken for work
            for cache in set(invocation.outside.glob(_CACHES)) - older:
                shutil.rmtree(cache, ignore_errors=True)

    def argv(self, _: Invocation) -> tuple[str, ...]:
        settings = self.settings
        model = ("--model", settings.model) if settings.model else ()
        return (*self.words, *_ALWAYS, *model, *settings.args, *_PERMISSIONS.get(settings.permissions, ()))

    def surroundings(self) -> dict[str, str]:
        return {"COLUMNS": "1000"}  # else it breaks its lines at 80 columns

    def _command(self, invocation: Invocation, prompt: Path) -> Command:
        command = self.command(invocation)
        argv = (*command.argv, "--message-file", str(prompt))
        return changed(command, argv=argv, stdin=None, box=visible(invocation.box, prompt.parent))


def _count(digits: str | None, times: str | None) -> int:
    return min(_LARGEST, round(float(digits or 0) * _TIMES[times or ""]))
