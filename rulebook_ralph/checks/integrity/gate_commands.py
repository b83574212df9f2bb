"""What a gate's command runs, as far as its words tell: tools, scripts of the repository, targets of runners."""

import posixpath
import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from rulebook_ralph.core.settings import StepKind, VerificationStep


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TOOLS: dict[str, str] = {
    name: name
    for name in _words(
        "pytest unittest coverage ruff flake8 pylint mypy pyright basedpyright ty black isort bandit doctest "
        "jest vitest mocha ava jasmine karma playwright cypress eslint tsc biome prettier stylelint oxlint xo "
        "standard nyc c8 tap golangci-lint gofmt staticcheck go cargo rubocop rspec phpunit pest phpstan "
        "psalm phpcs shellcheck hadolint yamllint markdownlint codespell typos swift dotnet"
    )
} | {"py.test": "pytest", "vue-tsc": "tsc", "react-scripts": "jest", "nose2": "unittest", "cargo-nextest": "cargo"}
_RUNNERS = _words(
    "tox nox rake gradle gradlew mvn mvnw task invoke inv poe hatch pre-commit docker docker-compose "
    "podman turbo nx lerna ant bazel bazelisk buck2 meson ninja cmake ctest scons doit sbt mix composer "
    "grunt gulp wireit deno moon pants act dagger earthly ant cabal stack zig lein rebar3 dune opam nix "
    "xcodebuild fastlane melos dart flutter"
)
"""What runs other things, by files of its own."""
MANAGER = "a-package-manager"
"""Stands among the tools of a gate for whichever of these it uses."""
_MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
_MANAGER_WORDS = frozenset(("run", "run-script", "exec", "x", "dlx", "-s", "--silent", "workspaces", "workspace"))
_MANAGER_OWN = frozenset(("install", "ci", "i", "add", "audit", "outdated", "why", "ls", "list", "--version"))
_MAKES = frozenset(("make", "gmake", "just"))
_SHELLS = _words("sh bash dash zsh ksh ash")
_INTERPRETERS = _words(
    "sh bash dash zsh ksh ash source . python python3 node ruby perl php tsx ts-node bun lua Rscript"
)
_WRAPPERS = _words(
    "env time exec command nice nohup stdbuf sudo ! if then else elif do while until xvfb-run dotenv npx "
    "bunx pnpx { catchsegv unbuffer cross-env"
)
_PREFIXES = (("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run"), ("rye", "run"), ("bundle", "exec"))
_HARMLESS = _words(
    "true false test [ [[ echo printf grep egrep fgrep rg cat cd export set unset ls mkdir rm cp mv ln "
    "touch diff cmp sed awk head tail wc find sort uniq tr cut tee sleep exit return wait trap fi done "
    "esac } case for in read shift pwd which type git date umask ulimit chmod basename dirname realpath "
    "jq curl sha256sum md5sum xargs kill :"
)
_SEPARATORS = frozenset(";&|()\n")
_DEEPEST = 3
_PYTHON = re.compile(r"python[\d.]*")


@dataclass(slots=True)
class Gate:
    """What one step runs. `opaque`: by something that may run anything. `paths` are scripts of the repository that it
    starts itself; `targets` and `scripts` what it asks of make or just, and of package.json; `places` all its words.
    """

    name: str
    kind: StepKind
    folder: str
    tools: set[str] = field(default_factory=set)
    opaque: bool = False
    paths: set[str] = field(default_factory=set)
    makes: bool = False
    targets: set[str] = field(default_factory=set)
    scripts: set[str] = field(default_factory=set)
    places: set[str] = field(default_factory=set)
    programs: set[str] = field(default_factory=set)


def read_gates(steps: Iterable[VerificationStep]) -> tuple[Gate, ...]:
    """What each step runs."""
    return tuple(read_gate(step) for step in steps)


def read_gate(step: VerificationStep) -> Gate:
    """What a step runs."""
    gate = Gate(step.name, step.kind, _within(".", step.working_dir))
    _read(step.command, gate, gate.folder, depth=0)
    return gate


def _read(command: str, gate: Gate, folder: str, *, depth: int) -> None:
    for words in _simple_commands(command):
        if words[0] == "cd":
            folder = _within(folder, words[1]) if len(words) > 1 else folder
        else:
            _read_words(words, gate, folder, depth=depth)


_LONGEST_COMMAND = 20_000


