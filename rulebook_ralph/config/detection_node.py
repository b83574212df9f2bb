"""Gates and setup of a Node project: scripts of its package.json, run by the package manager its lock file names."""

import re

from rulebook_ralph.config.manifests import LanguageGates, ManifestProject, Table, step, table
from rulebook_ralph.config.settings import StepKind, VerificationStep

_MANAGERS = (
    ("pnpm-lock.yaml", "pnpm", "pnpm install --frozen-lockfile"),
    ("yarn.lock", "yarn", "yarn install --frozen-lockfile"),
    ("bun.lock", "bun", "bun install --frozen-lockfile"),
    ("bun.lockb", "bun", "bun install --frozen-lockfile"),
    ("package-lock.json", "npm", "npm ci"),
    ("npm-shrinkwrap.json", "npm", "npm ci"),
)
_WITHOUT_LOCK = {
    "npm": "npm install --no-package-lock",
    "pnpm": "pnpm install --no-lockfile",
    "yarn": "yarn install --no-lockfile",
    "bun": "bun install --no-save",
}
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


def discover(project: ManifestProject) -> LanguageGates:
    """A step for each kind that a script is defined for. A script that watches would never end: it is passed over."""
    manifest = project.json("package.json")
    scripts = {
        name: command
        for name, command in table(manifest, "scripts").items()
        if isinstance(command, str) and command.strip() and _PLACEHOLDER not in command
    }
    lock, manager, setup = _manager(project, manifest)
    steps = []
    for kind, names in _SCRIPTS:
        found = _step(project, kind, {name: scripts[name] for name in names if name in scripts}, manager)
        steps += [found] if found else []
    if not (lock or any(manifest.get(key) for key in _DEPENDENCIES)):
        return LanguageGates(tuple(steps))
    if project.can_run(manager):
        told = (f"{lock or 'package.json'}: {setup}",) if manager in ("yarn", "bun") or not lock else ()
        return LanguageGates(tuple(steps), setup, notes=told)
    if (project.root / "node_modules").is_dir():
        note = f"{manager} is not on PATH: node_modules is linked into clones, where no task can change it"
        return LanguageGates(tuple(steps), link=("node_modules",), notes=(note,))
    return LanguageGates(
        tuple(steps), setup, notes=(f"{manager} is not on PATH: install it, for clones are set up with it",)
    )


def _manager(project: ManifestProject, manifest: Table) -> tuple[str, str, str]:
    """The lock file, the package manager, and how it installs what the lock file, or else the manifest, says."""
    for lock, manager, setup in _MANAGERS:
        if project.has(lock):
            if manager == "yarn" and project.has(".yarnrc.yml"):
                setup = "yarn install --immutable"  # noqa: PLW2901 - from version 2 on
            return lock, manager, setup
    named = str(manifest.get("packageManager", "")).partition("@")[0]
    manager = named if named in ("pnpm", "yarn", "bun") else "npm"
    return "", manager, _WITHOUT_LOCK[manager]


def _step(project: ManifestProject, kind: StepKind, scripts: dict[str, str], manager: str) -> VerificationStep | None:
    """The step of the first of these scripts that ends by itself, and looks rather than changes the tree."""
    ending = [name for name, command in scripts.items() if not _WATCHES.search(command)]
    if scripts and not ending:
        problem = f'the script "{next(iter(scripts))}" watches for changes and never ends: no {kind} step made of it'
        project.problem("package.json", problem)
    if not ending:
        return None
    name = next((name for name in ending if "--fix" not in scripts[name]), ending[0])
    once = _to_run_once(re.split(r"&&|\|\||[;|&]", scripts[name])[-1].split())
    dashes = "-- " if once and manager == "npm" else ""  # only npm needs, and only npm removes them
    return step(kind, f"{manager} run {name} {dashes}{once}".rstrip(), {"CI": "1"})


def _to_run_once(words: list[str]) -> str:
    """What makes a command end that watches unless told otherwise; empty where nothing is needed."""
    tool = next((name for word in words if (name := word.rpartition("/")[2]) in _ONE_RUN), "")
    if not tool or not _ENDING.isdisjoint(words) or (tool == "ng" and "test" not in words):
        return ""
    return _ONE_RUN[tool]
