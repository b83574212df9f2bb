"""The sandbox that agents, gates and criteria run in: bubblewrap, as an argument list.

Everything of the machine is as usual in it but for what a `Box` names: hidden folders are empty, other folders stand in
the place of real ones. Processes, /tmp and the runtime folder are its own and end with it, and it ends with the thread
that started it.
"""

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

_TMP = Path("/tmp")  # noqa: S108 - it is this very folder that is replaced
_PROBE_SECONDS = 10.0
_TEMPORARY = ("TMPDIR", "TMP", "TEMP")


@dataclass(frozen=True, slots=True)
class NoBox:
    """Why there is no sandbox on this machine, and what can be done, in one line."""

    reason: str


@dataclass(frozen=True, slots=True)
class Box:
    """What a process in the sandbox sees: the machine, and in this order, each over what came before it:

    an empty /tmp and runtime folder; `hidden` as empty folders (or files), where they exist; `binds` (real source,
    place inside) to be written to; `read_only` likewise. Sources are real paths, also of what is hidden.
    """

    bwrap: Path
    hidden: tuple[Path, ...] = ()
    binds: tuple[tuple[Path, Path], ...] = ()
    read_only: tuple[tuple[Path, Path], ...] = ()

    def argv(self, command: Sequence[str], cwd: Path, environment: Mapping[str, str] | None = None) -> tuple[str, ...]:
        """The command in the sandbox, to be started anywhere; `cwd` is a folder inside.

        What `environment` and `command` name below /tmp stays reachable (programs, a home), with all that lies beside
        it below the same folder of /tmp; so do the neighbours of a repository that lies there.
        """
        named = {*_paths_named(environment or {}), *(word for word in command if word.startswith("/"))}
        arguments = [str(self.bwrap), "--bind", "/", "/", "--dev-bind", "/dev", "/dev", "--proc", "/proc"]
        arguments += ["--unshare-pid", "--die-with-parent"]
        if os.geteuid() == 0:  # with it, umount would uncover what is hidden; others have none of root's capabilities
            arguments += ["--cap-drop", "CAP_SYS_ADMIN"]
        arguments += [*self._private_tmp(named), *_private_runtime(environment or {}), *_hiding(self.hidden)]
        for order, binds in (("--bind", self.binds), ("--ro-bind", self.read_only)):
            arguments += (word for source, place in binds for word in (order, str(source), str(place)))
        return (*arguments, "--chdir", str(cwd), "--", *command)

    def _private_tmp(self, named: Iterable[str]) -> Iterator[str]:
        tmp = _TMP.resolve()
        places = {place for _, place in self.binds}
        kept = {entry for path in (*named, *map(str, places)) for entry in _entries(path, tmp)}
        yield from ("--perms", "1777", "--tmpfs", str(tmp))
        for entry in sorted(kept - places):
            if os.path.islink(entry):  # noqa: PTH114 - see below
                yield from ("--symlink", str(entry.readlink()), str(entry))
            elif os.path.lexists(entry):  # false also where the name is too long for any file
                yield from ("--bind", str(entry), str(entry))


def probe_box(environment: Mapping[str, str]) -> Path | NoBox:
    """The bubblewrap program, if it is there and works: it is started once, which takes some milliseconds."""
    if sys.platform != "linux":
        return NoBox("there is no sandbox on this system (bubblewrap is for Linux); agents run outside of one")
    found = shutil.which("bwrap", path=environment.get("PATH", os.defpath))
    if found is None:
        return NoBox("no sandbox, as bwrap is not installed: install the package bubblewrap")
    bwrap = Path(found).absolute()
    argv = Box(bwrap).argv(("true",), Path("/"), environment)
    try:
        done = subprocess.run(
            argv,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PROBE_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        why = error.strerror if isinstance(error, OSError) else f"it has not ended within {_PROBE_SECONDS:.0f} s"
        return NoBox(f"no sandbox, as {bwrap} does not work: {why}")
    if done.returncode == 0:
        return bwrap
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    why = said[-1][:200] if said else f"exit code {done.returncode}"
    return NoBox(f"no sandbox, as {bwrap} does not work here ({why}); unprivileged user namespaces may be switched off")


def boxed_environment(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment for the sandbox: its own /tmp, and no build daemon that would find the real repository."""
    adjusted = {name: value for name, value in environment.items() if name not in (*_TEMPORARY, "WATCHMAN_SOCK")}
    gradle = " ".join(filter(None, (environment.get("GRADLE_OPTS", ""), "-Dorg.gradle.daemon=false")))
    return adjusted | {
        "TMPDIR": str(_TMP),
        "NX_DAEMON": "false",
        "GRADLE_OPTS": gradle,
        "SCCACHE_SERVER_UDS": str(_TMP / "sccache.sock"),
    }


def daemon_places(environment: Mapping[str, str], *, docker: bool = False) -> tuple[Path, ...]:
    """Where daemons that know the real repository by its path have their sockets, for `Box.hidden`."""
    home = Path(environment.get("HOME") or "/nonexistent")
    state = Path(environment.get("XDG_STATE_HOME") or home / ".local/state")
    places = [state / "watchman", Path("/usr/local/var/run/watchman"), Path("/var/run/watchman")]
    if not docker:
        host = environment.get("DOCKER_HOST", "")
        places += [Path("/var/run/docker.sock"), Path("/run/podman/podman.sock"), home / ".docker/run/docker.sock"]
        places += [Path(host.removeprefix("unix://"))] if host.startswith("unix:///") else []
    return tuple(places)


def _private_runtime(environment: Mapping[str, str]) -> Iterator[str]:
    """An empty runtime folder; an SSH agent's socket stays, as logins do."""
    folder = Path(environment.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    shared = (Path("/"), _TMP.resolve(), Path(environment.get("HOME") or "/").resolve())
    if not folder.is_absolute() or not folder.is_dir() or (folder := folder.resolve()) in shared:
        return
    yield from ("--perms", "0700", "--tmpfs", str(folder))
    agent = Path(environment.get("SSH_AUTH_SOCK") or "/")
    if agent.is_relative_to(folder) and agent.exists():
        yield from ("--bind", str(agent), str(agent))


def _hiding(hidden: Iterable[Path]) -> Iterator[str]:
    """What lies below something hidden is hidden with it; what is not there would be made on the real disk."""
    covered: list[Path] = []
    for path in sorted({path.resolve() for path in hidden}):
        if any(path.is_relative_to(other) for other in covered) or not os.path.lexists(path):
            continue
        if path.is_dir():
            covered.append(path)
            yield from ("--tmpfs", str(path))
        else:
            yield from ("--ro-bind", os.devnull, str(path))


def _paths_named(environment: Mapping[str, str]) -> Iterator[str]:
    for name, value in environment.items():
        if name not in _TEMPORARY:
            yield from (part for part in re.split(r"[:\s=]", value) if part.startswith("/"))


@lru_cache(maxsize=512)
def _entries(path: str, tmp: Path) -> frozenset[Path]:
    """The entries of /tmp that lead to the path, as it is written and as it really is."""
    found = {os.path.normpath(path), os.path.realpath(path)}
    pairs = ((spelled, folder) for spelled in found for folder in (f"{tmp}/", f"{_TMP}/") if spelled.startswith(folder))
    return frozenset(tmp / spelled.removeprefix(folder).partition("/")[0] for spelled, folder in pairs)
