"""Puts into a gate what the commands of a shell run: tools, scripts, runners, and what these are given."""

import posixpath
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import takewhile

from rulebook_ralph.checks.integrity import known_programs as known
from rulebook_ralph.checks.integrity.gate import MANAGER, Gate
from rulebook_ralph.checks.integrity.program_words import (
    ASSIGNMENT,
    Asked,
    of_find,
    of_parallel,
    of_runner,
    of_xargs,
    without_wrappers,
)
from rulebook_ralph.checks.integrity.shell_reader import DEEPEST, ShellReader, named, within
from rulebook_ralph.checks.integrity.shell_values import UNKNOWN
from rulebook_ralph.checks.integrity.shell_words import BEGIN, END, Command, cleaned, split

_MANAGER_WORDS = frozenset(("run", "run-script", "exec", "x", "dlx", "workspaces", "workspace"))
_MANAGER_OWN = frozenset(("install", "ci", "i", "add", "audit", "outdated", "why", "ls", "list", "--version"))
_IN_OTHER_PACKAGES = re.compile(r"-w|--workspace|-r$|--recursive|--filter|-F|workspaces?$|--if-present")
_SCRIPT = re.compile(r"\.(?:sh|bash|zsh|ksh|py|pl|rb|bats|t|exp)$")
_BETWEEN = re.compile(r"[\s,:=]+")
_OPTION = re.compile(r"^-+[A-Za-z](?=[./])")
_MODULE = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_SUBSTITUTED = re.compile(rf"{BEGIN}(\d+){END}")
_IN_CODE = re.compile(r"[\w*-]*[/.][\w./*-]*")


