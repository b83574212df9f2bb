"""Amp (`amp -x`), driven through its stream of JSON events (from its documentation)."""

from typing import Any

from rulebook_ralph.agents.agent import Invocation, Report
from rulebook_ralph.agents.api_errors import api_error
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.events import MessageReader, MessageSums, denials_of, fault, first_line, text
from rulebook_ralph.agents.limit_times import Now

_LOG_IN = "set a valid AMP_API_KEY, or run: amp login"


class AmpReader(MessageReader):
    """Keeps the last results of tools, the sum of the tokens and the last terminal event."""

    def __init__(self, report: Report, now: Now) -> None:
        super().__init__(report, now)
        self._sums = MessageSums()

    def message(self, event: dict[str, Any], message: dict[str, Any]) -> None:
        self._sums.add(message)
        super().message(event, message)

    def finish(self) -> None:
        self.usage = self._sums.total()
        super().finish()

    def ended(self, result: dict[str, Any]) -> None:
        self.final_text = text(result.get("result"))
        self.denied = denials_of(result)
        subtype = text(result.get("subtype"))
        message = text(result.get("error")) or f"amp ended with {first_line(subtype) or 'an error'}"
        if subtype == "error_max_turns":
            self.fault = fault("max-turns", message)
        elif not self.succeeded:
            self.fault = api_error(message, self.now()).fault(log_in=_LOG_IN)


class Amp(CliAgent):
    """It runs its tools unasked whatever it is told, so only `permissions: full` is honest. Amp chooses its model by
    `--mode`, which `settings.model` is handed to.
    """

    program = "amp"
    install = "npm install -g @ampcode/cli"
    log_in = _LOG_IN
    reader = AmpReader
    stderr_tells = True

    def argv(self, _: Invocation) -> tuple[str, ...]:
        mode = ("--mode", self.settings.model) if self.settings.model else ()
        return (*self.words, "-x", "--stream-json", "--dangerously-allow-all", *mode, *self.settings.args)
