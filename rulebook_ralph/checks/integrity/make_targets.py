"""The targets of a Makefile or recipes of a justfile that a gate reaches, and what they read."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from rulebook_ralph.checks.integrity.program_words import UNTOLD

_RULE = re.compile(r"^@?(?P<names>[^\s:=#@][^:=#]*)::?(?![:=])(?P<needs>.*)$")
_VARIABLE = re.compile(
    r"^(?:(?:export|override|private|set|define)\s+)*(?P<name>[A-Za-z_][\w.-]*)\s*(?:[:?+!]{0,3}=.*)?$"
)
_INCLUDE = re.compile(r"\s*[-s]?include\s+(?P<files>[^#]*)")
_ALIAS = re.compile(r"^alias\s+(?P<name>[\w-]+)\s*:=\s*(?P<target>[\w-]+)")
_USED = re.compile(r"\$[({](\w[\w.-]*)|\{\{\s*(\w[\w-]*)")
_ALWAYS = frozenset(("SHELL", ".SHELLFLAGS", "MAKEFLAGS", "PATH", "shell", "positional-arguments", "dotenv-load"))
_LONGEST_LINE = 4000
_OF_CHECKS = re.compile(r"test|lint|check|type|build|\bci\b|cov|verif|spec|format|^all$", re.IGNORECASE)
_WORD = re.compile(r"[\w.%/-]+")
_REFERENCE = re.compile(r"\$[({]([^(){}$]*)[)}]|\{\{([^{}]*)\}\}")
_AUTOMATIC = re.compile(r"\$[@<^*+%|]")
_DOLLAR = "\ue000"
_NESTED, _LONGEST_VALUE, _MOST_REFERENCES = 4, 1000, 64
_LONGEST = 200_000
"""Letters of a file that are read as targets; what comes after them holds for all of these."""
_MOST_RECIPES = 200_000
"""Letters of commands that are given; what more there would be cannot be told."""
_LEAST_LINE = 20


@dataclass(frozen=True, slots=True)
class _File:
    rules: Mapping[str, str]
    """Name -> what it needs and does, all rules of that name together."""
    variables: Mapping[str, str]
    others: str
    first: str
    phony: frozenset[str]
    """Targets that are run whatever files there are."""
    included: tuple[str, ...]


def changed_targets(before: str, after: str, wanted: frozenset[str]) -> Iterator[tuple[str, str]]:
    """What of a file a gate reaches and was changed: what it is, and a text where it stands. `wanted` are the targets
    that gates name (an empty one is the first of the file); without any, those named like checks.
    """
    old, new = _read(before), _read(after)
    reached = _reached(old, wanted or frozenset(filter(_OF_CHECKS.search, old.rules)))
    for name in sorted(reached):
        if old.rules.get(name, "") != new.rules.get(name, ""):
            yield f"the target `{name}` was {'changed' if name in new.rules else 'removed'}", f"{name}:"
        elif name in old.phony and name not in new.phony:
            yield f"the target `{name}` is no phony one any more", ".PHONY"
    text = "\n".join({line for name in reached for line in old.rules.get(name, "").split("\n")})
    for name in sorted(_variables(old, text)):
        if old.variables.get(name) != new.variables.get(name):
            yield f"the variable `{name}` was changed, which a gate's target uses", name
    if old.others != new.others:
        yield "what holds for all targets was changed", ""


def recipes(text: str, wanted: frozenset[str]) -> Iterator[str]:
    """The commands of the targets that are reached from those, as a shell gets them; what they need stands after `:`.
    Variables have their values, and what cannot be told is `$?`.
    """
    file = _read(text)
    patterns = {name for name in file.rules if "%" in name}
    reached = _reached(file, wanted)
    if reached and "include" in file.others:
        yield UNTOLD
    values = {name: _value(said) for name, said in file.variables.items()}
    room = _MOST_RECIPES
    for name in sorted(reached | (patterns if reached else set())):
        for line in file.rules[name].split("\n"):
            room -= len(line) + _LEAST_LINE
            if room < 0:
                yield UNTOLD
                return
            yield _with_values(line, values).lstrip("@-+ ")


def done_by_files(text: str, wanted: frozenset[str]) -> set[str]:
    """Targets that are reached and would not be run were there a file or folder of their name: those that are neither
    phony nor make such a file themselves.
    """
    file = _read(text)
    if any(UNTOLD in name or "`" in name for name in file.phony):
        return set()
    always = file.phony | {name for name, lines in file.rules.items() if not lines.strip(":\n ")}
    return {
        name
        for name in _reached(file, wanted)
        if name not in always and _is_deed(name, file.rules[name], always) and "%" not in name
    }


def _is_deed(name: str, lines: str, always: frozenset[str]) -> bool:
    """Whether a target's commands are run for what they do, not for a file of its name."""
    needs = {word for line in lines.split("\n") if line.startswith(":") for word in line[1:].split()}
    commands = [line for line in lines.split("\n") if not line.startswith(":")]
    makes = re.compile(
        rf"\$@|\$[({{]@|(?:>|-o|\b(?:touch|mkdir|cp|mv|ln|install|tar)\b).{{0,300}}(?<![\w/.-]){re.escape(name)}(?![\w/.-])"
    )
    return bool(commands) and not needs & always and not any(map(makes.search, commands))


