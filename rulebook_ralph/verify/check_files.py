"""Check files: what gates judge the work by. Tests, their fixtures and configuration, and the scripts that gates run.

Everything else is product. A file of configuration is a check file where a gate runs the tool that reads it.
"""

import posixpath
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from rulebook_ralph.git.objects import Entry
from rulebook_ralph.git.repository import Repository
from rulebook_ralph.git.trees import Change, changes, with_entries
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.tasks.patterns import Globs
from rulebook_ralph.verify.check_tables import NpmScripts, Tables, tables_of

TESTS = (
    *("tests/", "test/", "testing/", "__tests__/", "spec/", "specs/", "e2e/", "cypress/", "testdata/", "__mocks__/"),
    *("test_*.py", "*_test.py", "*_tests.py", "tests.py", "conftest.py", "*_test.go", "*_test.*", "*-test.*"),
    *("*.test.*", "*.spec.*", "*_spec.*", "*Test.java", "*Tests.java", "*IT.java", "*Test.kt", "*Tests.cs"),
    *("test.js", "test.mjs", "test.cjs", "test.ts", "tests.rs", "*.t", "*.bats", "*Test.php"),
    *("__snapshots__/", "*.snap", "*.ambr", "golden/", "goldens/", "*.golden", "*.approved.*"),
    *("!.rulebook/tasks/", "!rulebook/tasks/", "!specs/**/*.md", "!.ralph/specs/"),
)
"""Tests and their fixtures; what describes tasks is none."""

CONFIGURATION = (
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "sitecustomize.py", "usercustomize.py"),
    *("*.pth", "*.egg-info/", "*.dist-info/", "node_modules/"),
    *("jest.config.*", "jest.setup.*", "vitest.config.*", "vitest.workspace.*", ".mocharc*"),
    *("karma.conf.*", "playwright.config.*", "cypress.config.*", "ava.config.*", ".taprc", ".rspec", "phpunit.xml*"),
    *(".config/nextest.toml", ".cargo/config*", ".npmrc"),
)
"""What test runners read before the first test."""

OF_TOOLS: dict[str, tuple[str, ...]] = {
    "make": ("Makefile", "makefile", "GNUmakefile", "*.mk"),
    "just": ("justfile", ".justfile", "*.just"),
    "task": ("Taskfile.y*ml",),
    "nox": ("noxfile.py",),
    "pre-commit": (".pre-commit-config.yaml",),
    "coverage": (".coveragerc",),
    "--cov": (".coveragerc",),
    "nyc": (".nycrc*",),
    "c8": (".c8rc*",),
    "ruff": ("ruff.toml", ".ruff.toml"),
    "flake8": (".flake8",),
    "pylint": (".pylintrc", "pylintrc"),
    "mypy": ("mypy.ini", ".mypy.ini"),
    "pyright": ("pyrightconfig.json",),
    "eslint": (".eslintrc*", "eslint.config.*", ".eslintignore"),
    "tsc": ("tsconfig*.json",),
    "biome": ("biome.json*",),
    "prettier": (".prettierrc*", "prettier.config.*", ".prettierignore"),
    "golangci-lint": (".golangci.*",),
    "clippy": ("clippy.toml", ".clippy.toml"),
    "rubocop": (".rubocop*.yml",),
    "rake": ("Rakefile",),
    "gradle": (),
}
"""Configuration that is a check file where a gate runs the tool."""

