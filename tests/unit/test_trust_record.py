"""The record of what a person agreed to have run, and which commands are one and the same."""

from pathlib import Path

import pytest

from rulebook_ralph.core.configured_commands import commands_of_config, commands_of_tasks
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.settings import Config, Executor, Hook, Tools, Verification, VerificationStep, Workspace
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import trust_record


def test_a_record_is_read_as_it_was_written_for_its_repository_alone(tmp_path: Path) -> None:
    one, other = tmp_path / "one" / ".git", tmp_path / "other" / ".git"
    trust_record.write(tmp_path / "trust", one, agreed=frozenset("ab"), imported=frozenset("c"))
    record = trust_record.read(tmp_path / "trust", one)
    assert record is not None
    assert (record.agreed, record.imported) == (frozenset("ab"), frozenset("c"))
    after = record.with_agreed(frozenset("c"))
    assert (after.agreed, after.imported) == (frozenset("abc"), frozenset())
    assert trust_record.read(tmp_path / "trust", other) is None


@pytest.mark.parametrize("content", [b"", b"[" * 100_000, b"{}", b'{"repository": 7}', b"\xff", None])
def test_a_record_that_cannot_be_believed_is_none(tmp_path: Path, content: bytes | None) -> None:
    git = tmp_path / "one" / ".git"
    trust_record.write(tmp_path, git, agreed=frozenset("a"))
    (file,) = tmp_path.glob("*.json")
    file.unlink()
    if content is None:
        file.symlink_to("/dev/zero")
    else:
        file.write_bytes(content)
    assert trust_record.read(tmp_path, git) is None


def test_a_record_within_the_work_tree_could_come_with_it(tmp_path: Path) -> None:
    with pytest.raises(RalphError, match="within the project"):
        trust_record.write(tmp_path / "home" / ".local", tmp_path / "home" / ".git", agreed=frozenset())


def test_its_folder_is_of_the_user_and_never_relative() -> None:
    home = Path("/home/me")
    assert trust_record.trust_folder({}, home) == home / ".local/state/rulebook-ralph/trust"
    assert trust_record.trust_folder({"XDG_STATE_HOME": "state"}, home) == home / ".local/state/rulebook-ralph/trust"
    assert trust_record.trust_folder({"XDG_STATE_HOME": "/s"}, home) == Path("/s/rulebook-ralph/trust")


def digests(*steps: VerificationStep) -> list[str]:
    return [each.digest for each in commands_of_config(Config(verification=Verification(steps=steps)))]


def test_a_command_is_the_same_under_another_name_and_another_with_other_surroundings() -> None:
    step = VerificationStep(name="a", command="make")
    same = VerificationStep(name="b", command="make", timeout=7, required=False, kind="test")
    others = (
        VerificationStep(name="a", command="make x"),
        VerificationStep(name="a", command="make", working_dir="sub"),
        VerificationStep(name="a", command="make", env={"LD_PRELOAD": "x.so"}),
    )
    assert digests(step) == digests(same)
    assert len({*digests(step, *others)}) == 4


def test_every_place_that_can_run_something_is_looked_at() -> None:
    external = {"verificationMethod": "external", "verificationConfig": {"command": "one"}}
    nested = {"name": "n", "method": "external", "config": {"command": "two", "working_dir": "sub"}}
    inner = {"name": "m", "method": "multi_stage", "config": {"stages": [nested]}}
    multi = {"verificationMethod": "multi_stage", "verificationConfig": {"stages": [inner]}}
    tasks = [Task(id="t", title="", completion={"coder": external, "qa": multi})]
    assert [str(each) for each in commands_of_tasks(tasks)] == [
        "criterion t (coder): one",
        "criterion t (qa) m n: two (in sub)",
    ]
    config = Config(
        tools=Tools(
            executors=(
                Executor(id="plain", type="claude", model="x"),
                Executor(id="own", type="command", command="agent", args=("-p", "a b")),
                Executor(id="env", type="claude", env={"PATH": "."}),
                Executor(id="there", type="opencode", endpoint="http://x"),
            )
        ),
        hooks=(Hook(name="h", command="c"), Hook(name="p", plugin="q")),
        workspace=Workspace(setup="npm ci", copy=(".env",)),
    )
    assert [str(each) for each in commands_of_config(config)] == [
        "workspace.setup: npm ci",
        "hook h: c",
        "hook p: plug-in q",
        "agent own: agent -p 'a b'",
        "agent env: claude (PATH=.)",
        "agent there: opencode (endpoint http://x)",
    ]
