"""Commands as checks: real shells, real processes, several at once."""

import os
import sys
import threading
import time
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.checks import external, gates
from rulebook_ralph.checks.shell import ResultCache, Surroundings
from rulebook_ralph.checks.subject import Subject
from rulebook_ralph.checks.verification import verify
from rulebook_ralph.core.criteria import Criteria, External, MultiStage, Part
from rulebook_ralph.core.evidence import CheckResult, Verified
from rulebook_ralph.core.settings import VerificationStep

ENVIRONMENT = {"PATH": os.environ["PATH"], "LC_ALL": "C"}


def around(root: Path, **values: Any) -> Surroundings:
    defaults: dict[str, Any] = {"environment": ENVIRONMENT, "clean": str, "cancelled": Event()}
    return Surroundings(root, **(defaults | values))


def checked(root: Path, command: str, **values: Any) -> CheckResult:
    return external.check(External(command=command, **values), around(root), step="coder")


@pytest.mark.parametrize(
    ("command", "values", "reason"),
    [
        ("true", {}, ""),
        ("exit 3", {}, "exit code 3"),
        ("exit 3", {"success_exit_code": 3}, ""),
        ("true", {"success_exit_code": 3}, "exit code 0, expected 3"),
        ("kill -9 $$", {}, "ended by signal 9"),
        ("no-such-command", {}, "exit code 127"),
        ("echo 4 passed", {"output_contains": "passed"}, ""),
        ("echo 4 passed >&2", {"output_contains": "passed"}, ""),
        ("echo 4 failed", {"output_contains": "passed"}, "the output does not contain 'passed'"),
        ("echo FAILED >&2", {"output_not_contains": "FAILED"}, "the output contains 'FAILED'"),
        ("echo FAILED; exit 1", {"output_not_contains": "FAILED"}, "exit code 1; the output contains 'FAILED'"),
        ("pwd", {"working_dir": "sub", "output_contains": "/sub\n"}, ""),
        ("echo hello", {"output_contains": "$HOME"}, "the output does not contain '$HOME'"),
        ("true", {"working_dir": "inside"}, ""),
        ("true", {"working_dir": "outside"}, "not run: a link leads from the folder outside out of the repository"),
    ],
)
def test_exit_code_and_output_decide(tmp_path: Path, command: str, values: dict[str, Any], reason: str) -> None:
    root = tmp_path / "root"
    (root / "sub").mkdir(parents=True)
    (root / "inside").symlink_to("sub")
    (root / "outside").symlink_to(tmp_path)
    result = checked(root, command, **values)
    assert (result.passed, result.reason) == (not reason, reason)


def test_verification_command_fails_to_execute_and_is_a_failed_check_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "loop").symlink_to("loop")
    reasons = {name: checked(tmp_path, "true", working_dir=name).reason for name in ("none", "file", "loop", "x" * 300)}
    assert all(reason.startswith("could not start: ") for reason in reasons.values()), reasons
    assert "No such file" in reasons["none"]
    assert checked(tmp_path, "x" * 3_000_000).reason.startswith("could not start: ")


def test_a_gate_whose_folder_became_a_link_to_the_outside_is_not_run(tmp_path: Path) -> None:
    (tmp_path / "root").mkdir()
    (tmp_path / "root" / "web").symlink_to(tmp_path)
    step = VerificationStep(name="web", kind="test", command="true", working_dir="web")
    result = gates.run_step(step, around(tmp_path / "root"))
    assert (result.method, result.kind, result.passed) == ("gate", "test", False)
    assert gates.run_step(
        VerificationStep(name="up", command="true", working_dir=".."), around(tmp_path / "root")
    ).passed


