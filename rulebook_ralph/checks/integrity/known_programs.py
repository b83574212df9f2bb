"""Programs that the commands of gates name, and what is known of them."""

import posixpath
import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


TOOLS: dict[str, str] = {
    name: name
    for name in _words(
        "pytest unittest coverage ruff flake8 pylint mypy pyright basedpyright ty black isort bandit doctest "
        "jest vitest mocha ava jasmine karma playwright cypress eslint tsc biome prettier stylelint oxlint xo "
        "standard nyc c8 tap golangci-lint gofmt staticcheck go cargo rubocop rspec phpunit pest phpstan "
        "psalm phpcs shellcheck shfmt bashate checkbashisms hadolint yamllint markdownlint codespell typos swift dotnet"
    )
} | {"py.test": "pytest", "vue-tsc": "tsc", "react-scripts": "jest", "nose2": "unittest", "cargo-nextest": "cargo"}
"""What starts no scripts of the repository by itself, by the name of its configuration's reader."""
RUNNERS = _words(
    "tox nox rake gradle gradlew mvn mvnw task invoke inv poe hatch pre-commit docker docker-compose "
    "podman turbo nx lerna ant bazel bazelisk buck2 meson ninja cmake ctest scons doit sbt mix composer "
    "grunt gulp wireit deno moon pants act dagger earthly ant cabal stack zig lein rebar3 dune opam nix "
    "xcodebuild fastlane melos dart flutter"
)
"""What runs other things, by files of its own."""
STARTERS = _words(
    "run-parts bats prove expect tclsh wish shunit2 roundup urchin bashunit shellspec cram clitest pwsh powershell "
    "cucumber behat dats"
)
"""What runs scripts and folders that it is given."""
FILES_OF_RUNNERS: dict[str, tuple[str, ...]] = {
    "tox": ("tox.ini", "tox.toml", "setup.cfg", "pyproject.toml"),
    "nox": ("noxfile.py",),
    "task": ("Taskfile.yml", "Taskfile.yaml", "taskfile.yml"),
    "rake": ("Rakefile", "Rakefile.rb", "rakefile"),
    "invoke": ("tasks.py",),
    "inv": ("tasks.py",),
    "poe": ("pyproject.toml", "poe_tasks.toml"),
    "hatch": ("pyproject.toml", "hatch.toml"),
    "pdm": ("pyproject.toml",),
    "pre-commit": (".pre-commit-config.yaml",),
    "doit": ("dodo.py",),
    "composer": ("composer.json",),
    "deno": ("deno.json", "deno.jsonc"),
    "gulp": ("gulpfile.js",),
    "grunt": ("Gruntfile.js",),
    "ctest": ("CMakeLists.txt", "tests/CMakeLists.txt", "test/CMakeLists.txt"),
    "meson": ("meson.build", "tests/meson.build", "test/meson.build"),
    "ninja": ("meson.build", "tests/meson.build", "CMakeLists.txt", "tests/CMakeLists.txt"),
    "gradle": ("build.gradle", "build.gradle.kts"),
    "gradlew": ("build.gradle", "build.gradle.kts"),
    "docker": ("Dockerfile", "docker-compose.yml", "compose.yaml"),
    "docker-compose": ("docker-compose.yml", "compose.yaml"),
}
"""Where runners find what they run, from the folder of the gate."""
LOADING = {
    **dict.fromkeys(("BASH_ENV", "ENV", "MAKEFILES", "PERL5DB"), "files"),
    **dict.fromkeys(
        ("NODE_OPTIONS", "RUBYOPT", "PERL5OPT", "PYTEST_ADDOPTS", "MAKEFLAGS", "LUA_INIT", "PYTHONSTARTUP"), "options"
    ),
    "PYTEST_PLUGINS": "modules",
    **dict.fromkeys(("PYTHONPATH", "NODE_PATH", "RUBYLIB", "PERL5LIB"), "folders"),
}
"""Variables of the environment by which programs load files, and what stands in them."""
PROFILERS = _words("runpy cProfile profile pdb trace timeit doctest coverage kernprof memory_profiler")
"""Modules of Python that run a script that they are given."""
MANAGERS = frozenset(("npm", "pnpm", "yarn", "bun"))
MAKES = frozenset(("make", "gmake", "just"))
SHELLS = _words("sh bash dash zsh ksh ash")
INTERPRETERS = SHELLS | _words("source . python python3 node ruby perl php tsx ts-node bun lua Rscript")
OF_A_FILE = _words("awk gawk mawk sed jq bc")
"""What reads its program from the file after `-f`."""
WRAPPERS = _words(
    "env time exec command builtin nice nohup stdbuf sudo ! if then else elif do while until xvfb-run dotenv npx "
    "bunx pnpx { catchsegv unbuffer cross-env setsid ionice"
)
PREFIXES = (("uv", "run"), ("poetry", "run"), ("pdm", "run"), ("pipenv", "run"), ("rye", "run"), ("bundle", "exec"))
HARMLESS = _words(
    "true false test [ [[ echo printf grep egrep fgrep rg cat cd export set unset ls mkdir rm cp mv ln "
    "touch diff cmp sed awk gawk mawk head tail wc find sort uniq tr cut tee sleep exit return wait trap fi done "
    "esac } case for in read shift pwd which type git date umask ulimit chmod basename dirname realpath "
    "jq bc curl sha256sum md5sum xargs kill : select local declare typeset readonly mapfile readarray pushd popd "
    "pip pip3 break continue mktemp shopt let getopts readlink seq tac nproc uname id hostname function"
)
"""What starts nothing; `find` and `xargs` are read further."""
_PYTHON = re.compile(r"python[\d.]*")


def is_python(base: str) -> bool:
    return _PYTHON.fullmatch(base) is not None


def is_interpreter(base: str) -> bool:
    """Whether a program runs the script that it is given."""
    return base in INTERPRETERS or is_python(base)


def runs_others(word: str) -> bool:
    """Whether a word among another program's is one that starts what follows."""
    base = posixpath.basename(word)
    return is_interpreter(base) or base in MAKES or base in MANAGERS or base in STARTERS