def included_files(text: str) -> tuple[str, ...]:
    """What a Makefile reads besides, as globs."""
    return _read(text).included


def _value(said: str) -> str:
    """What a variable is set to, by all lines that set it."""
    return said.partition("=")[2].strip()[:_LONGEST_VALUE].replace("\n", " ")


def _with_values(line: str, values: Mapping[str, str]) -> str:
    """A line of a recipe; functions that list files stand for their arguments."""

    def value(match: re.Match[str]) -> str:
        body = (match[1] or match[2] or "").strip()
        function, _, argument = body.partition(" ")
        if function in ("wildcard", "sort", "strip", "abspath", "realpath", "foreach", "filter"):
            return argument.rpartition(",")[2].strip()
        if function == "shell":
            return f"`{argument}`"
        name = body.partition(":")[0]
        return values.get(name, {"MAKE": "make", "CURDIR": "."}.get(name, UNTOLD))

    line = line.replace("$$", _DOLLAR)
    for _ in range(_NESTED):
        if len(line) > _LONGEST_LINE or not ("$" in line or "{{" in line):
            break
        line = _REFERENCE.sub(value, line, count=_MOST_REFERENCES)
    return _AUTOMATIC.sub(UNTOLD, line[:_LONGEST_LINE]).replace(_DOLLAR, "$").replace("%", "*")


def _reached(file: _File, wanted: frozenset[str]) -> set[str]:
    """Targets with those that they need or call."""
    reached: set[str] = set()
    seen: set[str] = set()
    waiting = [name or file.first for name in wanted]
    while waiting:
        name = waiting.pop()
        if name in reached or name not in file.rules:
            continue
        reached.add(name)
        lines = set(file.rules[name].split("\n")) - seen  # many targets may share theirs
        seen |= lines
        waiting += [word for line in lines for word in _WORD.findall(line) if word in file.rules]
    return reached


def _variables(file: _File, text: str) -> set[str]:
    """Variables that a text uses, and those that these use."""
    found = {name for name in file.variables if name in _ALWAYS}
    waiting = [text]
    while waiting:
        for one, two in _USED.findall(waiting.pop()):
            name = one or two
            if name not in found:
                found.add(name)
                waiting.append(file.variables.get(name, ""))
    return found | (_ALWAYS - {"PATH"})


def _read(text: str) -> _File:
    rules: dict[str, list[str]] = defaultdict(list)
    variables: dict[str, list[str]] = defaultdict(list)
    others = [text[_LONGEST:]] if len(text) > _LONGEST else []
    current: list[str] = []
    phony: list[str] = []
    included: list[str] = []
    first = ""
    for line in text[:_LONGEST].replace("\\\n", " ").split("\n"):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if line[0] in " \t" and current:
            done = " ".join(line.split())
            for name in current:
                rules[name].append(done)
            continue
        current = []
        if alias := _ALIAS.match(line):
            rules[alias["name"]].append(f": {alias['target']}")
        elif (rule := _RULE.match(line)) and not re.match(r"[^:]*[:?+!]=", line):
            current = [name for name in rule["names"].split() if name != ".PHONY"][:50]
            phony += [rule["needs"].split("#")[0]] if ".PHONY" in rule["names"] else []
            first = first or next((name for name in current if not name.startswith(".")), "")
            needs = f": {' '.join(rule['needs'].split('#')[0].split())}"
            for name in current:
                rules[name].append(needs)
        elif variable := _VARIABLE.match(line.strip()):
            variables[variable["name"]].append(line.strip())
        else:
            others.append(" ".join(line.split()))
            included += [found["files"]] if (found := _INCLUDE.match(line)) else []
    special = [name for name in rules if name.startswith(".") and name.isupper()]
    others += [f"{name}: {' '.join(rules.pop(name))}" for name in special]
    joined = {name: "\n".join(lines) for name, lines in rules.items()}
    said = {name: "\n".join(lines) for name, lines in variables.items()}
    values = {name: _value(text) for name, text in said.items()}
    names = frozenset(word for line in phony for word in _with_values(line, values).split())
    files = tuple(word for line in included for word in _with_values(line, values).split() if UNTOLD not in word)
    return _File(joined, said, "\n".join(others), first, names, files)
