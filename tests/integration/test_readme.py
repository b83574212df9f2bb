"""Every command in the README and in the pages of docs/ is run, here or by .ci/run, and what they name is there.

A page is walked from top to bottom in a small project of its own: a block with a title is written to that file, a
`sh` block is typed line by line, and `<!-- test: … -->` is typed as well but not shown to the reader. A command ends
with 0, or as a comment beside it says: `# exit code 3`. YAML without a title is a configuration, and valid.
"""

import ast
import itertools
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

from rulebook_ralph.cli import main as cli
from rulebook_ralph.resources import schema
from tests.conftest import isolate
from tests.harness import Project, Ran
from tests.sampling import sample

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "docs").glob("*.md"))
OF_TODAY = ["README.md", "CONTRIBUTING.md", *PAGES]
DOCUMENTS = [*OF_TODAY, "CHANGELOG.md"]
ADDRESS = "https://github.com/rulebook-ralph/rulebook-ralph"
INSTALLING = ("python3 -m venv ", "git clone ", "pipx ", "uvx ")
"""Commands that need the network: .ci/run runs those of the README, and pages have no others."""
STEP = re.compile(
    r"^```(?P<kind>[a-z]*)(?: title=\"(?P<title>[^\"]+)\")?\n(?P<block>.*?)^```$|^<!-- test: (?P<hidden>.+?) -->$",
    re.DOTALL | re.MULTILINE,
)
CODE = re.compile(r"#.*\bexit code (\d+)")
FILES = {
    "calc.py": "def add(a, b):\n    return a + b\n",
    "tests/__init__.py": "",
    "tests/test_calc.py": "import unittest\n\nfrom calc import add\n\n\nclass CalcTest(unittest.TestCase):\n"
    "    def test_add(self):\n        self.assertEqual(add(1, 2), 3)\n",
}
CLAUDE = """#!{python}
import json, os, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("2.1.0 (Claude Code)"))
asked = sys.stdin.read()
if "Use no tools:" in asked:
    data = json.loads(asked[asked.index("Use no tools:"):].split("\\n\\n", 1)[1].rsplit("\\n\\nThat was the data.", 1)[0])
    answer = dict(answer="yes", reason="it holds", file=data["files"][0]["file"], line=0)
    items = [dict(answer, item=each["item"]) for each in data.get("items", ())]
    said = json.dumps({{"items": items}} if items else dict(decision="SHIP", issues=[]))
elif "RALPH_TASK" not in os.environ:
    task = dict(id="halve", title="Halve a number", description="Half of a number.", priority=1, dependencies=[])
    task |= dict(acceptanceCriteria=["half(3) is 1.5"], outcome="calc can halve a number", relevantFiles=["calc.py"])
    said = json.dumps(dict(questions=[], tasks=[task]))
else:
    with open(os.environ["RALPH_TASK"] + ".txt", "w") as file:
        file.write("made for " + os.environ["RALPH_TASK"] + "\\n")
    said = "Done.\\n<promise>" + os.environ["RALPH_PROMISE"] + "</promise>"
print(json.dumps(dict(type="result", subtype="success", is_error=False, session_id="s", total_cost_usd=0.1, result=said)))
"""


@dataclass(frozen=True, slots=True)
class Step:
    """What a reader does: type a `command`, or write `content` to the file `title` (empty: a configuration shown)."""

    command: str = ""
    code: int = 0
    title: str = ""
    content: str = ""


def steps(text: str) -> Iterator[Step]:
    for found in STEP.finditer(text):
        if found["hidden"]:
            yield command(found["hidden"])
        elif found["title"]:
            yield Step(title=found["title"], content=found["block"])
        elif found["kind"] == "sh":
            yield from (command(line) for line in found["block"].splitlines() if line.strip())
        elif found["kind"] == "yaml":
            yield Step(content=found["block"])


def command(line: str) -> Step:
    told = CODE.search(line)
    return Step(command=line.partition("  #")[0].strip(), code=int(told[1]) if told else 0)


COMMANDS = [step.command for step in steps(README) if step.command]


