"""What kind of code base a repository holds: languages, package managers, frameworks, layout. Pure: paths and texts in,
a few lines out.

Frameworks are those of a fixed table that a manifest names as a dependency; nothing is guessed from file contents.
"""

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

_MOST_FOLDERS = 16
_LONGEST_NAME = 60
_MOST_DOTS = 500
"""In a line of TOML: its reader's time is quadratic in the parts of a key."""
_LEAST_SHARE = 0.1
"""A language with a smaller share of the files is not named."""

_LANGUAGES = {
    "py": "Python", "js": "JavaScript", "jsx": "JavaScript", "mjs": "JavaScript", "cjs": "JavaScript",
    "ts": "TypeScript", "tsx": "TypeScript", "go": "Go", "rs": "Rust", "java": "Java", "kt": "Kotlin", "rb": "Ruby",
    "php": "PHP", "cs": "C#", "c": "C", "h": "C", "cc": "C++", "cpp": "C++", "hpp": "C++", "swift": "Swift",
    "scala": "Scala", "ex": "Elixir", "exs": "Elixir", "sh": "Shell", "lua": "Lua", "dart": "Dart", "hs": "Haskell",
}  # fmt: skip

_MANAGERS: tuple[tuple[str, str, str], ...] = (
    ("node", "pnpm-lock.yaml", "pnpm"),
    ("node", "yarn.lock", "yarn"),
    ("node", "bun.lock", "bun"),
    ("node", "bun.lockb", "bun"),
    ("node", "package-lock.json", "npm"),
    ("node", "package.json", "npm"),
    ("python", "uv.lock", "uv"),
    ("python", "poetry.lock", "poetry"),
    ("python", "pdm.lock", "pdm"),
    ("python", "Pipfile", "pipenv"),
    ("python", "pyproject.toml", "pip"),
    ("python", "requirements.txt", "pip"),
    ("rust", "Cargo.toml", "cargo"),
    ("go", "go.mod", "go modules"),
    ("java", "pom.xml", "maven"),
    ("java", "build.gradle", "gradle"),
    ("java", "build.gradle.kts", "gradle"),
    ("ruby", "Gemfile", "bundler"),
    ("php", "composer.json", "composer"),
    ("elixir", "mix.exs", "mix"),
)
"""Of each family the first file that is there decides."""

_FRAMEWORKS = {
    "next": "Next.js", "react": "React", "vue": "Vue", "nuxt": "Nuxt", "svelte": "Svelte", "@angular/core": "Angular",
    "express": "Express", "fastify": "Fastify", "@nestjs/core": "NestJS", "electron": "Electron", "vite": "Vite",
    "vitest": "Vitest", "jest": "Jest", "mocha": "Mocha", "@playwright/test": "Playwright", "cypress": "Cypress",
    "tailwindcss": "Tailwind CSS", "prisma": "Prisma", "typescript": "TypeScript compiler",
    "django": "Django", "flask": "Flask", "fastapi": "FastAPI", "pytest": "pytest", "sqlalchemy": "SQLAlchemy",
    "pydantic": "Pydantic", "click": "Click", "typer": "Typer", "numpy": "NumPy", "pandas": "pandas",
    "torch": "PyTorch", "hypothesis": "Hypothesis", "ruff": "Ruff", "mypy": "mypy",
    "tokio": "Tokio", "axum": "Axum", "actix-web": "Actix Web", "clap": "clap", "serde": "Serde", "bevy": "Bevy",
    "github.com/gin-gonic/gin": "Gin", "github.com/labstack/echo": "Echo", "github.com/gofiber/fiber": "Fiber",
    "github.com/spf13/cobra": "Cobra", "github.com/go-chi/chi": "chi", "github.com/stretchr/testify": "Testify",
    "rails": "Rails", "sinatra": "Sinatra", "rspec": "RSpec", "laravel/framework": "Laravel",
    "symfony/framework-bundle": "Symfony", "phpunit/phpunit": "PHPUnit",
    "spring-boot": "Spring Boot", "junit": "JUnit", "phoenix": "Phoenix",
}  # fmt: skip

# No pattern may run over the end of a line: from each line's start, that is quadratic.
_REQUIREMENT = re.compile(r"^[ \t]*([A-Za-z0-9][A-Za-z0-9._-]*)", re.MULTILINE)
_GO_MODULE = re.compile(r"^[ \t]*(?:require[ \t]+)?([\w.-]+\.\w+/[\w./-]+?)(?:/v\d+)?[ \t]+v\d", re.MULTILINE)
_GEM = re.compile(r"^[ \t]*gem[ \t]+[\"']([\w-]+)[\"']", re.MULTILINE)
_PACKAGE_MANAGER = re.compile(r"(npm|pnpm|yarn|bun)@")
_TEST_FOLDER = re.compile(r"^((?:[^/]+/)*?(?:tests?|specs?|__tests__|e2e))/")

Table = dict[str, Any]


def is_manifest(path: str) -> bool:
    """Whether facts depend on what stands in that file of the root, or on its being there."""
    return path in _DEPENDENCIES or any(path == name for _, name, _ in _MANAGERS)


def manifests(paths: Iterable[str]) -> list[str]:
    """The files whose texts are looked into, of all paths of a repository."""
    return [path for path in paths if path in _DEPENDENCIES]


