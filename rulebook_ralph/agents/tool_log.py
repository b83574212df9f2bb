"""The tools of one run, each start paired with its end: the last of them only, in bounded memory."""

from collections import deque

from rulebook_ralph.agents.stream import first_line, table, text, tool_result
from rulebook_ralph.agents.supervised import Report
from rulebook_ralph.agents.transcript import MAX_TOOL_RESULTS
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import ToolResult

_MAX_ID = 100
_MAX_DENIALS = 50
_DETAILS = (
    *(
        "command",
        "cmd",
        "file_path",
        "notebook_path",
        "filePath",
        "path",
        "targetFile",
        "pattern",
        "globPattern",
        "query",
    ),
    *("query", "url", "description", "prompt"),
)


class ToolLog:
    """What the tools were asked for and what came of it. Each start is reported as activity."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._open: dict[str, tuple[str, str]] = {}
        self._results: deque[ToolResult] = deque(maxlen=MAX_TOOL_RESULTS)
        self._denials: dict[str, None] = {}

    def started(self, call: str, name: str, arguments: object) -> None:
        """A tool was called; `call` is the id by which its end will name it."""
        name, detail = name or "tool", detail_of(arguments)
        if len(self._open) >= MAX_TOOL_RESULTS:
            del self._open[next(iter(self._open))]
        self._open[call[:_MAX_ID]] = (name, detail)
        self._report(AgentActivity("tool", first_line(name) or "tool", first_line(detail)))

    def ended(self, call: str, *, success: bool | None, output: str = "", denied: bool = False) -> None:
        """A tool ended; one whose start was not seen is kept without its name."""
        name, detail = self._open.pop(call[:_MAX_ID], ("tool", ""))
        self._results.append(tool_result(name, detail, success=success, output=output))
        if denied and len(self._denials) < _MAX_DENIALS:
            self._denials[f"{first_line(name)} {first_line(detail)}".strip()] = None

    def results(self) -> tuple[ToolResult, ...]:
        """Those that ended, then those that never did."""
        unanswered = [tool_result(name, detail, success=None) for name, detail in self._open.values()]
        return (*self._results, *unanswered)[-MAX_TOOL_RESULTS:]

    def denials(self) -> tuple[str, ...]:
        """The tools that were refused, each with what it was to do, without repeats."""
        return tuple(self._denials)


def detail_of(arguments: object) -> str:
    """What a tool is asked to do: the command or the file, in whatever form the agent says it."""
    if isinstance(arguments, str):
        return arguments
    given = table(arguments)
    return next((value for key in _DETAILS if (value := text(given.get(key)))), "")