_SHELL = {"sh", "bash", "dash", "zsh", "ksh"}
_BEFORE = _SHELL | {"env", "timeout", "ionice", "setsid", "nohup", "sudo", "xargs"}
"""What runs a program that is named after it, behind options of its own."""
_READING = {"source", ".", "include", "-include"}
_RUNNING = re.compile(r"(?:python|pypy|node|deno|bun|ruby|perl|php|tsx|ts-node)[\d.]*")
_WRAPPERS = {"env", "time", "exec", "nice", "command", "npx", "uv", "poetry", "pdm", "hatch", "pipenv", "run", "if"}
_WRAPPERS |= {"then", "do", "else", "while", "!", "xvfb-run", "stdbuf", "bundle", "@"}
_RECIPES = {
    "make": ("Makefile", "makefile", "GNUmakefile"),
    "just": ("justfile", "Justfile", ".justfile"),
}
_ASSIGNED = re.compile(r"\w+=\S*")
_BETWEEN = re.compile(r"&&|\|\||[;&|()\n`{}]|\$\(")
_CODE = re.compile(
    r"""(\b(?:python[\d.]*|node|ruby|perl|php|bun|deno)\s(?:[^'"\n;|&]*\s)?(?:-c|-e|--eval|-p|--print)\s+)"""
    r"""(?:"(?:[^"\\]|\\.)*"|'[^']*')"""
)
"""What an interpreter is given in the command itself: code, which names no script."""
_SCRIPT = re.compile(r".+/.+|.+\.(?:sh|bash|py|js|mjs|cjs|ts|rb|pl|php)")
_NPM = {"npm", "yarn", "pnpm", "bun"}
_NPM_FOLDER = {"--prefix", "-C", "--dir", "--cwd"}
_OWN_FOLDER = re.compile(r"\$\(\s*dirname\s+[^()]*\)|\$\{(?:0|BASH_SOURCE(?:\[0\])?)%/\*\}")
_IN_OWN_FOLDER = re.compile(r"\$\(\s*cd\s+[\"']*([^\"'()&;]+)[\"']*\s*&&\s*pwd(?:\s+-P)?\s*\)")
_LOOKS = re.compile(r"(?<!\|)\|(?!\|)|\$\(|`|<\(")
_IMPORTED = re.compile(r"^\s*(?:from|import)\s+([A-Za-z_]\w*)", re.MULTILINE)
_MOST_SCRIPTS = 50
_MOST_READ = 200_000

Read = Callable[[str], str | None]
"""The text of a file of the base, None where there is none."""


@dataclass(frozen=True, slots=True)
class GateText:
    """A gate or a criterion's command, as far as it says what is read: the command, its folder and its variables.
    `product`: files that it runs and that are no check for that.
    """

    name: str
    command: str
    folder: str = "."
    is_test: bool = True
    variables: tuple[str, ...] = ()
    product: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CheckFiles:
    """Which files are check files for a set of gates. `scripts` maps each script to the gates that run it."""

    tests: Globs
    configuration: Globs
    scripts: dict[str, tuple[str, ...]]
    of_other_gates: dict[str, Globs]
    tables: Tables = field(default_factory=Tables)

    def is_check(self, path: str) -> bool:
        """Whether the whole file is one; of manifests only some tables are."""
        return (
            path in self.scripts
            or self.tests.match(path)
            or self.configuration.match(path)
            or any(globs.match(path) for globs in self.of_other_gates.values())
        )

    def is_test(self, path: str) -> bool:
        """Whether it is a test or a fixture: neither configuration nor a script that a gate runs."""
        return self.tests.match(path) and path not in self.scripts and not self.configuration.match(path)

    def other_gates(self, path: str, others: Iterable[str]) -> tuple[str, ...]:
        """Which of the `others`, gates that are no tests, read that file as their script or configuration."""
        return tuple(
            name
            for name in others
            if name in self.scripts.get(path, ())
            or (name in self.of_other_gates and self.of_other_gates[name].match(path))
        )


