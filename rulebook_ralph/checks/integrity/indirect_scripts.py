"""What gates start by a target of make, a script of package.json, or another script, as these were at the base."""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from rulebook_ralph.checks.integrity.gate_commands import Gate, read_script
from rulebook_ralph.checks.integrity.known_programs import FILES_OF_RUNNERS
from rulebook_ralph.checks.integrity.make_targets import recipes
from rulebook_ralph.checks.integrity.node_scripts import commands_of
from rulebook_ralph.checks.integrity.script_files import are_alike, is_for_checks, is_shell

ReadBase = Callable[[Iterable[str]], Mapping[str, str]]
"""The texts of files at the base, those that are there; all of them in one question."""

_MAKEFILES = ("GNUmakefile", "makefile", "Makefile", "justfile", "Justfile", ".justfile")
_DEEPEST = 3
_MOST_READ, _MOST_LINES = 100, 2000
_LONGEST = 200_000
_LINK = re.compile(r"[\w.-]*[/.][\w./-]{0,500}")
_PYTHON_IMPORT = re.compile(r"^[ \t]*(?:from|import)[ \t]+([\w.]+)", re.MULTILINE)
_PYTHON_IMPORTS = re.compile(r"^[ \t]*(?:from[ \t]+([\w.]+)|import[ \t]+([\w., \t]+))", re.MULTILINE)
_OTHER_IMPORT = re.compile(
    r"(?:require|from|import|load|do|use|require_relative)\b[ \t(]*['\"](\.{0,2}/?[\w./-]+)['\"]"
)
_LOADS_ANY = re.compile(
    r"importlib|__import__|runpy|\bglob\b|iterdir|listdir|scandir|walk|discover|readdir|require\((?!\s*['\"])|"
    r"import\((?!\s*['\"])|Dir\[|Dir\.glob|opendir"
)


@dataclass(frozen=True, slots=True)
class PythonScript:
    """A script that a gate runs: its folder, and the top-level modules that it and its own ones import."""

    gate: str
    folder: str
    imported: frozenset[str]


@dataclass(slots=True)
class Followed:
    """What a gate starts through others: `recipes` by targets of make and scripts of package.json, `scripts` by the
    scripts whose `texts` (by path) were read. `is_open`: something of it may start what nothing tells.
    """

    recipes: list[Gate] = field(default_factory=list)
    scripts: list[Gate] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    runners: dict[str, str] = field(default_factory=dict)
    """The texts of files that runners go by."""
    links: set[str] = field(default_factory=set)
    """What is started under the name of a symbolic link."""
    is_open: bool = False

    def mention(self, path: str) -> bool:
        """Whether a script that was read names a file, loads it as a module, or loads whatever is beside it."""
        texts = (*self.texts.items(), *self.runners.items())
        return any(_mentions(text, by, path) for by, text in texts if by != path)

    def imports(self, path: str) -> bool:
        """Whether a script that was read names a file, or a module by the file's name."""
        stem = path.rpartition("/")[2].partition(".")[0]
        return any(are_alike(by, path) and _has_word(text, stem, before=r"\w-") for by, text in self.texts.items())

    def runner_names(self, path: str) -> bool:
        """Whether a runner's own file has the path of a script, from its folder on."""
        return "/" in path and any(_has_word(text, path) for text in self.runners.values())


def follow(gate: Gate, read_base: ReadBase) -> Followed:
    """Read what a gate starts, and what that starts in turn."""
    found = Followed(is_open=gate.open)
    level = [(gate, True)]
    texts: dict[str, str] = {}
    asked: set[str] = set()
    for _ in range(_DEEPEST + 1):
        wanted = list({path: None for each, _ in level for path in _files(each) if path not in asked})[:_MOST_READ]
        texts |= read_base(wanted) if wanted else {}
        asked |= set(wanted)
        following: list[tuple[Gate, bool]] = []
        for each, is_recipe in level:
            for reached in _targets(each, texts, found) if is_recipe else ():
                found.recipes.append(reached)
                following.append((reached, True))
            for reached in _scripts(each, texts, found):
                found.scripts.append(reached)
                following.append((reached, False))
        for path in {path for each, _ in level for path in _of_runners(each)} & texts.keys():
            found.runners[path] = texts[path][:_LONGEST]
        level = following
        if not level:
            return found
    found.is_open = True
    return found