class CommandReader(ShellReader):
    """Puts into a gate what commands run."""

    def __init__(self, gate: Gate) -> None:
        super().__init__()
        self._gate = gate

    def set_environment(self, variables: Mapping[str, str], folder: str) -> None:
        """What is in the environment of all commands."""
        for name, value in variables.items():
            self.values.assign(name, [cleaned(value)])
            self.loads(name, cleaned(value), folder)

    def loads(self, name: str, value: str, folder: str) -> None:
        """What programs load by themselves because a variable of the environment names it."""
        if name not in known.LOADING:
            return
        words = [word for whole in self.values.expand(value) for word in _BETWEEN.split(whole)]
        paths = [_OPTION.sub("", word) for word in words if "/" in word or _SCRIPT.search(word)]
        if known.LOADING[name] == "folders":
            self._gate.module_folders |= named(words, folder)
        elif known.LOADING[name] == "modules":
            self._start([f"{word.replace('.', '/')}.py" for word in words if _MODULE.fullmatch(word)], folder)
        else:
            self._start(paths or (words if known.LOADING[name] == "files" else []), folder, follow=True)
            self._gate.sourced |= named(paths, folder) if known.LOADING[name] == "files" else set()

    def _assign(self, word: str, folder: str) -> None:
        super()._assign(word, folder)
        name, _, value = word.partition("=")
        self.loads(name, value, folder)

    def saw(self, words: Iterable[str], folder: str) -> None:
        self._gate.seen |= named(words, folder)

    def run(self, words: Sequence[str], command: Command, folder: str, depth: int) -> None:
        if ASSIGNMENT.match(words[0]) or words[0] == "env":
            for word in takewhile(lambda word: word == "env" or word.startswith("-") or ASSIGNMENT.match(word), words):
                self.loads(*word.partition("=")[::2], folder)
        words = without_wrappers(words[:2000])
        if not words:
            return
        if depth > DEEPEST:
            self._untold()
        elif "$" not in words[0] and BEGIN not in words[0]:
            self._program(words, command, folder, depth)
        else:
            for value in self.values.expand(words[0], split=False)[:8]:
                if value.strip(UNKNOWN + " "):
                    self.run([*value.split(), *words[1:]], command, folder, depth + 1)
                else:
                    self._untold()
                    self._gate.given |= named(self._all(words[1:]), folder)
                    self._starts_others(words[1:], folder, depth)

    def _program(self, words: Sequence[str], command: Command, folder: str, depth: int) -> None:
        program, arguments = words[0], words[1:]
        base = posixpath.basename(program) or program
        gate = self._gate
        expanded = self._all(arguments)
        gate.programs.add(base)
        gate.places |= {within(folder, word) for word in expanded if not word.startswith("-") and UNKNOWN not in word}
        if base in ("xargs", "done"):
            gate.lists |= named(self._all(command.fed), folder)
        gate.inserted |= named(self._all(self._inserted(base, arguments)), folder)
        is_known = base in known.TOOLS or known.is_interpreter(base) or base in known.HARMLESS
        if "/" in program or _SCRIPT.search(program):
            self._start([program], folder, follow=not is_known and base != "activate")
        if known.is_interpreter(base):
            self._interpreter(base, arguments, command, folder, depth)
        elif base in known.MAKES:
            self._make(arguments, folder)
        elif base in known.MANAGERS:
            self._manager(arguments, command, folder, depth)
        elif base in known.TOOLS:
            gate.tools.add(known.TOOLS[base])
            if base == "coverage" and arguments[:1] == ["run"]:
                self._interpreter("python", arguments[1:], command, folder, depth)
        elif base in known.HARMLESS:
            self._harmless(base, arguments, expanded, folder, depth)
        elif program not in gate.paths:
            self._other(base, arguments, expanded, folder, depth)
        else:
            gate.opaque = True
            gate.given |= named(expanded, folder)

    def _harmless(self, base: str, arguments: Sequence[str], expanded: Sequence[str], folder: str, depth: int) -> None:
        if base not in ("find", "xargs"):
            self._gate.seen |= named(expanded, folder)
        if base in known.OF_A_FILE and "-f" in expanded[:-1]:
            self._start([expanded[expanded.index("-f") + 1]], folder)
        if base in ("find", "xargs"):
            asked = of_find(arguments) if base == "find" else of_xargs(arguments)
            self._gate.seen |= named(self._all(asked.places), folder)
            self._gate.lists |= named(self._all(asked.files), folder)
            self._runs(asked, folder, depth)
        elif base == "cat":
            self._gate.lists |= named(expanded, folder)

    def _other(self, base: str, arguments: Sequence[str], expanded: Sequence[str], folder: str, depth: int) -> None:
        """A known runner, or a program of which nothing is known: it may start what it is given."""
        self._untold(loose=False)
        if base == "parallel":
            asked = of_parallel(arguments)
            self._gate.seen |= named(self._all(asked.names), folder)
            self._runs(asked, folder, depth)
            return
        places = named(expanded, folder)
        self._gate.given |= places
        if base in known.STARTERS:
            self._gate.patterns |= places
        self._starts_others(arguments, folder, depth)
        for word in arguments if depth < DEEPEST else ():
            if " " in word:
                self.read(word, folder, depth + 1)

    def _starts_others(self, words: Sequence[str], folder: str, depth: int) -> None:
        """What stands after something of which nothing is known, and may be run by it or in its place."""
        at = next((at for at, word in enumerate(words) if known.runs_others(word)), None)
        if at is not None:
            self.run(words[at:], Command(), folder, depth + 1)

    def _inserted(self, base: str, words: Sequence[str]) -> Iterator[str]:
        """The files whose text a program gets in place of whole words: `$(cat FILE)`, `$(< FILE)`, and `@FILE`."""
        for word in words if base not in known.HARMLESS else ():
            if word.startswith("@"):
                yield word[1:]
            elif substituted := _SUBSTITUTED.fullmatch(word):
                for command in split(self._inner[int(substituted[1])], []):
                    yield from command.words[1:] if command.words[:1] == ["cat"] else ()
                    yield from () if command.words else command.fed

    def _runs(self, asked: Asked, folder: str, depth: int) -> None:
        for words in asked.runs[:20]:
            self.run(words, Command(), folder, depth + 1)

    def _interpreter(self, base: str, arguments: Sequence[str], command: Command, folder: str, depth: int) -> None:
        gate = self._gate
        rest = list(arguments)
        is_shell, is_python = base in known.SHELLS, known.is_python(base)
        while rest and rest[0].startswith("-") and rest[0] != "-":
            option = rest.pop(0)
            if option == "--test" and base == "node":
                gate.opaque = True
                gate.patterns |= named(self._all(rest), folder) or {"**/*[.-]test.*", "**/test.*", "**/test-*.*"}
                return
            if is_shell and not option.startswith("--") and "n" in option:
                return  # it only looks at the syntax
            if option.startswith("--") or not rest:
                continue
            if option in ("-W", "-X", "-r") or (option[-1] == "o" and is_shell):
                del rest[0]
            elif option == "-m" and is_python:
                self._module(rest, command, folder, depth)
                return
            elif option[-1] == "c" and base not in ("node", "ruby", "perl", "php"):
                self._code(rest, folder, depth, is_shell=is_shell)
                return
            elif option in ("-e", "-E", "-p", "-pe", "-ne") and not is_shell:
                self._code(rest, folder, depth, is_shell=False)
                return
        gate.opaque = True
        if rest and rest[0] != "-":
            self._script(base, rest, folder)
        else:
            self._reads(command, folder, depth, is_shell=is_shell)

    def _script(self, base: str, words: Sequence[str], folder: str) -> None:
        """A script with its arguments."""
        scripts = self.values.expand(words[0])
        if base in (".", "source"):
            self._gate.sourced |= named(scripts, folder)
        self._start(scripts, folder, follow=not words[0].endswith("/activate"))
        self._gate.given |= named(self._all(words[1:]), folder)

    def _code(self, rest: Sequence[str], folder: str, depth: int, *, is_shell: bool) -> None:
        """A program in a word."""
        self._gate.given |= named(self._all(rest[1:]), folder)
        if is_shell and depth < DEEPEST:
            self.read(rest[0], folder, depth + 1)
        else:
            self._untold()
            self._gate.seen |= named(_IN_CODE.findall(rest[0]), folder)

    def _reads(self, command: Command, folder: str, depth: int, *, is_shell: bool) -> None:
        """A program that comes by the standard input."""
        self._start(self._all(command.fed), folder, follow=True)
        if command.here and is_shell and depth < DEEPEST:
            self.read(command.here, folder, depth + 1)
        elif not command.fed:
            self._untold()

    def _module(self, rest: Sequence[str], command: Command, folder: str, depth: int) -> None:
        module = rest[0]
        self._gate.programs.add(module)
        if module in known.TOOLS:
            self.run(rest, command, folder, depth + 1)
            return
        self._untold(loose=False)
        if module in known.PROFILERS:
            self._start([word for word in self._all(rest[1:]) if _SCRIPT.search(word)], folder)
        elif module not in known.RUNNERS:
            path = module.replace(".", "/")
            self._start([f"{path}.py", f"{path}/__main__.py"], folder)
            self._gate.given |= named(self._all(rest[1:]), folder)

    def _make(self, arguments: Sequence[str], folder: str) -> None:
        gate = self._gate
        gate.opaque = gate.makes = True
        asked = of_runner(arguments, with_files=True)
        self._at_home(asked, folder)
        self._start(self._all(asked.files), folder)
        gate.targets |= {name for name in self._all(asked.names) if "=" not in name}

    def _manager(self, arguments: Sequence[str], command: Command, folder: str, depth: int) -> None:
        gate = self._gate
        asked = of_runner(arguments, with_files=False)
        words = asked.names
        if words and words[0] in _MANAGER_OWN:
            return
        gate.opaque = True
        gate.tools.add(MANAGER)
        gate.open |= any(map(_IN_OTHER_PACKAGES.match, arguments))
        self._at_home(asked, folder)
        runs = [word for word in words if word not in _MANAGER_WORDS]
        if runs:
            gate.scripts.add("test" if runs[0] in ("t", "tst") else runs[0])
            if runs[0] in known.TOOLS or known.runs_others(runs[0]):
                self.run(runs, command, folder, depth + 1)

    def _at_home(self, asked: Asked, folder: str) -> None:
        homes = [within(folder, place) for place in self._all(asked.places)] or [folder]
        self._gate.homes |= {home for home in homes if UNKNOWN not in home}
        self._gate.open |= any(sign in home for home in homes for sign in f"*?[{UNKNOWN}")

    def _start(self, words: Iterable[str], folder: str, *, follow: bool = False) -> None:
        gate = self._gate
        for word in words:
            place = within(folder, word)
            head, _, tail = place.partition(UNKNOWN)
            if place == head and any(sign in place for sign in "*?["):
                gate.patterns.add(place)
            elif place == head:
                gate.paths.add(place)
                gate.followed |= {place: folder} if follow else {}
            elif "/" in head or ("/" in tail and not tail.endswith("/")):
                gate.patterns.add(f"{head}*{tail}".replace(UNKNOWN, "*") if head else f"**{_end(place)}")
            else:
                self._untold()
        gate.open |= bool(gate.patterns)

    def _untold(self, *, loose: bool = True) -> None:
        self._gate.opaque = self._gate.open = True
        self._gate.loose |= loose

    def _all(self, words: Iterable[str]) -> list[str]:
        return [value for word in words for value in self.values.expand(word)]


def _end(place: str) -> str:
    """What follows the last unknown part, from a slash on."""
    return "/" + place.rpartition(UNKNOWN)[2].partition("/")[2]