def check_files(gates: Sequence[GateText], *reads: Read, more: Sequence[str] = ()) -> CheckFiles:
    """The check files for those gates. Each of `reads` gives the texts of a commit whose gates count; `more` are a
    project's own globs (`checks`).
    """
    scripts: dict[str, tuple[str, ...]] = {}
    configuration = list(CONFIGURATION)
    others: dict[str, Globs] = {}
    npm, words = NpmScripts(), set[str]()
    for gate in gates:
        run, named = dict[str, None](), set[str]()
        for read in reads:
            found = _followed(gate, read, npm)
            run, named = run | found[0], named | found[1]
        scripts |= {script: (*scripts.get(script, ()), gate.name) for script in run}
        words |= named
        globs = [glob for tool, several in OF_TOOLS.items() if tool in named for glob in several]
        if gate.is_test:
            configuration += globs
        elif globs:
            others[gate.name] = Globs(globs)
    return CheckFiles(
        tests=Globs((*TESTS, *more)),
        configuration=Globs(configuration),
        scripts=scripts,
        of_other_gates=others,
        tables=Tables(frozenset(words), npm),
    )


def _followed(gate: GateText, read: Read, npm: NpmScripts) -> tuple[dict[str, None], set[str]]:
    """The scripts that a gate runs, and the words of all that it runs: its command, scripts, recipes, scripts of
    package.json, one leading to the next.
    """
    scripts, words, seen = dict[str, None](), set[str](), set[tuple[str, str]]()
    waiting = [(text, gate.folder) for text in (gate.command, *gate.variables)]
    while waiting and len(scripts) < _MOST_SCRIPTS:
        text, folder = waiting.pop()
        if (text, folder) in seen:  # a script of package.json that runs itself in each workspace
            continue
        seen.add((text, folder))
        new = {posixpath.basename(word) for word in re.findall(r"[\w./:@+-]+", text)} - words
        words |= new
        named = [file for _, file in _runs_in(text)]
        named += [file for tool in _RECIPES.keys() & new for file in _RECIPES[tool]]
        for path, content in _scripts_of(named, folder, read):
            if path not in scripts and path not in gate.product:
                scripts[path] = None  # also one that is not there yet: the gate would run it
                waiting.append((content, posixpath.dirname(path) if path.endswith(".mk") else folder))
        for command, place in _commands_in(text):
            if command[0] in _NPM:
                given = next((after for word, after in pairwise(command) if word in _NPM_FOLDER), "")
                within = posixpath.normpath(posixpath.join(folder, place, given))
                names = [word for word in command[1:] if not word.startswith("-")]
                waiting += [(each, within) for each in npm.follow(names, within, read)]
    return scripts, words


def _scripts_of(named: list[str], folder: str, read: Read) -> Iterator[tuple[str, str]]:
    """Those scripts, and the modules that one in Python imports from its own folder, which holds no product; each by
    its path and text.
    """
    seen = set[str]()
    while named:
        name = named.pop(0)
        path = _inside(folder, name)
        if path is None or path in seen:
            continue
        seen.add(path)
        content = (read(path) or "")[:_MOST_READ]
        if name.endswith(".py") and "/" in name:
            beside = (f"{posixpath.dirname(name)}/{module}.py" for module in _IMPORTED.findall(content))
            named += [each for each in beside if read(_inside(folder, each) or "") is not None]
        own = posixpath.relpath(posixpath.dirname(path) or ".", folder)
        yield path, _IN_OWN_FOLDER.sub(r"\1", _OWN_FOLDER.sub(own, content))


def programs_of(command: str, folder: str) -> Iterator[str]:
    """The files that a command has an interpreter other than a shell run, by their paths in the repository."""
    for program, file in _runs_in(command):
        if _RUNNING.fullmatch(program) and _SCRIPT.fullmatch(file) and (path := _inside(folder, file)) is not None:
            yield path


def decides_itself(external: External) -> bool:
    """Whether a command looks at the output of what it runs, so that not the program's exit code alone decides."""
    return bool(external.output_contains or external.output_not_contains or _LOOKS.search(external.command))


