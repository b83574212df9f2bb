"""The configuration's files while a run goes on: read again when a person has edited one."""

from collections.abc import Callable
from pathlib import Path

from rulebook_ralph.clock import Clock
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import disk


class SettingsFiles:
    """Knows what the files were when they were read last; `read` makes a configuration of them."""

    def __init__(self, files: tuple[Path, ...], read: Callable[[], Config], *, clock: Clock) -> None:
        self._files = files
        self._read = read
        self._clock = clock
        self._seen = self._fingerprints()

    def edited(self) -> Config | None:
        """The configuration where a file was changed, None where none was. Raises RalphError, once for each change."""
        now = self._fingerprints()
        if now == self._seen:
            return None
        try:
            config = self._read()
        except RalphError:
            if any(disk.is_being_saved(file, self._clock.now()) for file in self._files):
                return None
            self._seen = now
            raise
        self._seen = now
        return config

    def _fingerprints(self) -> list[disk.Fingerprint | None]:
        return [disk.fingerprint(file) for file in self._files]
