"""Commands that came from others run only after a person agreed.

One's own is what is uncommitted, what a commit brought that HEAD's reflog shows as made here, and what ran as one's own
before. All else asks: what came with a clone, a pull or an import. What was agreed to is kept by digest, in a file of
the user's outside every repository.
"""

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import msgspec

from rulebook_ralph.config.commands import ConfiguredCommand, commands_of_config, commands_of_tasks
from rulebook_ralph.config.layers import PROJECT_CONFIG, LoadedConfig, config_of
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.model import STATE_FOLDER, Task
from rulebook_ralph.tasks.plain_yaml import NotReadableError
from rulebook_ralph.tasks.prd_file import decode_prd_quick

PRD = f"{STATE_FOLDER}/prd.json"
_LARGEST = {PROJECT_CONFIG: 1024 * 1024, PRD: 64 * 1024 * 1024}
"""Bytes of a committed version that are looked at; in a larger one any command may stand."""
_LARGEST_RECORD = 8 * 1024 * 1024
_MOST_ENTRIES = "2000"
_MOST_COMMITS = 200
"""Of HEAD's reflog: entries that are listed, and commits among them whose configuration and tasks are read."""
_MADE_HERE = ("commit:", "commit (initial):", "commit (amend):", "commit (merge):", "am:", "ralph")
_LINK = "120000"

Digests = frozenset[str]


class Ask(Protocol):
    """The output of a git command in the repository; None where it failed."""

    def __call__(self, *arguments: str, stdin: bytes | None = None) -> bytes | None: ...


@dataclass(frozen=True, slots=True)
class TrustScope:
    """A project: its root, the git folder that its work trees share, by which it is known, the folder of records."""

    root: Path
    common_dir: Path
    records: Path


@dataclass(frozen=True, slots=True)
class ProjectCommands:
    """All that the project can have run, each once, and those among them that came from others."""

    all: tuple[ConfiguredCommand, ...]
    new: tuple[ConfiguredCommand, ...]


class TrustRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Digests of commands. `imported` came with files of tasks that others wrote, although no commit holds them."""

    repository: str
    agreed: Digests = frozenset()
    imported: Digests = frozenset()


def records_folder(environment: Mapping[str, str], home: Path) -> Path:
    """Where the records are; a relative XDG_STATE_HOME is ignored, as its specification asks."""
    configured = Path(environment.get("XDG_STATE_HOME", ""))
    return (configured if configured.is_absolute() else home / ".local" / "state") / "rulebook-ralph" / "trust"


def look(place: TrustScope, loaded: LoadedConfig, tasks: Iterable[Task], ask: Ask) -> ProjectCommands:
    """The commands of a project; what the user's own file or the command line says is the user's. What is found to be
    one's own is written down, so that it stays so once pushed.
    """
    configured = commands_of_config(loaded.config)
    of_project = (each for each in configured if PROJECT_CONFIG in loaded.origins.get(each.key, ""))
    every = {each.digest: each for each in (*of_project, *commands_of_tasks(tasks))}
    record = read(place)
    unknown = frozenset(every.keys() - record.agreed)
    own = own_commands(place.root, unknown - record.imported, ask) if unknown - record.imported else frozenset()
    if own:
        with suppress(RalphError):  # where nothing can be written they are found again to be one's own
            write(place, agreed=record.agreed | own, imported=record.imported)
    new = tuple(each for digest, each in every.items() if digest in unknown - own)
    return ProjectCommands(tuple(every.values()), new)


def agree(place: TrustScope, commands: Iterable[ConfiguredCommand]) -> None:
    """Write down that a person agreed. Raises RalphError."""
    record = read(place)
    agreed = frozenset(each.digest for each in commands)
    write(place, agreed=record.agreed | agreed, imported=record.imported - agreed)


def imported(
    place: TrustScope, tasks: Iterable[Task], sources: Sequence[Path], ask: Ask
) -> tuple[ConfiguredCommand, ...]:
    """The commands of tasks that were read from these files, and that have to be agreed to because the files are not
    one's own; this is written down. Raises RalphError.
    """
    record = read(place)
    brought = {each.digest: each for each in commands_of_tasks(tasks) if each.digest not in record.agreed}
    if not brought or all(_is_own_file(place.root, source, ask) for source in sources):
        return ()
    write(place, agreed=record.agreed, imported=record.imported | brought.keys())
    return tuple(brought.values())


# The record


def read(place: TrustScope) -> TrustRecord:
    """The project's record; an empty one where there is none that can be believed."""
    file, nothing = record_file(place), TrustRecord(repository=_name(place))
    try:
        record = msgspec.json.decode(disk.read_file(file, largest=_LARGEST_RECORD), type=TrustRecord)
    except (OSError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return nothing
    return record if record.repository == nothing.repository and not _is_within(file, place) else nothing


def write(place: TrustScope, *, agreed: Digests, imported: Digests = frozenset()) -> None:
    """Replace the record. Raises RalphError where it cannot be written, or would lie in the project itself."""
    file = record_file(place)
    if _is_within(file, place):
        raise RalphError(f"{file} would lie within the project; set XDG_STATE_HOME to a folder outside of it")
    disk.make_folder(file.parent)
    record = {"repository": _name(place), "agreed": sorted(agreed), "imported": sorted(imported)}
    disk.replace_file(file, msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


def record_file(place: TrustScope) -> Path:
    return place.records / f"{hashlib.sha256(os.fsencode(place.common_dir)).hexdigest()[:32]}.json"


def _name(place: TrustScope) -> str:
    return os.fsencode(place.common_dir).decode("utf-8", "backslashreplace")


def _is_within(file: Path, place: TrustScope) -> bool:
    """Whether the record would be a file of the project, and could come with it."""
    resolved = file.resolve()
    return any(resolved.is_relative_to(folder.resolve()) for folder in (place.root, place.common_dir))


# What is one's own


def own_commands(root: Path, wanted: Digests, ask: Ask) -> Digests:
    """Which of the wanted commands, which stand in the work tree, are one's own. None where git cannot tell."""
    heads = ["HEAD", *(["MERGE_HEAD"] if ask("rev-parse", "-q", "--verify", "MERGE_HEAD") else [])]
    held = _digests_in(heads, ask)
    if held is None or _is_elsewhere(root, ask):
        return frozenset()
    own = wanted - held
    left = wanted - own
    for commit, before in _touching(_made_here(ask), ask)[:_MOST_COMMITS] if left else ():
        now, earlier = _digests_in([commit], ask), _digests_in(before, ask)
        if now is not None and earlier is not None:
            own |= left & (now - earlier)
            left -= own
        if not left:
            break
    return own


def _is_elsewhere(root: Path, ask: Ask) -> bool:
    """Whether the files that Ralph reads may be others than those of these names in commits: by a link, a submodule, or
    another spelling where the disk ignores case.
    """
    if any((root / name).is_symlink() for name in (STATE_FOLDER, *_LARGEST)):
        return True
    known = {STATE_FOLDER, *_LARGEST}
    listed = [ask("ls-tree", "-z", "HEAD", *folder) or b"" for folder in ((), (f"{STATE_FOLDER}/",))]
    entries = [os.fsdecode(each).partition("\t") for each in b"\0".join(listed).split(b"\0")]
    return any(
        name.casefold() in known and (name not in known or (name == STATE_FOLDER and " tree " not in about))
        for about, _, name in entries
    )


def _made_here(ask: Ask) -> list[tuple[str, tuple[str, ...]]]:
    """The commits that HEAD's reflog shows as made here, newest first, each with its parents and where HEAD was."""
    listed = ask("log", "-g", "--no-show-signature", "-n", _MOST_ENTRIES, "--format=%H%x00%P%x00%gs", "HEAD", "--")
    entries = [line.split("\0") for line in os.fsdecode(listed or b"").splitlines()]
    entries = [entry for entry in entries if len(entry) == 3]  # noqa: PLR2004 - the three fields
    return [
        (commit, tuple(dict.fromkeys((*parents.split(), *before[:1]))))
        for (commit, parents, message), before in zip(entries, [*entries[1:], []], strict=False)
        if message.startswith(_MADE_HERE)
    ]


def _touching(commits: list[tuple[str, tuple[str, ...]]], ask: Ask) -> list[tuple[str, tuple[str, ...]]]:
    """Those of the commits that changed the configuration or the task list."""
    names = "".join(f"{commit}\n" for commit, _ in commits).encode("ascii")
    options = ("-r", "-m", "--root", "--name-only", "--no-renames")
    told = ask("diff-tree", "--stdin", *options, "--", PROJECT_CONFIG, PRD, stdin=names) if commits else None
    touching = set((told or b"").decode("utf-8", "replace").split("\n"))
    return [each for each in commits if each[0] in touching]


def _digests_in(commits: Sequence[str], ask: Ask) -> Digests | None:
    """The commands in these commits together; None where that cannot be told."""
    found: Digests = frozenset()
    for commit in commits:
        listed = ask("ls-tree", "-z", "-l", commit, "--", *_LARGEST)
        if listed is None:
            return None
        for entry in filter(None, listed.split(b"\0")):
            about, _, name = os.fsdecode(entry).partition("\t")
            mode, _, _, size = about.split()
            if mode == _LINK or not size.isdigit() or int(size) > _LARGEST[name]:
                return None
            data = ask("cat-file", "--filters", f"{commit}:{name}")  # as git writes it into a work tree
            digests = None if data is None else _of_prd(data) if name == PRD else _of_config(data)
            if digests is None:
                return None
            found |= digests
    return found


def _of_config(data: bytes) -> Digests | None:
    """The commands of a version; None where it cannot be read."""
    try:
        return frozenset(each.digest for each in commands_of_config(config_of(data)))
    except (RalphError, NotReadableError, UnicodeDecodeError):
        return None


def _of_prd(data: bytes) -> Digests | None:
    try:
        return frozenset(each.digest for each in commands_of_tasks(decode_prd_quick(data).tasks))
    except RalphError:
        return None


def _is_own_file(root: Path, source: Path, ask: Ask) -> bool:
    """Whether a file or folder lies in the project, and every commit that touched it was made here."""
    if source.is_symlink() or not source.resolve().is_relative_to(root.resolve()):
        return False
    name = source.resolve().relative_to(root.resolve()).as_posix()
    path = f":(literal){name}" if name != "." else "."
    listed = ask("log", "--no-show-signature", "--full-history", "--format=%H", "HEAD", "--", path)
    return listed is not None and {*listed.decode("ascii").split()} <= {commit for commit, _ in _made_here(ask)}
