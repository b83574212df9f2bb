"""Which files define what the gates do, and for which tools."""

import re
from dataclasses import dataclass
from typing import Literal

Category = Literal["test", "lint", "typecheck", "build", "any"]


@dataclass(frozen=True, slots=True)
class Definition:
    """A kind of file that defines gates. `tools` read it; `always`: it counts whatever the gates run. `parts` says how
    it is taken apart (checks/integrity/gate_parts.py); `deep`: it also counts for what stands below its folder.
    """

    names: re.Pattern[str]
    what: str
    tools: frozenset[str] = frozenset()
    category: Category = "any"
    parts: str = "whole"
    always: bool = False
    deep: bool = False


def _of(
    names: str, what: str, tools: str = "", category: Category = "any", parts: str = "whole", **flags: bool
) -> Definition:
    return Definition(re.compile(f"(?:^|.*/)(?:{names})"), what, frozenset(tools.split()), category, parts, **flags)


_JS_TEST = "jest vitest mocha ava jasmine karma playwright cypress nyc c8 tap"
_SOURCE = r"\.(?:[cm]?[jt]s|json5?|ya?ml|toml)"

DEFINITIONS: tuple[Definition, ...] = (
    _of(r"\.github/(?:workflows|actions)/.*", "CI configuration", always=True),
    _of(
        r"\.gitlab-ci\.ya?ml|\.gitlab/ci/.*|\.circleci/.*|\.travis\.yml|azure-pipelines[^/]*\.ya?ml|Jenkinsfile[^/]*|"
        r"bitbucket-pipelines\.yml|\.?appveyor\.yml|\.buildkite/.*|\.drone\.ya?ml|\.woodpecker(?:/.*|\.ya?ml)|"
        r"\.cirrus\.yml|\.semaphore/.*|\.teamcity/.*|cloudbuild\.ya?ml|"
        r"buildspec\.ya?ml|codecov\.yml|\.codecov\.yml|\.ci/.*",
        "CI configuration",
        always=True,
    ),
    _of(
        r"\.pre-commit-config\.yaml|\.husky/.*|\.?lefthook(?:-local)?\.ya?ml|\.lintstagedrc[^/]*|lint-staged\.config\.\w+",
        "configuration of the commit hooks",
        always=True,
    ),
    _of(r"\.?pytest\.(?:ini|toml)", "configuration of pytest", "pytest", "test"),
    _of(r"\.coveragerc|coverage\.toml", "configuration of coverage", "coverage pytest", "test"),
    _of(r"tox\.ini|setup\.cfg", "configuration", parts="ini"),
    _of(r"pyproject\.toml", "configuration", parts="pyproject"),
    _of(r"tox\.toml", "configuration of tox", "tox"),
    _of(r"noxfile\.py", "the sessions of nox", "nox"),
    _of(r"\.?ruff\.toml", "configuration of ruff", "ruff", "lint", deep=True),
    _of(r"\.flake8", "configuration of flake8", "flake8", "lint"),
    _of(r"\.?pylintrc(?:\.toml)?", "configuration of pylint", "pylint", "lint"),
    _of(r"\.isort\.cfg|\.bandit", "configuration of the linters", "isort bandit", "lint"),
    _of(r"\.?mypy\.ini", "configuration of mypy", "mypy", "typecheck"),
    _of(r"pyrightconfig\.json", "configuration of pyright", "pyright basedpyright", "typecheck"),
    _of(r"ty\.toml", "configuration of ty", "ty", "typecheck"),
    _of(r"package\.json", "package.json", parts="package"),
    _of(rf"jest[^/]*\.(?:config|setup){_SOURCE}|\.jestrc[^/]*", "configuration of jest", "jest", "test"),
    _of(rf"(?:vitest|vite)(?:\.\w+)?\.(?:config|workspace){_SOURCE}", "configuration of vitest", "vitest", "test"),
    _of(r"\.mocharc[^/]*|mocha\.opts", "configuration of mocha", "mocha", "test"),
    _of(
        rf"(?:karma\.conf|(?:ava|playwright|cypress|jasmine)\.config){_SOURCE}|\.nycrc[^/]*|\.c8rc[^/]*|\.taprc",
        "configuration of the tests",
        _JS_TEST,
        "test",
    ),
    _of(r"\.eslintrc[^/]*|\.eslintignore|eslint\.config\.\w+", "configuration of eslint", "eslint", "lint", deep=True),
    _of(r"\.?biome\.jsonc?", "configuration of biome", "biome", "lint", deep=True),
    _of(r"\.prettierrc[^/]*|\.prettierignore|prettier\.config\.\w+", "configuration of prettier", "prettier", "lint"),
    _of(
        r"\.stylelintrc[^/]*|stylelint\.config\.\w+|\.?oxlintrc\.json",
        "configuration of linters", "stylelint oxlint", "lint"),
    _of(r"tsconfig[^/]*\.json|jsconfig\.json", "configuration of TypeScript", "tsc", "typecheck"),
    _of(r"\.golangci\.(?:ya?ml|toml|json)", "configuration of golangci-lint", "golangci-lint", "lint"),
    _of(r"\.?clippy\.toml|\.cargo/config(?:\.toml)?|\.config/nextest\.toml", "configuration of cargo", "cargo"),
    _of(r"Cargo\.toml", "Cargo.toml", parts="cargo"),
    _of(r"\.rubocop(?:_todo)?\.yml", "configuration of rubocop", "rubocop", "lint", deep=True),
    _of(r"\.rspec", "configuration of rspec", "rspec", "test"),
    _of(r"\.proverc|\.shellspec|\.batsrc", "configuration of the tests", category="test"),
    _of(r"phpunit\.xml(?:\.dist)?", "configuration of phpunit", "phpunit pest", "test"),
    _of(r"(?:phpstan\.neon|psalm\.xml|phpcs\.xml)(?:\.dist)?", "lint configuration", "phpstan psalm phpcs", "lint"),
    _of(r"(?:\.?shellcheckrc|\.yamllint[^/]*|\.markdownlint[^/]*|\.?typos\.toml|\.codespellrc|\.hadolint\.ya?ml)",
        "lint configuration", "shellcheck yamllint markdownlint typos codespell hadolint", "lint"),
    _of(r"(?:GNU)?[Mm]akefile|[^/]+\.mk", "targets of make", "make", parts="make"),
    _of(r"\.?[Jj]ustfile|JUSTFILE|[^/]+\.just", "recipes of just", "just", parts="make"),
    _of(r"[Tt]askfile\.ya?ml|[Rr]akefile(?:\.rb)?|dodo\.py|[Gg]runtfile\.\w+|[Gg]ulpfile\.\w+|turbo\.json|nx\.json",
        "the tasks of a runner", "a-runner"),
    _of(r"(?:build|settings)\.gradle(?:\.kts)?|pom\.xml|build\.xml|CMakeLists\.txt|meson\.build|.*\.csproj",
        "how the tests are built and run", "a-runner", parts="build"),
    _of(r"\.npmrc|\.yarnrc(?:\.yml)?", "configuration of the package manager", "a-runner", parts="npmrc"),
)  # fmt: skip


def definition_of(path: str) -> Definition | None:
    """What a file defines for gates, by its name; None for all other files."""
    return next((definition for definition in DEFINITIONS if definition.names.fullmatch(path)), None)