@pytest.fixture(scope="module")
def ralph_on_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which `ralph` is this checkout's, and `claude` plans, does every task, and judges it done."""
    folder = tmp_path_factory.mktemp("bin")
    ralph = folder / "ralph"
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from rulebook_ralph.entry import main; main()"
    ralph.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(program)} "$@"\n')
    claude = folder / "claude"
    claude.write_text(CLAUDE.format(python=sys.executable))
    for each in (ralph, claude):
        each.chmod(0o755)
    return f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"


@pytest.fixture(scope="module")
def small_project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit: a function and its test."""
    folder = tmp_path_factory.mktemp("project") / "calc"
    for name, content in FILES.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(content)
    with pytest.MonkeyPatch.context() as patch:
        isolate(patch, folder.parent / "home")
        for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "first")):
            subprocess.run(["git", *arguments], cwd=folder, check=True)
    return folder


def shell(command: str, folder: Path, path: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, "CLAUDE_CODE_OAUTH_TOKEN": "t", "PATH": path, **environment},
        check=False,
        capture_output=True,
        text=True,
    )


def typed(command: str, folder: Path, path: str) -> Ran:
    """What a user types: `ralph` runs in this process, where no process of its own shows more, all else in a shell."""
    words = shlex.split(command)
    set_here = list(itertools.takewhile(lambda word: re.match(r"[A-Z_]+=", word), words))
    if words[len(set_here) : len(set_here) + 1] != ["ralph"] or re.search("[|&;<>*$]", command):
        done = shell(command, folder, path)
        return Ran(done.returncode, done.stdout, done.stderr)
    environment = {"PATH": path, "CLAUDE_CODE_OAUTH_TOKEN": "t", **dict(word.split("=", 1) for word in set_here)}
    return Project(folder, folder, environment=environment).ralph(*words[len(set_here) + 1 :])


def follow(page: str, folder: Path, path: str) -> None:
    """Do what the page says, in this project."""
    for step in steps(page):
        if step.title:
            (folder / step.title).parent.mkdir(parents=True, exist_ok=True)
            (folder / step.title).write_text(step.content)
        elif step.content:
            validate(step.content, folder.with_name("shown"), path)
        elif step.command.startswith(INSTALLING):
            assert step.command in COMMANDS, f"{step.command}: not in the README, so nothing runs it"
        else:
            done = typed(step.command, folder, path)
            told = f"{step.command}: exit code {done.code}, not {step.code}\n{done.out[-3000:]}\n{done.err[-3000:]}"
            assert done.code == step.code, told


def validate(config: str, folder: Path, path: str) -> None:
    """The configuration has no fault, in a project that is otherwise sound."""
    if not folder.exists():
        folder.mkdir()
        begin = "git init -q && git commit -q --allow-empty -m first && touch .env && ralph init --empty"
        assert shell(begin, folder, path).returncode == 0
    (folder / ".rulebook-ralph" / "config.yaml").write_text(config)
    done = typed("ralph validate", folder, path)
    assert (done.code, done.out) == (0, "no problems\n"), config + done.out + done.err


def test_ci_runs_what_installs() -> None:
    first, second = (each for each in COMMANDS if each.startswith("python3 -m venv "))
    assert first.endswith(".venv/bin/ralph demo")
    assert second.endswith(".venv/bin/python -m pytest -n 2")
    script = (ROOT / ".ci" / "run").read_text()
    assert "grep '^python3 -m venv' README.md" in script, "CI takes the two commands from the README and runs them"
    assert "grep -E '^(git clone|pipx|uvx) ' README.md" in script
    assert all(ADDRESS in each for each in COMMANDS if each.startswith(INSTALLING[1:]))
    assert f'"{ADDRESS}' in (ROOT / "pyproject.toml").read_text()


def test_the_commands_of_the_readme_work_in_their_order(
    tmp_path: Path, small_project: Path, ralph_on_path: str
) -> None:
    folder = tmp_path / "calc"
    shutil.copytree(small_project, folder, symlinks=True)
    follow(README, folder, ralph_on_path)
    assert "1 of 1 task completed" in typed("ralph status", folder, ralph_on_path).out


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_page_works(name: str, tmp_path: Path, small_project: Path, ralph_on_path: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    assert not re.search(r"^[ \t]+```", text, re.MULTILINE), "a block that nobody walks: it is indented"
    if any(True for _ in steps(text)):
        folder = tmp_path / "calc"
        shutil.copytree(small_project, folder, symlinks=True)
        follow(text, folder, ralph_on_path)


def test_the_workflow_runs_night_after_night(
    tmp_path: Path, small_project: Path, ralph_on_path: str, *, thorough: bool
) -> None:
    """Each step, in a fresh clone as a runner has it; with --thorough a second night goes on where the first ended."""
    (text,) = (step.content for step in steps((ROOT / "docs/ci.md").read_text("utf-8")) if step.title)
    runs = YAML(typ="safe", pure=True).load(text)["jobs"]["ralph"]["steps"]
    home, origin = tmp_path / "home", tmp_path / "origin"
    shutil.copytree(small_project, home)
    for name in ("sudo", "npm", "pipx", "gh"):
        (tmp_path / "bin" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "bin" / name).write_text("#!/bin/sh\n")
        (tmp_path / "bin" / name).chmod(0o755)
    path = f"{tmp_path / 'bin'}:{ralph_on_path}"
    add = 'ralph task add {0} "Do {0}" --outcome done --acceptance "It is there" && git add -A && git commit -qm {0}'
    begin = f"ralph init --empty && {add.format('one')} && git init -q --bare -b main {origin}"
    merge = f"git pull -q --no-rebase {origin} ralph/night && {add.format('two')}"
    for night, before in enumerate((begin, merge) if thorough else (begin,), start=1):
        ready = shell(f"{before} && git push -q {origin} main", home, path)
        assert ready.returncode == 0, ready.stderr
        runner = tmp_path / f"runner{night}"
        subprocess.run(["git", "clone", "-q", origin, runner], check=True)
        for step in runs:
            done = shell(step.get("run", ""), runner, path)
            told = f"night {night}: {step}: {done.stdout[-3000:]} {done.stderr[-3000:]}"
            assert done.returncode == 0, told
        assert f"{night} of {night} task" in shell("ralph status", runner, path).stdout


def test_the_table_of_commands_has_each_and_every_option_that_is_named_exists(
    tmp_path: Path, ralph_on_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [row for row in (ROOT / "docs/commands.md").read_text("utf-8").splitlines() if row.startswith("| `ralph ")]
    assert {name for row in table for name in re.findall(r"`ralph (\w+)", row)} == set(cli.COMMANDS)
    named = [(row, f"`{option}`") for row in table for option in re.findall(r"--[a-z-]+", row)]
    for document in OF_TODAY:
        text = (ROOT / document).read_text("utf-8")
        named += [(code, code) for code in re.findall(r"`(?:\w+=\S+ )?(ralph [a-z]+[^`]*--[^`]*)`", text)]
    known: dict[str, str] = {}
    for told, options in named:
        name, *further = re.findall(r"ralph ([a-z]+)(?: ([a-z]+))?", told)[0]
        command = " ".join([name, *(word for word in further if name in {"task", "config", "plugin"})]).strip()
        if command not in known:
            assert typed(f"ralph {command} --help", tmp_path, ralph_on_path).code == 0, told
            known[command] = capsys.readouterr().out
        for option in re.findall(r"(?<!\S)`?(--[a-z-]+)", options):
            assert option in known[command] or command == "config", f"{command} has no {option}"


def settings() -> set[str]:
    """Every key of the configuration with a dot in it, as its schema has them."""
    whole = schema("config")

    def below(value: Any, prefix: str) -> Iterator[str]:
        for part in [value, *value.get("anyOf", []), value.get("items") or {}, value.get("additionalProperties") or {}]:
            if isinstance(part, dict) and "$ref" in part:
                yield from below(whole["$defs"][part["$ref"].rpartition("/")[2]], prefix)
            for key, inner in (part.get("properties") or {}).items() if isinstance(part, dict) else ():
                yield f"{prefix}{key}"
                yield from below(inner, f"{prefix}{key}.")

    return set(below(whole, ""))


@pytest.mark.parametrize("name", OF_TODAY)
def test_every_setting_that_is_named_is_one(name: str) -> None:
    known = settings()
    sections = {key.partition(".")[0] for key in known}
    told = re.findall(r"`([a-z]\w*(?:\[\])?(?:\.[a-z]\w*(?:\[\])?)+)(?::[^`]*)?`", (ROOT / name).read_text("utf-8"))
    named = {key.replace("[]", "") for key in told if key.partition(".")[0].replace("[]", "") in sections}
    assert {key for key in named if key not in known and key.rpartition(".")[2] not in {"md", "json", "yaml"}} == set()


@pytest.mark.parametrize("name", sample(["bash", "zsh", "fish"], 1))
def test_completion_scripts(name: str, tmp_path: Path, ralph_on_path: str) -> None:
    """bash runs its script and completes; of a shell that is not installed the script is at least made for it."""
    script = shell(f"ralph completion {name}", tmp_path, ralph_on_path)
    assert script.returncode == 0
    assert "_RALPH_COMPLETE" in script.stdout
    current = "st" if name == "fish" else "1"
    done = shell(
        f"COMP_WORDS='ralph st' COMP_CWORD={current} _RALPH_COMPLETE={name}_complete ralph", tmp_path, ralph_on_path
    )
    assert "status" in done.stdout
    if name == "bash":
        program = (
            f"{script.stdout}\nCOMP_WORDS=(ralph resu) COMP_CWORD=1; _ralph_completion ralph; echo ${{COMPREPLY[@]}}"
        )
        (tmp_path / "complete.sh").write_text(program)
        assert shell("bash complete.sh", tmp_path, ralph_on_path).stdout.split() == ["resume"]


def test_help_fits_a_screen(tmp_path: Path, ralph_on_path: str) -> None:
    lines = shell("COLUMNS=80 ralph --help", tmp_path, ralph_on_path).stdout.splitlines()
    assert len(lines) <= 24
    assert max(map(len, lines)) <= 80


@pytest.mark.parametrize("name", DOCUMENTS)
def test_every_file_that_a_document_names_is_there(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    linked = set(re.findall(r"\]\((?!https?:|#)([^)#]+)", text))
    named = set(re.findall(r"`((?:\w+/)+[\w./]*\.(?:py|md|json|yaml))`", text)) - {"history/iteration-N.json"}
    mine = {path for path in named if not path.startswith(("rulebook/", "specs/", ".rulebook"))}
    here = (ROOT / name).parent
    missing = [path for path in linked if not (here / path).exists()]
    missing += [path for path in mine if not any((root / path).exists() for root in (ROOT, ROOT / "rulebook_ralph"))]
    assert missing == []


def test_every_message_of_troubleshooting_is_one_of_the_program() -> None:
    sources = [file.read_text("utf-8") for file in sorted((ROOT / "rulebook_ralph").rglob("*.py"))]
    page = (ROOT / "docs/troubleshooting.md").read_text("utf-8")
    parts = {
        part.strip()
        for heading in re.findall(r"^### (`.*)$", page, re.MULTILINE)
        for message in re.findall(r"`([^`]+)`", heading)
        for part in re.split("…|^ralph .*", message)
        if len(part.strip()) > 3
    }
    broken = {part for part in parts if not any(part in source for source in sources)}  # over lines, or by a value
    texts = {text_of(node) for source in sources if broken for node in ast.walk(ast.parse(source))}
    assert {part for part in broken if not any(part in text for text in texts)} == set()


def text_of(node: ast.AST) -> str:
    """What a literal says, with `…` for what is put in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(text_of(part) or "…" for part in node.values)
    return node.value if isinstance(node, ast.Constant) and isinstance(node.value, str) else ""


def test_every_page_is_in_the_menu() -> None:
    menu = YAML(typ="safe", pure=True).load((ROOT / "mkdocs.yml").read_text("utf-8"))["nav"]
    pages = re.findall(r"[\w-]+\.md", str(menu))
    assert sorted(f"docs/{page}" for page in pages) == PAGES


def test_the_readme_is_read_in_three_minutes_and_its_picture_is_the_program_s_own() -> None:
    assert len(README.encode()) < 6500, "move it to a page"
    assert "docs/images/run.svg" in README
    assert "Generated with Rich" in (ROOT / "docs/images/run.svg").read_text("utf-8"), "python -m scripts.picture"
