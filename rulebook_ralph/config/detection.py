"""The gates that a project defines itself, and what a clone of it needs beside what git holds. Nothing is invented.

The manifests of languages come first (pyproject and its kin, package.json, Cargo.toml, go.mod); a Makefile or justfile
is asked only for kinds they leave open. One step for each kind and language. Nothing is run.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from msgspec.structs import replace

from rulebook_ralph.config import detection_python
from rulebook_ralph.config.layers import BUILT_IN, LoadedConfig
from rulebook_ralph.config.manifests import LanguageGates, ManifestProject, Table, step, table
from rulebook_ralph.config.settings import Config, StepKind, VerificationStep, Workspace
from rulebook_ralph.tasks.text import Problem

_TARGET = r"^(?:[\w./-]+ +)*{name}(?: +[\w./-]+)*[ \t]*::?(?![:=]|[^\n#]*=)(?:[ \t]*;?[ \t]*[\w$@(]|[^\n]*\n\t)"
_RECIPE = r"^@?{name}(?:[ \t]+(?:\*\w+|[$+]?\w+=\S+))*[ \t]*:(?!=)(?:[ \t]*[\w(&]|[^\n]*\n[ \t]+\S)"
_RUNNERS = (
    ("make", ("GNUmakefile", "makefile", "Makefile"), _TARGET),
    ("just", ("justfile", "Justfile", ".justfile", "JUSTFILE"), _RECIPE),
)
"""A target that does something, a recipe that does and needs no argument."""
_TARGETS: tuple[tuple[StepKind, tuple[str, ...]], ...] = (
    ("test", ("test", "tests", "check")),
    ("lint", ("lint",)),
    ("typecheck", ("typecheck", "type-check", "types")),
    ("build", ("build",)),
)
_DEFINITION = re.compile(r"^define .*?^endef", re.MULTILINE | re.DOTALL)
_LINKED = (("composer.json", "vendor"), ("Gemfile", "vendor/bundle"))
_NAMED_BY_GATES = (
    (".venv", r"\.venv/"),
    ("venv", r"(?<![.\w])venv/"),
    ("node_modules", r"\bnode_modules/|\b(?:npm|npx|pnpm|yarn|bunx?)\b"),
)
_COPIED = (".env", ".env.local", ".env.test")
Tracked = Callable[[Sequence[str]], Collection[str]]
"""Tells in which of some paths git holds something."""


@dataclass(frozen=True, slots=True)
class Discovery:
    """Steps in the order test, lint, typecheck, build, with names of their own. `workspace` is what their clones need
    beside what git holds. `notes` are for a person, problems about manifests.
    """

    steps: tuple[VerificationStep, ...] = ()
    workspace: Workspace = Workspace()  # noqa: RUF009 - a frozen value
    notes: tuple[str, ...] = ()
    problems: tuple[Problem, ...] = ()


def discover(root: Path, search_path: str | None = None, tracked: Tracked = lambda _: ()) -> Discovery:
    """Look for gates in the project's root folder. Never raises for what it finds there. `search_path` as in PATH."""
    project = ManifestProject(root, search_path)
    languages = [(label, look(project)) for label, look in _LANGUAGES]
    found = [(label, each) for label, one in languages for each in one.steps]
    for tool, files, pattern in _RUNNERS:
        kinds = {each.kind for _, each in found}
        found += [(tool, each) for each in _targets(project, tool, files, pattern) if each.kind not in kinds]
    order = get_args(StepKind)
    found.sort(key=lambda entry: order.index(entry[1].kind))
    links = [folder for manifest, folder in _LINKED if project.has(manifest) and (root / folder).is_dir()]
    workspace = Workspace(
        setup=" && ".join(one.setup for _, one in languages if one.setup),
        link=(*(link for _, one in languages for link in one.link), *links),
        copy=tuple(name for name in _COPIED if project.has(name)),
    )
    notes = tuple(one.note for _, one in languages if one.note)
    problems = tuple(dict.fromkeys(project.problems))
    return Discovery(tuple(_named(found)), _without_tracked(workspace, tracked), notes, problems)