def test_the_whole_output_is_searched_and_its_ends_are_kept_without_secrets(tmp_path: Path) -> None:
    command = (
        "printf 'sesame first'; head -c 200000 /dev/zero | tr '\\0' 'x'; printf ' nee'; sleep 0.05; printf 'dle '; "
        "head -c 200000 /dev/zero | tr '\\0' 'y'; printf ' sesame last'"
    )
    surroundings = around(tmp_path, clean=lambda text: text.replace("sesame", "[redacted]"))
    result = external.check(External(command=command, output_contains="needle"), surroundings, step="coder")
    assert (result.passed, result.reason) == (True, "")
    assert result.output.startswith("[redacted] ")
    assert result.output.endswith(" [redacted] last")
    assert "bytes left out" in result.output
    assert len(result.output) < 65_000
    assert not external.check(External(command=command, output_not_contains="needle"), surroundings, step="x").passed


def test_a_timeout_ends_the_whole_tree(tmp_path: Path) -> None:
    started = time.monotonic()
    command = "sleep 60 & echo $! > pids; (setsid sleep 60 & echo $! >> pids); sleep 60"
    result = checked(tmp_path, command, timeout=0.3)
    assert (result.passed, result.exit_code, result.reason) == (False, None, "did not end within 0.3 s")
    assert time.monotonic() - started < 8
    assert not any(map(alive, pids(tmp_path)))


# The same command once


def counting(root: Path) -> str:
    return f"echo run >> {root / 'runs'}; echo output"


def count(root: Path) -> int:
    return len((root / "runs").read_text().splitlines())


def test_a_command_that_was_a_gate_is_not_run_again_on_the_same_tree(tmp_path: Path) -> None:
    cache, step = ResultCache(), VerificationStep(name="tests", kind="test", command=counting(tmp_path))
    gates.run_steps(
        (step,),
        root=tmp_path,
        environment=ENVIRONMENT,
        clean=str,
        cancelled=Event(),
        started=lambda _: None,
        ended=lambda _: None,
        tree="one",
        cache=cache,
    )
    same = External(command=step.command, output_contains="output")
    other = External(command=step.command, output_contains="else")
    remembered = around(tmp_path, tree="one", cache=cache)
    assert external.check(same, remembered, step="coder").passed
    assert external.check(other, remembered, step="coder").reason == "the output does not contain 'else'"
    assert count(tmp_path) == 1
    external.check(same, around(tmp_path, tree="two", cache=cache), step="coder")
    assert count(tmp_path) == 2
    external.check(same, around(tmp_path, tree="one", cache=cache, environment={**ENVIRONMENT, "A": "1"}), step="coder")
    assert count(tmp_path) == 3


# Whole verifications


def subject(root: Path, **values: Any) -> Subject:
    defaults: dict[str, Any] = {
        "root": root,
        "stage": "qa",
        "promise": "QA_PASSED",
        "promises": ("QA_PASSED",),
        "final_message": "",
        "commit_messages": (),
        "title": "",
        "description": "",
        "acceptance_criteria": (),
        "diff": tuple,
        "relevant_files": dict,
        "tree": lambda: "tree",
        "put_back": lambda: None,
        "environment": ENVIRONMENT,
        "clean": str,
        "cancelled": Event(),
    }
    return Subject(**(defaults | values))


def parts(*commands: str, **values: Any) -> tuple[Part, ...]:
    return tuple(
        Part(name=f"part{number}", method="external", config={"command": command, **values})
        for number, command in enumerate(commands)
    )


def verified(root: Path, stages: tuple[Part, ...], *, parallel: bool = False, **values: Any) -> Verified:
    criteria = Criteria(promise="QA_PASSED", verification=MultiStage(stages=stages, parallel=parallel))
    return verify(criteria, subject(root, **values), cache=ResultCache())


def test_feedback_tells_command_expectation_and_output(tmp_path: Path) -> None:
    config = {"success_exit_code": 0, "output_contains": "ok"}
    found = verified(tmp_path, parts("echo 'one failed'; exit 2", **config))
    assert (found.passed, found.proven, found.reason) == (
        False,
        False,
        "qa/part0 (exit code 2; the output does not contain 'ok')",
    )
    for line in (
        "Command: echo 'one failed'; exit 2",
        "Expected: exit code 0, output that contains 'ok'",
        "one failed",
    ):
        assert line in found.feedback


