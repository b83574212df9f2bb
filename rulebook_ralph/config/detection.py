"""The gates that a project defines itself, and what a clone of it needs beside what git holds. Nothing is invented.

The manifests of languages come first (pyproject and its kin, package.json, Cargo.toml, go.mod); a Makefile or justfile
is asked only for kinds they leave open. One step for each kind and language. Nothing is run.
"""

import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

import msgspec

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
_RULE = re.compile(r"([A-Za-z0-9_.][\w./-]*(?:[ \t]+[\w./-]+)*)[ \t]*::?(?![:=])(.*)")
_ASSIGNMENT = re.compile(r"[ \t]*(?:(?:export|override|private)[ \t]+)*[\w.-]+[ \t]*(?::|::|\?|\+|!)?=")
_RECIPE = re.compile(r"@?([A-Za-z_][\w-]*)((?:[ \t]+[^\s:]+)*)[ \t]*:(?!=)(.*)")
_LINKED = (("composer.json", "vendor"), ("Gemfile", "vendor/bundle"))
Ignored = Callable[[Sequence[str]], Collection[str]]
"""Tells which of some paths git ignores (`git check-ignore`)."""
_COPIED = (".env", ".env.local", ".env.test")


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
    found: list[tuple[str, VerificationStep]] = []
    languages = [(label, look(project)) for label, look in _LANGUAGES]
    found += [(label, each) for label, one in languages for each in one.steps]
    for label, look in _TARGETS:
        kinds = {each.kind for _, each in found}
        found += [(label, each) for each in look(project).steps if each.kind not in kinds]
    order = get_args(StepKind)
    found.sort(key=lambda entry: order.index(entry[1].kind))
    links = [folder for manifest, folder in _LINKED if project.has(manifest) and (root / folder).is_dir()]
    workspace = Workspace(
        setup=" && ".join(one.setup for _, one in languages if one.setup),
        link=(*(link for _, one in languages for link in one.link), *links),
        copy=tuple(name for name in _COPIED if project.has(name)),
    )
    notes = tuple(note for _, one in languages for note in one.notes)
    return Discovery(tuple(_named(found)), workspace, notes, tuple(project.problems))


def without_tracked(workspace: Workspace, ignored: Ignored) -> Workspace:
    """Of what is copied or linked, that which git ignores: the rest is in every clone, or nobody's to share."""
    paths = (*workspace.copy, *workspace.link)
    kept = ignored(paths) if paths else ()
    return msgspec.structs.replace(
        workspace,
        copy=tuple(path for path in workspace.copy if path in kept),
        link=tuple(path for path in workspace.link if path in kept),
    )


def gates_or_found(
    loaded: LoadedConfig, root: Path, ignored: Ignored, search_path: str | None = None
) -> tuple[Config, Discovery | None]:
    """The configuration; where nobody said what the gates are, with those that `init` would find, and these. What a
    clone needs is found likewise where nobody said it.
    """
    config = loaded.config
    unsaid = loaded.origins.get("verification.steps") == BUILT_IN and config.verification.enabled
    found = discover(root, search_path) if unsaid else Discovery()
    if not found.steps:
        return config, None
    verification = msgspec.structs.replace(config.verification, steps=found.steps)
    unset = config.workspace == Workspace()
    workspace = without_tracked(found.workspace, ignored) if unset else config.workspace
    return msgspec.structs.replace(config, verification=verification, workspace=workspace), found


def _named(found: list[tuple[str, VerificationStep]]) -> list[VerificationStep]:
    """Each step called by its kind; with its language too where two share the kind."""
    kinds = [each.kind for _, each in found]
    return [
        msgspec.structs.replace(each, name=each.kind if kinds.count(each.kind) == 1 else f"{each.kind}-{label}")
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


def _make(project: ManifestProject) -> LanguageGates:
    """`make X` for targets with a recipe or prerequisites. `check` is a test target where there is no `test`."""
    name = next((each for each in ("GNUmakefile", "makefile", "Makefile") if project.has(each)), "")
    targets, phony = _make_targets(project.text(name)) if name else (set[str](), set[str]())
    for target in sorted(targets - phony):
        if any(target in names for _, names in _KINDS) and (project.root / target).exists():
            targets.discard(target)
            project.problem(
                name, f'the target "{target}" is not .PHONY and something of that name exists: make would do nothing'
            )
    return LanguageGates(tuple(_target_steps("make", targets)))


def _just(project: ManifestProject) -> LanguageGates:
    """`just X` for recipes that need no argument."""
    name = next((each for each in ("justfile", "Justfile", ".justfile", "JUSTFILE") if project.has(each)), "")
    return LanguageGates(tuple(_target_steps("just", _just_recipes(project.text(name)))) if name else ())


def _target_steps(tool: str, targets: set[str]) -> Iterator[VerificationStep]:
    for kind, names in _KINDS:
        if name := next((each for each in names if each in targets), ""):
            yield step(kind, f"{tool} {name}")


def _make_targets(text: str) -> tuple[set[str], set[str]]:
    """Targets that do something, and the names declared .PHONY."""
    rows = [row.split("#", 1)[0] if not row.startswith("\t") else row for row in text.replace("\\\n", " ").split("\n")]
    doing: set[str] = set()
    phony: set[str] = set()
    current: list[str] = []
    inside_define = False
    for row in rows:
        if row.startswith(("define ", "endef")):
            inside_define = row.startswith("define ")
        if inside_define or not row.strip():
            continue
        if row.startswith("\t"):
            doing.update(current)
            continue
        rule = _RULE.match(row)
        current = []
        if rule is None or _ASSIGNMENT.match(row) or _ASSIGNMENT.match(rule[2]):
            continue
        current = rule[1].split()
        if current == [".PHONY"]:
            phony.update(rule[2].split())
        elif rule[2].strip(" \t;"):
            doing.update(current)
    return doing, phony


def _just_recipes(text: str) -> set[str]:
    """Recipes with a body or dependencies, and without parameters that must be given."""
    rows = text.split("\n")
    found: set[str] = set()
    for index, row in enumerate(rows):
        recipe = _RECIPE.match(row)
        if recipe is None:
            continue
        needed = [word for word in recipe[2].split() if "=" not in word and not word.startswith("*")]
        body = next((after for after in rows[index + 1 :] if after.strip()), "")
        if not needed and (recipe[3].split("#", 1)[0].strip() or body[:1].isspace()):
            found.add(recipe[1])
    return found


_LANGUAGES: tuple[tuple[str, Callable[[ManifestProject], LanguageGates]], ...] = (
    ("python", detection_python.discover),
    ("node", detection_node.discover),
    ("rust", _rust),
    ("go", _go),
)
_TARGETS: tuple[tuple[str, Callable[[ManifestProject], LanguageGates]], ...] = (("make", _make), ("just", _just))
