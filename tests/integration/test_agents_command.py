"""Any program as an agent: real processes, plain text."""

from collections.abc import Callable
from pathlib import Path
from typing import Literal

import pytest

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.config.settings import Executor
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.tasks.results import AgentResult
from tests.agent_runs import ran
from tests.harness import HONEST, make_project, task

PROMPT = "do it\n<promise>DONE</promise> {model} é"


def commanded(
    folder: Path,
    command: str,
    *args: str,
    via: Literal["stdin", "file", "argument"] = "stdin",
    prompt: str = PROMPT,
    wall_time: float = 10,
    report: Callable[[AgentActivity], None] = lambda _: None,
) -> AgentResult:
    settings = Executor(id="mine", type="command", command=command, args=args, model="m 1", prompt_via=via)
    return ran(folder, settings, prompt, limits=AgentLimits(wall_time=wall_time), report=report)


def test_prompt_by_stdin(tmp_path: Path) -> None:
    got = commanded(tmp_path, "cat -")
    assert (got.status, got.final_text, got.exit_code, got.agent) == ("finished", PROMPT, 0, "mine")
    assert (tmp_path / "raw").read_text() == PROMPT == got.output


def test_prompt_as_argument_is_handed_over_as_it_is(tmp_path: Path) -> None:
    assert commanded(tmp_path, "printf", "%s|", via="argument").final_text == f"{PROMPT}|"
    assert commanded(tmp_path, "printf '%s|%s|' {prompt}", via="argument", prompt="a b").final_text == "a b||"


@pytest.mark.parametrize("args", [("{prompt_file}",), ()])
def test_prompt_by_file_outside_the_workspace(tmp_path: Path, args: tuple[str, ...]) -> None:
    script = 'cat "$0"; echo; echo "$0"; pwd; stat -c %a "$0" "$(dirname "$0")" 2>/dev/null || echo'
    got = commanded(tmp_path, "sh", "-c", script, *args, via="file")
    *prompt, path, workspace, _, _ = got.final_text.splitlines()
    assert "\n".join(prompt) == PROMPT
    assert not path.startswith(workspace)
    assert not Path(path).parent.exists()


def test_file_placeholder_works_without_saying_so(tmp_path: Path) -> None:
    assert commanded(tmp_path, "cat {prompt_file}").final_text == PROMPT


def test_model_is_put_in(tmp_path: Path) -> None:
    assert commanded(tmp_path, "echo --model={model}").final_text == "--model=m 1\n"


def test_words_of_a_command_with_args_are_not_split(tmp_path: Path) -> None:
    program = tmp_path / "my agent"
    program.write_text("#!/bin/sh\necho $1\n")
    program.chmod(0o755)
    assert commanded(tmp_path, str(program), "x").final_text == "x\n"
    assert commanded(tmp_path, f"'{program}' y").final_text == "y\n"


@pytest.mark.parametrize(
    ("command", "status", "kind", "said"),
    [
        ("sh -c 'echo \"<promise>DONE</promise>\"; echo broke >&2; exit 3'", "failed", "crash", "exit code 3: broke"),
        ("sh -c 'kill -9 $$'", "failed", "crash", "SIGKILL, which Ralph did not send"),
        ("sh -c 'no_such_tool'", "failed", "not-installed", "127"),
        ("no_such_agent", "failed", "not-installed", "no_such_agent: No such file"),
        ("./plain", "failed", "not-installed", "Permission denied"),
    ],
)
def test_failures(tmp_path: Path, command: str, status: str, kind: str, said: str) -> None:
    (tmp_path / "workspace").mkdir()
    (tmp_path / "workspace" / "plain").write_text("no program")
    got = commanded(tmp_path, command)
    assert got.fault
    assert (got.status, got.fault.kind) == (status, kind)
    assert said in got.fault.message


def test_a_prompt_too_long_for_an_argument_says_what_to_do(tmp_path: Path) -> None:
    got = commanded(tmp_path, "echo", "-n", via="argument", prompt="x" * 3_000_000)
    assert got.fault
    assert (got.status, got.fault.kind) == ("failed", "context-too-long")
    assert "promptVia: stdin" in got.fault.message


def test_killed_after_the_promise_is_killed(tmp_path: Path) -> None:
    got = commanded(
        tmp_path, 'sh -c \'trap "exit 0" INT TERM; echo "<promise>DONE</promise>"; sleep 60 & wait\'', wall_time=1
    )
    assert (got.status, got.killed_by, got.exit_code) == ("killed", "wall-time", 0)
    assert "DONE" in got.final_text


def test_no_output_at_all(tmp_path: Path) -> None:
    got = commanded(tmp_path, "true")
    assert (got.status, got.final_text, got.output_bytes) == ("finished", "", 0)


def test_long_output_keeps_its_head_and_tail(tmp_path: Path) -> None:
    got = commanded(tmp_path, "sh -c 'echo first; head -c 5000000 /dev/zero | tr \"\\0\" x; echo; echo last'")
    assert got.output_bytes == (tmp_path / "raw").stat().st_size == 5_000_012
    assert len(got.final_text) < 1_200_000
    assert len(got.output) < 40_000
    for text in (got.final_text, got.output):
        assert text.startswith("first\n")
        assert text.endswith("x\nlast\n")
        assert "bytes left out" in text


def test_stderr_is_kept_apart(tmp_path: Path) -> None:
    got = commanded(tmp_path, "sh -c 'echo out; echo \"<promise>DONE</promise>\" >&2'")
    assert got.final_text == "out\n"
    assert got.output == "out\n--- stderr ---\n<promise>DONE</promise>\n"


def test_text_is_shown_as_it_comes_and_a_failing_display_harms_nothing(tmp_path: Path) -> None:
    activities: list[AgentActivity] = []
    got = commanded(tmp_path, "sh -c 'echo; echo working; sleep 0.15; echo still'", report=activities.append)
    assert activities == [AgentActivity("text", "working"), AgentActivity("text", "still")]
    assert got.status == "finished"

    def broken(_: AgentActivity) -> None:
        raise ValueError

    assert commanded(tmp_path, "echo fine", report=broken).status == "finished"


@pytest.mark.parametrize(
    ("own", "configured", "flag", "model"),
    [
        ("", "", (), "built"),
        ("", "default", (), "default"),
        ("mine", "default", (), "mine"),
        ("mine", "default", ("--model", "flag"), "flag"),
    ],
)
def test_the_model_is_the_flags_the_tasks_the_defaults_or_the_agents(
    tmp_path: Path, own: str, configured: str, flag: tuple[str, ...], model: str
) -> None:
    project = make_project(tmp_path, tasks=[task("one", overrides={"model": own} if own else {})])
    project.agent(f'echo "$1" > "$BESIDE/model"\n{HONEST}')
    run = {"id": "s", "type": "command", "command": f"sh {project.beside}/agent.sh {{model}}", "model": "built"}
    project.configure(tools={"executors": [run]}, defaults={"executor": "s", "model": configured})
    assert project.ralph("run", *flag).code == 0
    assert (project.beside / "model").read_text() == f"{model}\n"
