"""`ralph events`: what happened in the last run, and happens in the one that goes on, for whoever attaches to it."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from rulebook_ralph.report.event_log import NAME, EventLogReader
from rulebook_ralph.report.events import as_object, from_json
from rulebook_ralph.resources import schema
from tests.harness import HONEST, Project, finish, make_project, task, wait_for

WAITS = 'touch "$BESIDE/began"\nwhile ! test -e "$BESIDE/go"; do sleep 0.02; done\n' + HONEST


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, tasks=[task("one"), task("two")])


def events(project: Project) -> list[dict[str, Any]]:
    ran = project.ralph("events")
    assert (ran.code, ran.err) == (0, "")
    return [json.loads(line) for line in ran.out.splitlines()]


def test_they_are_what_the_run_printed_and_as_the_schema_says(project: Project) -> None:
    assert project.ralph("events").out == ""
    ran = project.ralph("run", "--parallel", "2", "--events")
    printed = [json.loads(line) for line in ran.out.splitlines()]
    kept = events(project)
    told = [[{**each, "at": ""} for each in some if each["event"] != "Notice"] for some in (kept, printed)]
    assert told[0] == told[1]
    validator = Draft202012Validator(schema("event"))
    for each in kept:
        validator.validate(each)
        event, at = from_json(json.dumps(each).encode())
        assert as_object(event, at)["event"] == each["event"]
    assert {each.get("iterationNumber") for each in kept if each["event"] == "GateEnded"} >= {1, 2}


def test_the_next_run_begins_anew(project: Project) -> None:
    project.ralph("run", "--task", "one")
    project.ralph("run", "--task", "two")
    opened = [each["taskId"] for each in events(project) if each["event"] == "IterationOpened"]
    assert opened == ["two"]


def test_another_terminal_follows_a_run_to_its_end(project: Project) -> None:
    project.agent(WAITS)
    run = project.start("run", "--task", "one")
    wait_for((project.beside / "began").exists, "the agent's start")
    follower = project.start("events", "--follow")
    (project.beside / "go").touch()
    assert finish(run).code == 0
    told = [json.loads(line)["event"] for line in finish(follower).out.splitlines()]
    assert (told.count("IterationOpened"), told[-1]) == (1, "RunEnded")


def test_no_secret_is_in_them(project: Project) -> None:
    project.environment["MY_TOKEN"] = "s3cret-of-a-person"
    project.agent('echo "it is s3cret-of-a-person"; sleep 0.3\n' + HONEST)
    assert project.ralph("run", "--task", "one").code == 0
    kept = (project.root / ".git" / "ralph" / NAME).read_text()
    assert ("[redacted]" in kept, "s3cret" in kept) == (True, False)


def test_a_run_goes_on_where_they_cannot_be_kept(project: Project) -> None:
    (project.root / ".git" / "ralph" / NAME).mkdir(parents=True)
    ran = project.ralph("run", "--task", "one")
    assert (ran.code, "events are not kept" in ran.out) == (0, True)


@given(st.lists(st.binary(max_size=20).map(lambda line: line.replace(b"\n", b"")), max_size=8), st.data())
def test_whoever_comes_back_gets_the_rest(
    tmp_path_factory: pytest.TempPathFactory, lines: list[bytes], data: Any
) -> None:
    private = tmp_path_factory.mktemp("private")
    text = b"".join(line + b"\n" for line in [b"the first", *lines])
    (private / NAME).write_bytes(text[: data.draw(st.integers(0, len(text)))])
    before = list(EventLogReader(private).lines())
    (private / NAME).write_bytes(text)
    after = list(EventLogReader(private, before[-1].place if before else "").lines())
    assert [each.data for each in (*before, *after)] == [b"the first", *lines]
    assert [each.begins for each in (*before, *after)] == [True, *(False for _ in lines)]


def test_a_place_in_a_run_that_is_over_is_the_beginning_of_the_next(tmp_path: Path) -> None:
    (tmp_path / NAME).write_bytes(b"a\nb\n")
    place = list(EventLogReader(tmp_path).lines())[-1].place
    (tmp_path / NAME).write_bytes(b"c\n")
    assert [each.data for each in EventLogReader(tmp_path, place).lines()] == [b"c"]