def _commands_in(text: str) -> Iterator[tuple[list[str], str]]:
    """The words of each simple command of a shell text, without what is put before programs; and the folder that `cd`
    led to before it.
    """
    folder = ""
    text = _CODE.sub(r"\1", text.replace("$PWD/", "").replace("${PWD}/", ""))
    for command in _BETWEEN.split(text):
        words = [word.strip("'\"@") for word in command.split()]
        while words and (words[0] in _WRAPPERS or _ASSIGNED.fullmatch(words[0])):
            words.pop(0)
        if words and words[0] == "cd" and len(words) > 1:
            folder = posixpath.join(folder, words[1])
        elif words:
            yield words, folder


def _runs_in(text: str) -> Iterator[tuple[str, str]]:
    """The files that a shell text runs, each with the program that runs it; empty where it is the command itself."""
    for words, folder in _commands_in(text):
        may_follow = posixpath.basename(words[0]) in _BEFORE
        for index, word in enumerate(words if may_follow else words[:1]):
            program, given = posixpath.basename(word), words[index + 1 :]
            if program in _SHELL or _RUNNING.fullmatch(program) or (index == 0 and program in _READING):
                yield from ((program, posixpath.join(folder, script)) for script in _first_script(given))
                if "-c" not in given:
                    break
        if words[0] not in _READING and _SCRIPT.fullmatch(words[0]):
            yield "", posixpath.join(folder, words[0])


def _first_script(words: Sequence[str]) -> Sequence[str]:
    """The first word that looks like a file; where none does, the first that is no option."""
    for word, after in zip(words, (*words[1:], ""), strict=False):
        if word == "-m" and after:
            module = after.replace(".", "/")
            return f"{module}.py", f"{module}/__main__.py"
        if word in ("-c", "-e", "--eval", "--test"):
            return ()
        if not word.startswith("-") and _SCRIPT.fullmatch(word):
            return (word,)
    return [word for word in words if not word.startswith("-")][:1]


def _inside(folder: str, name: str) -> str | None:
    """The path in the repository of what a text names in that folder; None for what lies outside."""
    if name.startswith(("/", "~", "$")):
        return None
    path = posixpath.normpath(posixpath.join(folder, name))
    return None if path.startswith("..") else path


# Trees

Free = Callable[[str], bool]
"""Whether a task may change a check file without being asked."""

_REGULAR = "100"
_LARGEST = 1024 * 1024


def changed_checks(repository: Repository, old: str, new: str, files: CheckFiles) -> tuple[Change, ...]:
    """The check files, and the manifests with check tables, that differ. Raises GitError."""
    return tuple(
        change
        for change in changes(repository, old, new)
        if files.is_check(change.path)
        or (tables_of(change.path) and files.tables.differ(change.path, *_texts(repository, change)))
    )


def with_checks(repository: Repository, code: str, checks: str, files: CheckFiles, *, free: Free) -> str:
    """The tree of `code` with exactly the check files of `checks`, but for those that are `free`. Raises GitError."""
    entries: list[tuple[str, Entry | None]] = []
    for change in changes(repository, checks, code):
        if free(change.path):
            continue
        if files.is_check(change.path):
            entries.append((change.path, change.before))
        elif tables_of(change.path) and change.after and change.after.mode.startswith(_REGULAR):
            before, after = _texts(repository, change)
            mixed = files.tables.mixed(change.path, after, before)
            if mixed != after:
                oid = repository.objects.blob(mixed.encode("utf-8", "surrogateescape"))
                entries.append((change.path, Entry(change.after.mode, oid)))
    return with_entries(repository, repository.tree_of(code), tuple(entries))


def _texts(repository: Repository, change: Change) -> tuple[str, str]:
    """The two versions of a manifest; empty for one that is not there, or is no plain file of a usual size."""

    def text(entry: Entry | None) -> str:
        found = repository.objects.read(entry.oid) if entry and entry.mode.startswith(_REGULAR) else None
        return found.decode("utf-8", "surrogateescape") if found and len(found) <= _LARGEST else ""

    return text(change.before), text(change.after)
