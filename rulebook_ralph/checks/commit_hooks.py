"""The repository's own commit hooks, run on a candidate commit as git would run them."""

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Event

from rulebook_ralph import supervisor
from rulebook_ralph.checks.gates import Cancelled
from rulebook_ralph.core.streams import HeadTail

_NAMES = ("pre-commit", "commit-msg")
_LIMITS = supervisor.Limits(wall_time=900)


def there_are(hooks: Path) -> bool:
    """Whether the folder has a hook that a commit must pass."""
    return any(_is_hook(hooks / name) for name in _NAMES)


def run_hooks(
    message: str,
    *,
    root: Path,
    hooks: Path,
    index: Path,
    scratch: Path,
    environment: Mapping[str, str],
    clean: Callable[[str], str],
    cancelled: Event,
) -> str | None:
    """Run `pre-commit` and `commit-msg` from `hooks` where they exist; what they print if one refuses, else None.

    They see the candidate through GIT_INDEX_FILE. The message file lies in `scratch`; a hook's change to it is dropped,
    as the trailers must stay. Raises Cancelled.
    """
    message_file = scratch / "COMMIT_EDITMSG"
    for name, arguments in zip(_NAMES, ((), (str(message_file),)), strict=True):
        hook = hooks / name
        if not _is_hook(hook):
            continue
        scratch.mkdir(parents=True, exist_ok=True)
        message_file.write_text(message, "utf-8")
        output = HeadTail(head=8192, tail=16384)
        ended = supervisor.run(
            supervisor.Command(
                argv=(str(hook), *arguments),
                cwd=root,
                environment={**environment, "GIT_INDEX_FILE": str(index), "GIT_EDITOR": ":", "GIT_PREFIX": ""},
                merge_stderr=True,
            ),
            limits=_LIMITS,
            on_output=output.feed,
            cancelled=cancelled,
        )
        message_file.unlink(missing_ok=True)
        if ended.killed_by == "interrupted":
            raise Cancelled
        if ended.exit_code != 0:
            how = ended.failure.message if ended.failure else f"exit code {ended.exit_code}"
            return f"the {name} hook refused it ({how})\n{clean(output.text())}"
    return None


def _is_hook(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