def codebase_facts(paths: Sequence[str], texts: Mapping[str, str]) -> tuple[str, ...]:
    """One line for each fact: `Languages: Python`. `paths` are all files, `texts` those of the manifests."""
    lines = (
        ("Languages", _languages(paths)),
        ("Package manager", _managers(paths, texts)),
        ("Frameworks and tools", _frameworks(texts)),
        ("Folders", _folders(paths)),
        ("Tests in", _test_folders(paths)),
    )
    return tuple(f"{name}: {', '.join(found)}" for name, found in lines if found)


def _languages(paths: Iterable[str]) -> list[str]:
    endings = (path.rpartition(".")[2] for path in paths)
    counts = Counter(_LANGUAGES[ending] for ending in endings if ending in _LANGUAGES)
    least = counts.total() * _LEAST_SHARE
    return [name for name, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])) if count >= least][:4]


def _managers(paths: Sequence[str], texts: Mapping[str, str]) -> list[str]:
    there = {path for path in paths if "/" not in path}
    chosen: dict[str, str] = {}
    for family, file, manager in _MANAGERS:
        if file in there:
            chosen.setdefault(family, manager)
    said = _PACKAGE_MANAGER.match(str(_json(texts.get("package.json", "")).get("packageManager", "")))
    if said:
        chosen["node"] = said[1]
    return list(chosen.values())


def _frameworks(texts: Mapping[str, str]) -> list[str]:
    named = {name.lower() for path, read in _DEPENDENCIES.items() if path in texts for name in read(texts[path])}
    return [shown for name, shown in _FRAMEWORKS.items() if name in named]


def _folders(paths: Iterable[str]) -> list[str]:
    names = sorted({path.partition("/")[0] for path in paths if "/" in path})
    shown = [f"{_shown(name)}/" for name in names]
    return shown if len(shown) <= _MOST_FOLDERS else [*shown[:_MOST_FOLDERS], f"{len(shown) - _MOST_FOLDERS} more"]


def _test_folders(paths: Iterable[str]) -> list[str]:
    counts = Counter(found[1] for path in paths if (found := _TEST_FOLDER.match(path)))
    return [f"{_shown(folder)}/" for folder, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:4]]


def _shown(name: str) -> str:
    """A name that cannot pretend to be more than one."""
    return "".join(letter if letter.isprintable() else "?" for letter in name[:_LONGEST_NAME])


# Dependencies, by manifest


def _of_package_json(text: str) -> Iterator[str]:
    whole = _json(text)
    for key in ("dependencies", "devDependencies", "peerDependencies"):
        yield from _table(whole, key)


def _of_pyproject(text: str) -> Iterator[str]:
    whole = _toml(text)
    project = _table(whole, "project")
    groups = [*_table(project, "optional-dependencies").values(), *_table(whole, "dependency-groups").values()]
    for requirements in (project.get("dependencies"), *groups):
        yield from _required(item for item in _list(requirements) if isinstance(item, str))
    poetry = _table(_table(whole, "tool"), "poetry")
    yield from _table(poetry, "dependencies")
    for group in _table(poetry, "group").values():
        yield from _table(group, "dependencies")


def _of_requirements(text: str) -> Iterator[str]:
    return (_as_package(found[1]) for found in _REQUIREMENT.finditer(text))


def _of_cargo(text: str) -> Iterator[str]:
    whole = _toml(text)
    for key in ("dependencies", "dev-dependencies"):
        yield from _table(whole, key)
        yield from _table(_table(whole, "workspace"), key)


def _of_go_mod(text: str) -> Iterator[str]:
    return (found[1] for found in _GO_MODULE.finditer(text))


def _of_gemfile(text: str) -> Iterator[str]:
    return (found[1] for found in _GEM.finditer(text))


def _of_composer(text: str) -> Iterator[str]:
    whole = _json(text)
    for key in ("require", "require-dev"):
        yield from _table(whole, key)


def _of_build_file(text: str) -> Iterator[str]:
    """A Java or Elixir build file is a program or XML: only whether the name stands there is seen."""
    return (name for name in ("spring-boot", "junit", "phoenix") if name in text)


def _required(lines: Iterable[str]) -> Iterator[str]:
    return (_as_package(found[1]) for line in lines if (found := _REQUIREMENT.match(line)))


def _as_package(name: str) -> str:
    return name.replace("_", "-")


_DEPENDENCIES: dict[str, Callable[[str], Iterator[str]]] = {
    "package.json": _of_package_json,
    "pyproject.toml": _of_pyproject,
    "requirements.txt": _of_requirements,
    "requirements-dev.txt": _of_requirements,
    "Cargo.toml": _of_cargo,
    "go.mod": _of_go_mod,
    "Gemfile": _of_gemfile,
    "composer.json": _of_composer,
    "pom.xml": _of_build_file,
    "build.gradle": _of_build_file,
    "build.gradle.kts": _of_build_file,
    "mix.exs": _of_build_file,
}


def _json(text: str) -> Table:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _toml(text: str) -> Table:
    if any(line.count(".") > _MOST_DOTS for line in text.split("\n")):
        return {}
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError):
        return {}


def _table(value: object, key: str) -> Table:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else {}


def _list(value: object) -> list[object]:
    return value if isinstance(value, list) else []