def test_what_a_check_changed_is_put_back_before_the_next(tmp_path: Path) -> None:
    litter = tmp_path / "litter"
    found = verified(
        tmp_path,
        parts("touch litter", "test ! -e litter"),
        put_back=lambda: litter.unlink(missing_ok=True),
    )
    assert (found.passed, found.proven) == (True, True)


def test_a_nested_multi_stage_really_runs(tmp_path: Path) -> None:
    deepest = {"stages": [{"name": "deep", "method": "external", "config": {"command": "exit 4"}}]}
    nested = Part(name="all", method="multi_stage", config=deepest)
    found = verified(tmp_path, (*parts("true"), nested))
    assert (found.passed, found.reason) == (False, "qa/all/deep (exit code 4)")


def test_independent_parts_take_as_long_as_the_longest(tmp_path: Path) -> None:
    meet = "touch {0}; for i in $(seq 500); do [ -e a ] && [ -e b ] && [ -e c ] && exit; sleep 0.01; done; exit 1"
    commands = [meet.format(name) for name in "abc"]
    found = verified(tmp_path, parts(*commands), parallel=True)
    assert found.passed, found.reason


def test_cancelling_ends_all_that_run_and_puts_back(tmp_path: Path) -> None:
    cancelled, put_back = Cancellation(), Event()
    threading.Timer(0.3, cancelled.set).start()
    commands = [f"echo $$ >> pids; exec sleep {60 + number}" for number in range(3)]
    with pytest.raises(gates.Cancelled):
        verified(tmp_path, parts(*commands), parallel=True, cancelled=cancelled, put_back=put_back.set)
    assert put_back.is_set()
    assert len(pids(tmp_path)) == 3
    assert not any(map(alive, pids(tmp_path)))


# Siblings and what they leave behind

SERVER = """
import os, sys, time
def daemon(cleared):
    # A grandchild in a session of its own, whose parent is gone. Its end is seen by that of the pipe.
    watched, held = os.pipe()
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            with open("pids", "a") as file:
                file.write(f"{os.getpid()}\\n")
            os.set_inheritable(held, True)
            os.close(1), os.close(2)
            command = "import os, time; os.write(%d, b'.'); time.sleep(60)" % held
            argv = [sys.executable, "-I", "-S", "-c", command]
            os.execve(sys.executable, argv, {} if cleared else os.environ)
        os._exit(0)
    os.close(held)
    os.wait()
    os.read(watched, 1)
    os.set_blocking(watched, False)
    return watched
def lives(watched):
    try:
        return os.read(watched, 1) != b""
    except BlockingIOError:
        return True
name, rounds, code = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
daemons = daemon(cleared=False), daemon(cleared=True)
for _ in range(rounds):
    time.sleep(0.02)
    if not all(map(lives, daemons)):
        sys.exit("the end of a sibling took a daemon away")
print("end of", name)
sys.exit(code)
"""


def test_checks_at_once_that_leave_daemons_end_their_own_and_no_sibling(tmp_path: Path) -> None:
    threads = 8
    (tmp_path / "server.py").write_text(SERVER)
    stages = tuple(
        Part(
            name=f"part{number}",
            method="external",
            config={
                "command": f"{sys.executable} -I -S server.py {number} {number * 3} {number}",
                "success_exit_code": number,
                "output_contains": f"end of {number}\n",
            },
        )
        for number in range(threads)
    )
    found = verified(tmp_path, stages, parallel=True)
    assert found.passed, (found.reason, found.feedback)
    assert [result.exit_code for result in found.results[:-1]] == list(range(threads))
    assert len(pids(tmp_path)) == 2 * threads
    assert not any(map(alive, pids(tmp_path)))


def pids(folder: Path) -> list[int]:
    return [int(line) for line in (folder / "pids").read_text().split()]


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