def gates_or_found(
    loaded: LoadedConfig, root: Path, tracked: Tracked, search_path: str | None = None
) -> tuple[Config, Discovery | None]:
    """The configuration; where nobody said what the gates are, with those that `init` would find, and these. What a
    clone needs is found likewise where nobody said it: for gates that are configured, the folders that they name.
    """
    config, found = loaded.config, Discovery()
    if loaded.origins.get("verification.steps") == BUILT_IN and config.verification.enabled:
        found = discover(root, search_path, tracked)
    if config.workspace == Workspace():
        named = _without_tracked(Workspace(link=_named_folders(root, config.verification.gates)), tracked)
        config = replace(config, workspace=found.workspace if found.steps else named)
    if not found.steps:
        return config, None
    return replace(config, verification=replace(config.verification, steps=found.steps)), found


def _without_tracked(workspace: Workspace, tracked: Tracked) -> Workspace:
    """Of what is copied or linked, that of which git holds nothing: the rest is in every clone already."""
    held = tracked(paths) if (paths := (*workspace.copy, *workspace.link)) else ()
    copied, linked = ([path for path in paths if path not in held] for paths in (workspace.copy, workspace.link))
    return replace(workspace, copy=tuple(copied), link=tuple(linked))


def _named_folders(root: Path, steps: Sequence[VerificationStep]) -> tuple[str, ...]:
    """Folders of installed dependencies that commands of the steps cannot do without."""
    return tuple(
        folder
        for folder, pattern in _NAMED_BY_GATES
        if (root / folder).is_dir() and any(re.search(pattern, each.command) for each in steps)
    )


def _named(found: list[tuple[str, VerificationStep]]) -> list[VerificationStep]:
    """Each step called by its kind; with its language too where two share the kind."""
    kinds = [each.kind for _, each in found]
    return [
        replace(each, name=each.kind if kinds.count(each.kind) == 1 else f"{each.kind}-{label}")
        for label, each in found
    ]


def _targets(project: ManifestProject, tool: str, files: Sequence[str], pattern: str) -> Iterator[VerificationStep]:
    """`make X` and `just X` for targets of these kinds, where the tool is installed."""
    file = next((each for each in files if project.has(each)), "")
    text = _DEFINITION.sub("", project.text(file).replace("\\\n", " ")) if file else ""
    if not project.can_run(tool):
        return
    for kind, names in _TARGETS:
        name = next((each for each in names if re.search(pattern.format(name=each), text, re.MULTILINE)), "")
        phony = re.search(rf"^\.PHONY[ \t]*:[^\n]*(?<![\w-]){name}(?![\w-])", text, re.MULTILINE)
        if tool == "make" and name and (project.root / name).exists() and not phony:
            message = f'the target "{name}" is not .PHONY and something of that name exists: make would do nothing'
            project.problem(file, message)
        elif name:
            yield step(kind, f"{tool} {name}")


# Rust and Go: their own tools are there, and need no setup


def _rust(project: ManifestProject) -> LanguageGates:
    """`cargo test` and `cargo check`; `cargo clippy` only where the project configures it."""
    manifest = project.toml("Cargo.toml")
    if "package" not in manifest and "workspace" not in manifest:
        return LanguageGates()
    everything = " --workspace" if "workspace" in manifest else ""
    steps = [step("test", f"cargo test{everything}"), step("typecheck", f"cargo check{everything}")]
    configured = project.has("clippy.toml", ".clippy.toml") or table(manifest, "lints", "clippy")
    if configured or table(manifest, "workspace", "lints", "clippy"):
        steps.append(step("lint", f"cargo clippy{everything}"))
    return LanguageGates(tuple(steps), note="Cargo.toml: cargo needs no setup; each clone builds once")


def _go(project: ManifestProject) -> LanguageGates:
    """`go test` and `go vet` over all packages of the module."""
    text = project.text("go.mod")
    if re.search(r"^module\s+\S", text, re.MULTILINE):
        steps = (step("test", "go test ./..."), step("lint", "go vet ./..."))
        return LanguageGates(steps, note="go.mod: go needs no setup; its caches are shared")
    if text.strip():
        project.problem("go.mod", "names no module")
    return LanguageGates()


# Node: scripts of package.json, run by the package manager whose lock file is there


