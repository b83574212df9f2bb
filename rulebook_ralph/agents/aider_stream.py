"""aider's text, read line by line into a transcript.

After each answer of the model it tells of the tokens in a line of its own; that line is the only sign that an answer
came whole. Its own error after the last one, or without any, is the end of a run that failed, whatever the exit code.
"""

import re
from dataclasses import dataclass

from rulebook_ralph.agents.api_errors import ApiError, api_error
from rulebook_ralph.agents.local_time import Now
from rulebook_ralph.agents.stream import first_line, tool_result
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.transcript import MAX_MESSAGE, MAX_TOOL_RESULTS, Transcript
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import AgentFault, ErrorKind, ToolResult, Usage
from rulebook_ralph.core.streams import HeadTail, LineSplitter

_HEAD = 64 * 1024
_TAIL = 1024 * 1024
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
        self._report_line = ""
        self._after_blank = True

    def feed(self, block: bytes) -> None:
        self._lines.feed(
            block.replace(b"\n", b" \n")
        )  # the splitter passes over empty lines, which mean something here

    def close(self) -> Transcript:
        self._lines.close()
        succeeded = None if self._final_text is None else True
        return Transcript(
            succeeded=succeeded if self._error is None else False,
            final_text=self._answer.text() if self._final_text is None else self._final_text,
            tool_results=tuple(self._tool_results),
            usage=self._usage,
            cost_usd=self._cost,
            fault=self._fault(),
        )

    def _line(self, raw: bytes) -> None:
        line = raw.decode("utf-8", "replace").rstrip()
        tokens = _TOKENS.fullmatch(line)
        if tokens:
            self._answered(tokens)
            return
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
        amounts = [_count(tokens[place], tokens[place + 1]) for place in (1, 3, 5, 7)]
        sent, cache_write, cache_hit, received = amounts
        self._usage = Usage(
            input_tokens=self._usage.input_tokens + max(0, sent - cache_write - cache_hit),
            output_tokens=self._usage.output_tokens + received,
            cache_read_tokens=self._usage.cache_read_tokens + cache_hit,
            cache_write_tokens=self._usage.cache_write_tokens + cache_write,
        )
        self._error = None
        self._final_text = self._answer.text()
        self._answer = _Answer(begun=True)
        self._report_line = ""
        self._cost_in(tokens[0])

    def _cost_in(self, line: str) -> None:
        """The cost of the whole session; it stands in the line of the tokens or, where that gets long, in the next."""
        if self._final_text is None or len(self._report_line) > MAX_MESSAGE:
            return
        self._report_line = f"{self._report_line} {line[:MAX_MESSAGE]}"
        found = _SESSION_COST.search(self._report_line)
        if found:
            self._cost = float(found[1])
            self._report_line = " " * (MAX_MESSAGE + 1)

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

    def _fault(self) -> AgentFault | None:
        if self._error is None:
            return None
        kind, message = self._error.kind, self._error.message
        return (ApiError(kind, message) if kind else api_error(message, self._now())).fault(log_in=_LOG_IN)


class _Answer:
    """What the model says between two reports of tokens.

    The text of edits is work, and no part of the message: between SEARCH and REPLACE, or fenced below a file's name.
    """

    def __init__(self, *, begun: bool = False) -> None:
        self.begun = begun
        self._kept = HeadTail(head=_HEAD, tail=_TAIL)
        self._before = ""
        self._ends: re.Pattern[str] | None = None

    def line(self, line: str) -> None:
        if not self.begun:
            self.begun = bool(line) and not _BEFORE_THE_ANSWER.match(line)
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


def _count(digits: str | None, times: str | None) -> int:
    return min(_LARGEST, round(float(digits or 0) * _TIMES[times or ""]))