def _simple_commands(command: str) -> Iterator[list[str]]:
    """The words of each command of a shell's line."""
    command = command[:_LONGEST_COMMAND]  # shlex takes quadratic time
    lexer = shlex.shlex(command.replace("\\\n", " ").replace("\n", " ; "), posix=True, punctuation_chars=";&|()<>")
    lexer.commenters = ""
    try:
        tokens = list(lexer)
    except ValueError:
        tokens = re.findall(r"[;&|()]+|[^\s;&|()]+", command)
    words: list[str] = []
    for token in [*tokens, ";"]:
        if token and set(token) <= _SEPARATORS:
            if words:
                yield words
            words = []
        else:
            words.append(token)


def _read_words(words: Sequence[str], gate: Gate, folder: str, *, depth: int) -> None:
    words = _without_wrappers(words)
    if not words:
        return
    program, arguments = words[0], words[1:]
    base = posixpath.basename(program) or program
    gate.programs.add(base)
    gate.places |= {_within(folder, word) for word in arguments if not word.startswith("-")}
    if "/" in program:
        gate.paths.add(_within(folder, program))
    if base in _INTERPRETERS or _PYTHON.fullmatch(base):
        _read_interpreter(base, arguments, gate, folder, depth=depth)
    elif base in _MAKES:
        _read_make(arguments, gate, folder)
    elif base in _MANAGERS:
        _read_manager(arguments, gate, folder, depth=depth)
    elif base in _TOOLS:
        gate.tools.add(_TOOLS[base])
        if base == "coverage" and arguments[:1] == ["run"]:
            _read_interpreter("python", arguments[1:], gate, folder, depth=depth)
    elif base not in _HARMLESS:
        gate.opaque = True  # a known runner or a program of which nothing is known


def _without_wrappers(words: Sequence[str]) -> list[str]:
    left = list(words)
    while left:
        if re.fullmatch(r"[A-Za-z_]\w*=.*", left[0], re.DOTALL) or left[0] in _WRAPPERS:
            del left[0]
            while left and left[0].startswith("-") and left[0] != "-":
                del left[0]
        elif left[0] == "timeout":
            at = next((i for i, word in enumerate(left[1:], 1) if re.match(r"\d", word)), len(left) - 1)
            del left[: at + 1]
        elif tuple(left[:2]) in _PREFIXES:
            del left[:2]
            while left and left[0].startswith("-"):
                del left[0]
        else:
            break
    return left


def _read_interpreter(base: str, arguments: Sequence[str], gate: Gate, folder: str, *, depth: int) -> None:
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        option = rest.pop(0)
        if option.startswith("--") or not rest:
            continue
        if option in ("-W", "-X", "-r") or (option[-1] == "o" and base in _SHELLS):
            del rest[0]
            continue
        if option == "-m" and (_PYTHON.fullmatch(base) or base == "python"):
            _read_module(rest, gate, folder, depth=depth)
            return
        if option[-1] == "c" and base not in ("node", "ruby", "perl", "php"):
            if not _PYTHON.fullmatch(base) and depth < _DEEPEST:
                _read(rest[0], gate, folder, depth=depth + 1)
            else:
                gate.opaque = True
            return
    gate.opaque = True
    if rest:
        gate.paths.add(_within(folder, rest[0]))


def _read_module(rest: Sequence[str], gate: Gate, folder: str, *, depth: int) -> None:
    module = rest[0]
    gate.programs.add(module)
    if module in _TOOLS:
        _read_words(rest, gate, folder, depth=depth)
    elif module in _RUNNERS:
        gate.opaque = True
    else:
        gate.opaque = True
        path = module.replace(".", "/")
        gate.paths |= {_within(folder, name) for name in (f"{path}.py", f"{path}/__main__.py")}


def _read_make(arguments: Sequence[str], gate: Gate, folder: str) -> None:
    gate.opaque = gate.makes = True
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        if word in ("-C", "--directory", "-f", "--file", "--makefile", "--justfile") and rest:
            place = rest.pop(0)
            if word not in ("-C", "--directory"):
                gate.paths.add(_within(folder, place))
        elif not word.startswith("-") and "=" not in word:
            gate.targets.add(word)


def _read_manager(arguments: Sequence[str], gate: Gate, folder: str, *, depth: int) -> None:
    words = [word for word in arguments if not word.startswith("-")]
    if words and words[0] in _MANAGER_OWN:
        return
    gate.opaque = True
    gate.tools.add(MANAGER)
    runs = [word for word in words if word not in _MANAGER_WORDS]
    if runs:
        gate.scripts.add("test" if runs[0] in ("t", "tst") else runs[0])
        if runs[0] in _TOOLS:
            _read_words(runs, gate, folder, depth=depth)


def _within(folder: str, path: str) -> str:
    """A path from the repository's root."""
    return posixpath.normpath(posixpath.join(folder, path)).removeprefix("./")
