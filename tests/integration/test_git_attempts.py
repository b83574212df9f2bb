"""Attempts and the saved state as commits under refs/ralph."""

import os
from collections.abc import Iterable
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.git.landing import require_committer
from rulebook_ralph.git.objects import NewObjects, Objects
from rulebook_ralph.git.repository import open_repository
from tests.unit.git.project import Project


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return Project(tmp_path / "r", {"a.txt": "a\n"})


def save(project: Project, number: int, output: bytes | None = None, **changed: str | None) -> str:
    file = project.root.parent / "output"
    file.unlink(missing_ok=True)
    if output is not None:
        file.write_bytes(output)

    def clean(blocks: Iterable[bytes]) -> Iterable[bytes]:
        return (block.replace(b"secret", b"[removed]") for block in blocks)

    attempt = attempts.Attempt(
        reference=attempts.attempt_reference("p", "T-1", number),
        tree=project.tree({name.replace("_", "."): text for name, text in changed.items()}),
        base=project.git("rev-parse", "HEAD"),
        prompt="Prompt ü\n\udcff",
        output_file=file,
        clean=clean,
        message="ralph: attempt",
    )
    return attempts.save_attempt(project.repository, attempt, seconds=1_700_000_000)


def test_an_attempt_is_a_change_of_its_base_with_prompt_and_output(project: Project) -> None:
    commit = save(project, 3, b"said: secret\n", a_txt="A\n", n_txt="n\n")
    assert project.git("rev-parse", "refs/ralph/p/tasks/T-1/3") == commit
    assert project.git("diff", "--name-only", "HEAD", commit).split() == ["a.txt", "n.txt"]
    assert project.git("rev-parse", f"{commit}^1") == project.git("rev-parse", "HEAD")
    assert project.git("cat-file", "blob", f"{commit}^2:output.log") == "said: [removed]"
    assert project.repository.file_of(f"{commit}^2", "prompt.md") == "Prompt ü\n".encode() + b"\xff"
    assert attempts.highest_number(project.repository, "p") == 3
    assert attempts.highest_number(project.repository, "other") == 0


def test_of_endless_output_head_and_tail_are_kept(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attempts, "MAX_OUTPUT_BYTES", 4 * 1024 * 1024)
    commit = save(project, 1, b"head" + b"." * 9_000_000 + b"tail")
    kept = project.repository.file_of(f"{commit}^2", "output.log") or b""
    assert kept.startswith(b"head")
    assert kept.endswith(b"tail")
    assert b"bytes left out here" in kept
    assert len(kept) < 5 * 1024 * 1024


def test_attempts_are_forgotten_all_or_none(project: Project) -> None:
    first, second = save(project, 1), save(project, 2, a_txt="2\n")
    found = attempts.attempts_of(project.repository, "p")
    assert found == {"refs/ralph/p/tasks/T-1/1": first, "refs/ralph/p/tasks/T-1/2": second}
    with pytest.raises(Exception, match="update-ref"):
        attempts.forget_attempts(project.repository, {**found, "refs/ralph/p/tasks/T-1/2": first})
    assert len(attempts.attempts_of(project.repository, "p")) == 2
    attempts.forget_attempts(project.repository, {"refs/ralph/p/tasks/T-1/1": first})
    assert list(attempts.attempts_of(project.repository, "p")) == ["refs/ralph/p/tasks/T-1/2"]
    assert attempts.number_and_task("refs/ralph/p/tasks/T-1/2") == (2, "T-1")


def test_what_gc_takes_before_the_ref_names_it_is_written_again(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, written = Objects.write, []

    def write(self: Objects, new: NewObjects) -> None:
        real(self, new)
        written.append(new)
        if len(written) == 1:
            project.git("prune", "--expire=now")

    monkeypatch.setattr(Objects, "write", write)
    reference = attempts.state_reference("p")
    attempts.save_state(project.repository, reference, {"prd.json": b"1"}, parent=None, message="m", seconds=1)
    assert len(written) == 2
    assert attempts.file_of_state(project.repository, reference, "prd.json") == b"1"


def test_the_state_grows_by_what_changed(project: Project) -> None:
    repository, reference = project.repository, attempts.state_reference("p")
    large = os.urandom(2_000_000)

    def put(files: dict[str, bytes], parent: str | None, message: str) -> str:
        return attempts.save_state(repository, reference, files, parent=parent, message=message, seconds=1)

    first = put(
        {"prd.json": b"1", "history/iteration-1.json": b"h", "large": large}, None, "ralph: state\n\nUpdated: 1\n"
    )
    second = put({"prd.json": b"2"}, first, "ralph: state\n\nUpdated: 2\n")
    assert project.git("rev-parse", reference) == second
    assert sorted(attempts.entries_of_state(repository, second)) == ["history/iteration-1.json", "large", "prd.json"]
    assert attempts.file_of_state(repository, reference, "prd.json") == b"2"
    found = [attempts.file_of_state(repository, first, name) for name in ("prd.json", "large", "none")]
    assert found == [b"1", large, None]
    assert attempts.state_references(repository) == (reference,)
    assert attempts.state_with_message(repository, second, "Updated: 1") == first
    assert attempts.state_with_message(repository, second, "Updated: 3") is None
    assert attempts.forget_in_state(repository, reference, {"history/iteration-1.json"})
    assert sorted(attempts.entries_of_state(repository, reference)) == ["large", "prd.json"]
    assert project.git("log", "-1", "--format=%b", reference) == "Updated: 2"
    assert not attempts.forget_in_state(repository, reference, {"history/iteration-1.json"})


def test_a_save_that_fails_is_one_line(project: Project) -> None:
    with pytest.raises(RalphError, match="could not save"):
        attempts.save_state(
            project.repository, "refs/ralph/p/state", {"a": b""}, parent="1" * 40, message="m", seconds=1
        )


def test_who_commits_and_signs(project: Project, tmp_path: Path) -> None:
    assert not require_committer(project.repository)
    project.git("config", "gpg.program", "/bin/false")
    project.git("config", "commit.gpgSign", "true")
    with pytest.raises(RalphError, match="signing fails"):
        require_committer(project.repository)
    nameless = {
        name: value for name, value in os.environ.items() if not name.startswith(("GIT_AUTHOR", "GIT_COMMITTER"))
    }
    project.git("config", "user.useConfigOnly", "true")
    with pytest.raises(RalphError, match=r"user\.name"):
        require_committer(open_repository(project.root, {**nameless, "EMAIL": ""}))
