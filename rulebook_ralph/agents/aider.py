"""aider (`aider --message-file`), a plain-text agent without a protocol: its text decides, not its exit code.

After each answer of the model it tells of the tokens in a line of its own; that line is the only sign that an answer
came whole. Its own error after the last one, or without any, is the end of a run that failed.
"""

import os
import re
import shutil
from itertools import dropwhile
from typing import Self

from rulebook_ralph.agents.agent import Invocation
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.command import PlainTextReader
from rulebook_ralph.agents.events import added, fault
from rulebook_ralph.agents.reader import MAX_TOOL_RESULTS, tool_result
from rulebook_ralph.tasks.results import AgentResult, ErrorKind, Usage

_CACHES = ".aider.tags.cache.v*"
_LARGEST = 2**53
_AMOUNT = r"(\d{1,15}(?:\.\d{1,6})?)([kM]?)"
_TOKENS = re.compile(
    rf"^Tokens: {_AMOUNT} sent(?:, {_AMOUNT} cache write)?(?:, {_AMOUNT} cache hit)?, {_AMOUNT} received\."
    r"(?: Cost: .*)?$(?P<cost>\nCost: .*$)?",
    re.MULTILINE,
)
"""The cost stands in the line of the tokens or, where that gets long, in the next."""

_SESSION_COST = re.compile(r"Cost: \$\d{1,9}(?:\.\d{1,20})? message, \$(\d{1,9}(?:\.\d{1,20})?)\s+session\.")
_TIMES = {"": 1, "k": 1000, "M": 1_000_000}
_AIDERS_OWN = re.compile(
    r"Analytics have|Detected dumb terminal|Update git (?:name|email)|Aider v\d|(?:Main |Weak |Editor )?[Mm]odel:"
    r"|Git repo:|Repo-map:|Added .* to the chat|Warning:|https://aider\.chat/|Skipping |Using .* model|Applied edit to "
    r"|Commit [0-9a-f]{7}|$"
)
"""Lines before an answer."""

_EDIT = re.compile(r"^<{5,9} SEARCH$.*?(?:^>{5,9} REPLACE$|\Z)", re.MULTILINE | re.DOTALL)
_FILE = re.compile(r"^([^\s`<>]{1,300})\n(`{3,9})(?!ralph-report)[\w+#.-]*$.*?(?:^\2$|\Z)", re.MULTILINE | re.DOTALL)
_APPLIED = re.compile(r"^Applied edit to (.+)$", re.MULTILINE)
_RETRIED = re.compile(r"^Retrying in .*$", re.MULTILINE)
_ERROR = re.compile(
    r"(?:litellm\.(?P<provider>\w+(?:Error|Exception)|Timeout): |^Model \S+ has hit a (?P<length>token) limit!"
    r"|^Only \d+ (?P<turns>reflections) allowed, stopping\.|^No LLM model was specified and no (?P<key>API keys) were)"
    r".*(?:\n(?!Retrying in ).+)*",
    re.MULTILINE,
)
"""It goes on to the next empty line. Those of a provider may begin where the answer broke off."""

_KINDS: dict[str, ErrorKind] = {
    "BudgetExceededError": "max-budget",
    "APIConnectionError": "network",
    "Timeout": "network",
    "token": "context-too-long",
    "reflections": "max-turns",
    "API keys": "authentication",
}
"""Of all others their own words tell it."""


class AiderReader(PlainTextReader):
    """Reads the whole at the end, as far as it was kept: the model's last answer, the sums, the error it ended with."""

    log_in = "set the API key that the model's provider asks for, such as OPENAI_API_KEY, in the environment"

    def close(self) -> Self:
        super().close()
        output = "\n".join(line.rstrip() for line in self.final_text.split("\n"))
        answer, end, self.succeeded = "", 0, None
        for tokens in _TOKENS.finditer(output):
            answer, end, self.succeeded = output[end : tokens.start()], tokens.end(), True
            self.usage = added(self.usage, _usage(tokens))
            if cost := _SESSION_COST.search(tokens[0]):
                self.cost_usd = float(cost[1])
        rest = output[end:]
        # Of a run that was tried again only the last answer counts; errors before a whole one were overcome.
        self.final_text = _message(_RETRIED.split(answer)[-1] if self.succeeded else _ERROR.sub("", rest))
        edits = [tool_result("edit", path, success=True) for path in _APPLIED.findall(output)]
        self.tool_results = tuple(edits[-MAX_TOOL_RESULTS:])
        for error in _ERROR.finditer(rest):
            said, kind = error[0].replace("\n", " "), _KINDS.get(error[error.lastindex or 0])
            self.succeeded, self.fault = False, self.advised(fault(kind, said)) if kind else self.error(said)
        return self


def _message(answer: str) -> str:
    """An answer without aider's own lines before it, and without the text of edits, which is work: between SEARCH and
    REPLACE, or fenced below a file's name.
    """
    lines = dropwhile(_AIDERS_OWN.match, _FILE.sub(r"\1", _EDIT.sub("", answer)).split("\n"))
    return "\n".join(lines).strip()


def _usage(tokens: re.Match[str]) -> Usage:
    counts = [(float(tokens[place] or 0), tokens[place + 1] or "") for place in (1, 3, 5, 7)]
    sent, written, read, received = (min(_LARGEST, round(number * _TIMES[times])) for number, times in counts)
    return Usage(
        input_tokens=max(0, sent - written - read),
        output_tokens=received,
        cache_read_tokens=read,
        cache_write_tokens=written,
    )


class Aider(CliAgent):
    """`settings.args` overrule all but the permissions. It never runs a command unasked; asking questions only, it does
    not edit either.
    """

    program = "aider"
    install = "uv tool install aider-chat"
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
