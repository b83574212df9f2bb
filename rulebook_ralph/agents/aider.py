"""aider (`aider --message-file`), a plain-text agent without a protocol: its text decides, not its exit code."""

import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from hashlib import sha256
from pathlib import Path

from rulebook_ralph.agents.agent import AgentSettings, Assignment, Probe
from rulebook_ralph.agents.aider_stream import AiderReader
from rulebook_ralph.agents.installed import probed
from rulebook_ralph.agents.local_time import local_clock
from rulebook_ralph.agents.program import words
from rulebook_ralph.agents.supervised import run_agent
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.supervisor import Command

_ALWAYS = (
    *("--yes-always", "--no-pretty", "--no-fancy-input", "--no-check-update", "--no-show-release-notes"),
    *("--no-show-model-warnings", "--no-analytics", "--no-detect-urls", "--no-gitignore"),
    *("--chat-history-file", os.devnull, "--input-history-file", os.devnull),
    *("--no-auto-commits", "--no-dirty-commits"),
)
"""Asks nobody, opens no browser, fetches no page that the prompt names, and leaves commits and the user's files alone.
A commit of its own would cost a further request for its message, and Ralph makes the one that counts."""

_PERMISSIONS: dict[str, tuple[str, ...]] = {"full": (), "edit": (), "ask": ("--chat-mode", "ask", "--dry-run")}
"""It never runs a command unasked; asking questions only, it does not edit either."""

_WIDTH = "1000"
_CACHES = ".aider.tags.cache.v*"


class Aider:
    """The prompt goes by a file outside the workspace. `settings.args` overrule all but the permissions."""

    def __init__(self, settings: AgentSettings, environment: Mapping[str, str]) -> None:
        self.name = settings.id
        self._settings = settings
        self._environment = environment
        self._program = words(settings.command, agent=settings.id) or ("aider",)

    def probe(self) -> Probe:
        found = probed(self.name, self._program, self._environment, install="uv tool install aider-chat")
        return Probe(found.installed, found.version.removeprefix("aider "), found.problem)

    def run(self, assignment: Assignment) -> AgentResult:
        with (
            tempfile.TemporaryDirectory(prefix="ralph-prompt-", ignore_cleanup_errors=True) as folder,
            without_caches(assignment.workspace, assignment.output_file.parent),
        ):
            prompt = Path(folder) / "prompt.md"
            prompt.write_bytes(assignment.prompt.encode("utf-8", "replace"))
            surroundings = {"COLUMNS": _WIDTH, **assignment.environment}  # else it breaks its lines at 80 columns
            command = Command(self.argv(prompt), assignment.workspace, surroundings)
            now = local_clock(assignment.environment)
            return run_agent(self.name, command, assignment, lambda report: AiderReader(report, now))

    def argv(self, prompt: Path) -> tuple[str, ...]:
        settings = self._settings
        model = ("--model", settings.model) if settings.model else ()
        permissions = _PERMISSIONS.get(settings.permissions, ())
        return (*self._program, "--message-file", str(prompt), *_ALWAYS, *model, *settings.args, *permissions)


@contextmanager
def without_caches(workspace: Path, notes: Path) -> Iterator[None]:
    """Takes away the cache that aider puts into the work tree, where it would be taken for work; an older one stays.

    Which ones are older is noted in the folder `notes` meanwhile. A Ralph that is killed leaves note and cache, and
    the next one takes that cache away before aider starts.
    """
    note = notes / f"aider-caches-{sha256(os.fsencode(workspace)).hexdigest()[:12]}"
    older = {cache.name for cache in workspace.glob(_CACHES)}
    with suppress(OSError):
        older &= set(note.read_text("utf-8", "replace").splitlines())
    _take_away(workspace, older)
    with suppress(OSError):
        note.write_text("\n".join(sorted(older)), "utf-8", "replace")
    try:
        yield
    finally:
        _take_away(workspace, older)
        with suppress(OSError):
            note.unlink(missing_ok=True)


def _take_away(workspace: Path, older: set[str]) -> None:
    for cache in workspace.glob(_CACHES):
        if cache.name not in older:
            shutil.rmtree(cache, ignore_errors=True)
