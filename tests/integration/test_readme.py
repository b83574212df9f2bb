"""Every command in the README is run, or run by .ci/run; what it shows is what the program says."""

import itertools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rulebook_ralph.cli import main as cli
from tests.harness import Project, Ran
from tests.sampling import sample

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text("utf-8")
SHELL_BLOCKS = re.findall(r"^```sh\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
COMMANDS = [line for block in SHELL_BLOCKS for line in block.splitlines() if line.strip()]
INSTALLING = [line for line in COMMANDS if line.startswith("python3 -m venv")]
USING = [line for line in COMMANDS if line not in INSTALLING]
CLAUDE = """#!{python}
import json, os, sys
if sys.argv[1:] == ["--version"]:
    sys.exit(print("2.1.0 (Claude Code)"))
asked = sys.stdin.read()
if "Use no tools:" in asked:
    data = json.loads(asked[asked.index("Use no tools:"):].split("\\n\\n", 1)[1].rsplit("\\n\\nThat was the data.", 1)[0])
    place = data["files"][0]["file"]
    items = [dict(item=each["item"], answer="yes", reason="it holds", file=place, line=0) for each in data["items"]]
    said = json.dumps({{"items": items}})
else:
    task = os.environ["RALPH_TASK"]
    with open(task + ".txt", "w") as file:
        file.write("made for " + task + "\\n")
    said = "Done.\\n<promise>IMPLEMENTATION_COMPLETE</promise>"
print(json.dumps(dict(type="result", subtype="success", is_error=False, session_id="s", total_cost_usd=0.1, result=said)))
"""


@pytest.fixture(scope="module")
def ralph_on_path(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A PATH on which `ralph` is this checkout's, and `claude` does the README's tasks, and judges them."""
    folder = tmp_path_factory.mktemp("bin")
    ralph = folder / "ralph"
    program = f"import sys; sys.path.insert(0, {str(ROOT)!r}); from rulebook_ralph.entry import main; main()"
    ralph.write_text(f'#!/bin/sh\nexec {shlex.quote(sys.executable)} -c {shlex.quote(program)} "$@"\n')
    claude = folder / "claude"
    claude.write_text(CLAUDE.format(python=sys.executable))
    for each in (ralph, claude):
        each.chmod(0o755)
    return f"{folder}:{Path(sys.executable).parent}:{os.environ['PATH']}"


def shell(command: str, folder: Path, path: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["/bin/sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": path},
        check=False,
        capture_output=True,
        text=True,
    )


def typed(command: str, folder: Path, path: str) -> Ran:
    """What a user types: `ralph` runs in this process, where no process of its own shows more, all else in a shell."""
    words = shlex.split(command)
    set_here = list(itertools.takewhile(lambda word: re.match(r"[A-Z_]+=", word), words))
    if words[len(set_here) : len(set_here) + 1] != ["ralph"] or re.search("[|&;<>]", command):
        done = shell(command, folder, path)
        return Ran(done.returncode, done.stdout, done.stderr)
    environment = {"PATH": path, "CLAUDE_CODE_OAUTH_TOKEN": "t", **dict(word.split("=", 1) for word in set_here)}
    return Project(folder, folder, environment=environment).ralph(*words[len(set_here) + 1 :])


def test_the_two_commands_are_one_line_each_and_ci_runs_them() -> None:
    assert len(INSTALLING) == 2
    assert INSTALLING[0].endswith(".venv/bin/ralph demo")
    assert INSTALLING[1].endswith(".venv/bin/python -m pytest -n 2")
    script = (ROOT / ".ci" / "run").read_text()
    assert "grep '^python3 -m venv' README.md" in script, "CI takes the two commands from the README and runs them"


def alike(line: str) -> str:
    """A line of a run, without what differs from run to run: times, commits, and what is cut off."""
    line = re.sub(r"^\d\d:\d\d:\d\d ", "", line)
    return re.sub(r"\d+(\.\d+)? s\b|commit \w{8}", "…", line).rstrip()


def test_every_command_works_in_the_order_of_the_readme(tmp_path: Path, ralph_on_path: str) -> None:
    """On the demo's project, as a new user would; the iteration of `ralph show 3` is one of them."""
    made = typed("ralph demo --dir sundial", tmp_path, ralph_on_path)
    assert made.code == 0, made.err
    said = [alike(line) for line in made.out.splitlines()]
    picture = next(block for block in re.findall(r"^```\n(.*?)^```$", README, re.DOTALL | re.MULTILINE))
    for line in picture.splitlines()[1:]:
        assert line == "…" or any(each.startswith(alike(line)) for each in said), f"the demo does not say: {line}"

    project = tmp_path / "sundial"
    for reset in (
        "git switch -q main",
        "git branch -qD ralph/sundial",
        "git for-each-ref --format='delete %(refname)' refs/ralph | git update-ref --stdin",
    ):
        assert shell(reset, project, ralph_on_path).returncode == 0
    for command in USING:
        done = typed(command, project, ralph_on_path)
        assert done.code == 0, f"{command}: {done.out[-1500:]} {done.err}"
    assert "4 of 4 tasks completed" in typed("ralph status", project, ralph_on_path).out


def test_the_task_list_and_the_configurations_shown_are_valid(tmp_path: Path, ralph_on_path: str) -> None:
    shell("git init -q && git commit -q --allow-empty -m begin && mkdir .rulebook-ralph", tmp_path, ralph_on_path)
    (tmp_path / ".env").touch()
    state = tmp_path / ".rulebook-ralph"
    (listed,) = re.findall(r"^```json\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    (state / "prd.json").write_text(listed)
    shown = re.findall(r"^```yaml\n(.*?)^```$", README, re.DOTALL | re.MULTILINE)
    tasks = [block for block in shown if block.startswith("- id:")]
    assert (len(shown), len(tasks)) == (6, 1)
    for config in (block for block in shown if block not in tasks):
        (state / "config.yaml").write_text(config)
        done = typed("ralph validate", tmp_path, ralph_on_path)
        assert (done.code, done.out) == (0, "no problems\n"), config + done.out + done.err
    (tmp_path / "tasks.yaml").write_text(tasks[0])
    for command in ("ralph init --from tasks.yaml", "ralph validate"):
        done = typed(command, tmp_path, ralph_on_path)
        assert done.code == 0, done.out + done.err
    assert done.out == "no problems\n"


def test_the_reference_names_every_command_and_every_option_it_names_exists(
    tmp_path: Path, ralph_on_path: str, capsys: pytest.CaptureFixture[str]
) -> None:
    table = [row for row in README.splitlines() if row.startswith("| `ralph ")]
    assert {name for row in table for name in re.findall(r"`ralph (\w+)", row)} == set(cli.COMMANDS)
    for row in table:
        name = re.findall(r"`ralph (\w+)", row)[0]
        assert typed(f"ralph {name} --help", tmp_path, ralph_on_path).code == 0
        known = capsys.readouterr().out
        for option in re.findall(r"--[a-z-]+", row):
            assert option in known or name == "config", f"{name} has no {option}"


def test_every_setting_that_is_named_is_one_and_has_the_default_that_is_told(
    tmp_path: Path, ralph_on_path: str
) -> None:
    shell("git init -q", tmp_path, ralph_on_path)
    table = README.partition("| setting | default |")[2].partition("\n\n")[0]
    named = [
        key for row in table.splitlines() for key in re.findall(r"`([\w.]+)`", row.split("|")[1] if "|" in row else "")
    ]
    assert len(named) > 15
    section = ""
    for key in named:
        section = key.rpartition(".")[0] or section
        tries = [key] if "." in key else [f"{section}.{key}", key]
        assert any(typed(f"ralph config get {each}", tmp_path, ralph_on_path).code == 0 for each in tries), key


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


@pytest.mark.parametrize("name", ["README.md", "CONTRIBUTING.md", "docs/design.md", "CHANGELOG.md"])
def test_every_file_that_a_document_names_is_there(name: str) -> None:
    text = (ROOT / name).read_text("utf-8")
    linked = set(re.findall(r"\]\((?!https?:)([^)#]+)\)", text))
    named = set(re.findall(r"`((?:\w+/)+[\w./]*\.(?:py|md|json|yaml))`", text)) - {"history/iteration-N.json"}
    mine = {path for path in named if not path.startswith(("rulebook/", "specs/", ".rulebook"))}
    here = (ROOT / name).parent
    missing = [path for path in linked if not (here / path).exists()]
    missing += [path for path in mine if not any((root / path).exists() for root in (ROOT, ROOT / "rulebook_ralph"))]
    assert missing == []