_MANAGERS = (
    ("pnpm", ("pnpm-lock.yaml",), "pnpm install --frozen-lockfile", "pnpm install --no-lockfile"),
    ("yarn", ("yarn.lock",), "yarn install --frozen-lockfile", "yarn install --no-lockfile"),
    ("bun", ("bun.lock", "bun.lockb"), "bun install --frozen-lockfile", "bun install --no-save"),
    ("npm", ("package-lock.json", "npm-shrinkwrap.json"), "npm ci", "npm install --no-package-lock"),
)
"""Lock files, how what they say is installed, and how what package.json says is without one."""
_DEPENDENCIES = ("dependencies", "devDependencies", "optionalDependencies", "peerDependencies", "workspaces")
_SCRIPTS: tuple[tuple[StepKind, tuple[str, ...]], ...] = (
    ("test", ("test", "test:ci", "test:run", "test:unit")),
    ("lint", ("lint", "lint:check", "lint:ci")),
    ("typecheck", ("typecheck", "type-check", "types:check", "check-types", "check:types", "tsc")),
    ("build", ("build",)),
)
_PLACEHOLDER = "no test specified"
_WATCHES = re.compile(
    r"(?<!\S)(?:--watch(?:All)?(?!\S*=false)(?![\w-])|nodemon|vitest (?:watch|dev)(?!\S))"
    r"|^(?!.*\b(?:npm|pnpm|yarn|bun)\b).*\s-w(?!\S)"  # the -w of a package manager names a workspace
)
_ONE_RUN = {"vitest": "--run", "ng": "--watch=false", "karma": "--single-run"}
_ENDING = frozenset(("run", "--run", "related", "bench", "list", "--watch=false", "--no-watch", "--single-run"))


def _node(project: ManifestProject) -> LanguageGates:
    """A step for each kind that a script is defined for, and what installs the dependencies."""
    manifest = project.json("package.json")
    lock, manager, setup = _manager(project, manifest)
    scripts = {
        name: command
        for name, command in table(manifest, "scripts").items()
        if isinstance(command, str) and command.strip() and _PLACEHOLDER not in command
    }
    steps = tuple(_script_steps(project, scripts, manager))
    if not (lock or any(manifest.get(key) for key in _DEPENDENCIES)):
        return LanguageGates(steps)
    if project.can_run(manager):
        return LanguageGates(steps, setup)
    if (project.root / "node_modules").is_dir():
        note = f"{manager} is not on PATH: node_modules is linked into clones, where no task can change it"
        return LanguageGates(steps, link=("node_modules",), note=note)
    return LanguageGates(steps, setup, note=f"{manager} is not on PATH: install it, for clones are set up with it")


def _manager(project: ManifestProject, manifest: Table) -> tuple[bool, str, str]:
    """Whether there is a lock file, the package manager, and how it installs what that, or else the manifest, says."""
    for manager, locks, setup, _ in _MANAGERS:
        if project.has(*locks):
            is_new = manager == "yarn" and project.has(".yarnrc.yml")  # from version 2 on
            return True, manager, "yarn install --immutable" if is_new else setup
    named = str(manifest.get("packageManager", "")).partition("@")[0]
    return next(((False, each, setup) for each, _, _, setup in _MANAGERS if each in (named, "npm")))


def _script_steps(project: ManifestProject, scripts: dict[str, str], manager: str) -> Iterator[VerificationStep]:
    """For each kind the first script that ends by itself, and looks rather than changes the tree."""
    for kind, names in _SCRIPTS:
        there = [name for name in names if name in scripts]
        ending = [name for name in there if not _WATCHES.search(scripts[name])]
        if ending:
            name = next((name for name in ending if "--fix" not in scripts[name]), ending[0])
            once = _to_run_once(re.split(r"&&|\|\||[;|&]", scripts[name])[-1].split())
            dashes = "-- " if once and manager == "npm" else ""  # only npm needs, and only npm removes them
            yield step(kind, f"{manager} run {name} {dashes}{once}".rstrip(), {"CI": "1"})
        elif there:
            problem = f'the script "{there[0]}" watches for changes and never ends: no {kind} step made of it'
            project.problem("package.json", problem)


def _to_run_once(words: list[str]) -> str:
    """What makes a command end that watches unless told otherwise; empty where nothing is needed."""
    tool = next((name for word in words if (name := word.rpartition("/")[2]) in _ONE_RUN), "")
    if not tool or not _ENDING.isdisjoint(words) or (tool == "ng" and "test" not in words):
        return ""
    return _ONE_RUN[tool]


_LANGUAGES: tuple[tuple[str, Callable[[ManifestProject], LanguageGates]], ...] = (
    ("python", detection_python.discover),
    ("node", _node),
    ("rust", _rust),
    ("go", _go),
)