def _files(gate: Gate) -> Iterator[str]:
    for home in sorted(gate.homes):
        names = (*(_MAKEFILES if gate.makes else ()), "package.json")
        yield from (posixpath.normpath(posixpath.join(home, name)) for name in names)
    yield from sorted(gate.followed)
    yield from sorted(_of_runners(gate))


def _of_runners(gate: Gate) -> set[str]:
    names = {name for program in gate.programs for name in FILES_OF_RUNNERS.get(program, ())}
    return {posixpath.normpath(posixpath.join(gate.folder, name)) for name in names}


def _targets(gate: Gate, texts: Mapping[str, str], found: Followed) -> Iterator[Gate]:
    """What is run by targets and scripts of package.json."""
    for home in sorted(gate.homes):
        at = "" if home == "." else f"{home}/"
        lines: list[str] = []
        for name in _MAKEFILES if gate.makes else ():
            if text := texts.get(f"{at}{name}"):
                lines += recipes(text[:_LONGEST], frozenset(gate.targets) or frozenset(("",)))
        if gate.scripts and (text := texts.get(f"{at}package.json")):
            lines += commands_of(text, gate.scripts)
        if not lines:
            found.is_open = True
            continue
        reached = read_script(lines[:_MOST_LINES], gate, home)
        found.is_open |= reached.open
        yield reached


def _scripts(gate: Gate, texts: Mapping[str, str], found: Followed) -> Iterator[Gate]:
    for path, folder in sorted(gate.followed.items()):
        if path in found.texts:
            continue
        text = texts.get(path)
        if text is None:
            found.is_open = True
            continue
        if target := _link_target(path, text):
            found.links.add(target)
            yield Gate(gate.name, gate.kind, folder, followed={target: folder})
            continue
        found.texts[path] = text[:_LONGEST]
        if is_shell(path, text):
            reached = read_script([text], gate, folder, path)
        else:
            found.is_open = True
            reached = Gate(gate.name, gate.kind, folder, followed=dict.fromkeys(_imports(text, path), folder))
        found.is_open |= reached.open
        yield reached


def _link_target(path: str, text: str) -> str | None:
    """What a symbolic link (its text is a path alone, without a line feed) leads to, where that can be a script."""
    if not _LINK.fullmatch(text):
        return None
    target = posixpath.normpath(posixpath.join(posixpath.dirname(path), text))
    return None if target.startswith(("..", "/")) else target


def imported_modules(path: str, text: str) -> frozenset[str]:
    """The top-level modules that a script of Python imports."""
    if not path.endswith(".py"):
        return frozenset()
    named = (name for line in _PYTHON_IMPORTS.findall(text) for part in line for name in part.split(","))
    return frozenset(name.strip().partition(" ")[0].partition(".")[0] for name in named) - {""}


def _imports(text: str, path: str) -> Iterator[str]:
    """Files beside a script that it loads by their names, where they are for checks."""
    folder, last = posixpath.dirname(path), path.rpartition(".")[2]
    names = [name.replace(".", "/") for name in _PYTHON_IMPORT.findall(text[:_LONGEST])] if last == "py" else []
    names += _OTHER_IMPORT.findall(text[:_LONGEST]) if last != "py" else []
    for name in names[:50]:
        file = posixpath.normpath(posixpath.join(folder, name))
        file = file if file.endswith(f".{last}") else f"{file}.{last}"
        if is_for_checks(file) and not file.startswith(".."):
            yield file


def _mentions(text: str, by: str, path: str) -> bool:
    folder, _, name = path.rpartition("/")
    if _has_word(text, name):
        return True
    if not are_alike(by, path) or not f"{folder}/".startswith(f"{posixpath.dirname(by)}/"):
        return False
    return _has_word(text, name.partition(".")[0], before=r"\w-") or _LOADS_ANY.search(text) is not None


def _has_word(text: str, word: str, before: str = r"\w.-") -> bool:
    return word in text and re.search(rf"(?<![{before}]){re.escape(word)}(?![\w-])", text) is not None
