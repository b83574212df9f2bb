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

from rulebook_ralph.config import detection_node, detection_python
from rulebook_ralph.config.layers import BUILT_IN, LoadedConfig
from rulebook_ralph.config.manifests import LanguageGates, ManifestProject, step, table
from rulebook_ralph.config.settings import Config, StepKind, VerificationStep, Workspace
from rulebook_ralph.tasks.importers.source import SourceProblem

_KINDS: tuple[tuple[StepKind, tuple[str, ...]], ...] = (
    ("test", ("test", "tests", "check")),
    ("lint", ("lint",)),
    ("typecheck", ("typecheck", "type-check", "types")),
    ("build", ("build",)),
)
_TARGET = r"^(?:[\w./-]+ +)*{name}(?: +[\w./-]+)*[ \t]*::?(?![:=]|[^\n#]*=)(?:[ \t]*;?[ \t]*[\w$@(]|[^\n]*\n\t)"
_RECIPE = r"^@?{name}(?:[ \t]+(?:\*\w+|[$+]?\w+=\S+))*[ \t]*:(?!=)(?:[ \t]*[\w(&]|[^\n]*\n[ \t]+\S)"
_RUNNERS = (
    ("make", ("GNUmakefile", "makefile", "Makefile"), _TARGET),
    ("just", ("justfile", "Justfile", ".justfile", "JUSTFILE"), _RECIPE),
)
"""A target that does something, a recipe that does and needs no argument."""
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
    """Steps in the order test, lint, typecheck, build, with names of their own. `workspace` is what their clones need:
    what it copies or links is there, whether git holds it or not. `notes` are for a person, problems about manifests.
    """

    steps: tuple[VerificationStep, ...] = ()
    workspace: Workspace = Workspace()  # noqa: RUF009 - a frozen value
    notes: tuple[str, ...] = ()
    problems: tuple[SourceProblem, ...] = ()


def discover(root: Path, search_path: str | None = None) -> Discovery:
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
    notes = tuple(note for _, one in languages for note in one.notes)
    return Discovery(tuple(_named(found)), workspace, notes, tuple(dict.fromkeys(project.problems)))


def without_tracked(workspace: Workspace, tracked: Tracked) -> Workspace:
    """Of what is copied or linked, that of which git holds nothing: the rest is in every clone already."""
    paths = (*workspace.copy, *workspace.link)
    held = tracked(paths) if paths else ()
    return replace(
        workspace,
        copy=tuple(path for path in workspace.copy if path not in held),
        link=tuple(path for path in workspace.link if path not in held),
    )


def gates_or_found(
    loaded: LoadedConfig, root: Path, tracked: Tracked, search_path: str | None = None
) -> tuple[Config, Discovery | None]:
    """The configuration; where nobody said what the gates are, with those that `init` would find, and these. What a
    clone needs is found likewise where nobody said it: for gates that are configured, the folders that they name.
    """
    config, found = loaded.config, Discovery()
    if loaded.origins.get("verification.steps") == BUILT_IN and config.verification.enabled:
        found = discover(root, search_path)
    if config.workspace == Workspace():
        needed = found.workspace if found.steps else Workspace(link=_named_folders(root, config.verification.gates))
        config = replace(config, workspace=without_tracked(needed, tracked))
    if not found.steps:
        return config, None
    return replace(config, verification=replace(config.verification, steps=found.steps)), found


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
    return LanguageGates(tuple(steps), notes=("Cargo.toml: cargo needs no setup; each clone builds once",))


def _go(project: ManifestProject) -> LanguageGates:
    """`go test` and `go vet` over all packages of the module."""
    text = project.text("go.mod")
    if not re.search(r"^module\s+\S", text, re.MULTILINE):
        if text.strip():
            project.problem("go.mod", "names no module")
        return LanguageGates()
    steps = (step("test", "go test ./..."), step("lint", "go vet ./..."))
    return LanguageGates(steps, notes=("go.mod: go needs no setup; its caches are shared",))


def _targets(project: ManifestProject, tool: str, files: Sequence[str], pattern: str) -> Iterator[VerificationStep]:
    """`make X` and `just X` for targets of these kinds, where the tool is installed."""
    file = next((each for each in files if project.has(each)), "")
    text = _DEFINITION.sub("", project.text(file).replace("\\\n", " ")) if file else ""
    if not project.can_run(tool):
        return
    for kind, names in _KINDS:
        name = next((each for each in names if re.search(pattern.format(name=each), text, re.MULTILINE)), "")
        phony = re.search(rf"^\.PHONY[ \t]*:[^\n]*(?<![\w-]){name}(?![\w-])", text, re.MULTILINE)
        if tool == "make" and name and (project.root / name).exists() and not phony:
            message = f'the target "{name}" is not .PHONY and something of that name exists: make would do nothing'
            project.problem(file, message)
        elif name:
            yield step(kind, f"{tool} {name}")


_LANGUAGES: tuple[tuple[str, Callable[[ManifestProject], LanguageGates]], ...] = (
    ("python", detection_python.discover),
    ("node", detection_node.discover),
    ("rust", _rust),
    ("go", _go),
)
