"""A person edits the task list while a run goes on, with whatever editor: no edit is lost, and none counts twice."""

import json
import os
import random
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from rulebook_ralph.clock import Clock
from rulebook_ralph.run.edits import PrdFile
from rulebook_ralph.tasks import prd_file
from rulebook_ralph.tasks.model import Prd
from tests.harness import CREATED, DEADLINE, PROMISE, Project, make_project, task, wait_for
from tests.meanwhile import WAITS, during
from tests.sampling import sample

TASKS = ("t0", "t1", "t2", "t3", "t4", "last")
AGENT = (
    'mkdir -p work; echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"; sleep 0.1\n'
    'test "$RALPH_TASK" != last || while ! test -e "$BESIDE/edited"; do sleep 0.05; done\n' + PROMISE
)
EDITS_OF_A_RUN = 20
TAKEN_OVER = 5.0
"""Seconds in which a run has looked several times; it need not write the file then."""
Change = Callable[[dict[str, Any]], None]


class Editors(threading.Thread):
    """A person with several editors open, who edits until told enough, each edit another place of the list."""

    def __init__(self, project: Project, seed: int, count: int) -> None:
        super().__init__()
        self.project = project
        self.path = project.folder.prd
        self.keys: dict[str, tuple[str, int]] = {}
        self.titles: dict[str, str] = {}
        self.added: list[str] = []
        self.failure: BaseException | None = None
        self._chance = random.Random(seed)
        self._count = count
        self._buffer = ""
        """What an editor loaded a while ago."""
        self._saved = ""

    def run(self) -> None:
        try:
            wait_for(lambda: any(self.project.folder.history.glob("*.json")), "an iteration")
            self._buffer = self._read()
            for number in range(self._count):
                time.sleep(self._chance.uniform(0, 0.15))
                self._edit(number)
        except BaseException as failure:  # noqa: BLE001 - for the test's own thread
            self.failure = failure
        finally:
            (self.project.beside / "edited").touch()

    def _edit(self, number: int) -> None:
        manner = self._chance.choice((self._vim, self._old_buffer, self._sed, self._jq, self._slowly))
        if manner == self._sed and (left := [name for name in TASKS if name not in self.titles]):
            name = left[0]
            self.titles[name] = f"Do {name} by sed"
            subprocess.run(["sed", "-i", f's/"Do {name}"/"Do {name} by sed"/', str(self.path)], check=True)
            self._saved = self._read()
            return
        if self._chance.random() < 0.2:
            name = f"added-{number}"
            self.added.append(name)
            manner(lambda prd: prd["tasks"].append({"id": name, "title": f"Do {name}", "status": "pending"}))
        else:
            name = self._chance.choice(TASKS)
            self.keys[f"key{number}"] = (name, number)
            manner(lambda prd: next(t for t in prd["tasks"] if t["id"] == name).update({f"key{number}": number}))

    def _read(self) -> str:
        """The file as it is, once it is whole."""
        end = time.monotonic() + DEADLINE
        while True:
            with suppress(OSError, ValueError):
                text = self.path.read_text()
                json.loads(text)
                return text
            assert time.monotonic() < end
            time.sleep(0.005)

    def _changed(self, text: str, change: Change) -> str:
        prd = json.loads(text)
        change(prd)
        self._saved = json.dumps(prd, indent=2) + "\n"
        return self._saved

    def _vim(self, change: Change) -> None:
        text = self._changed(self._read(), change)
        with suppress(FileNotFoundError):
            self.path.rename(self.path.with_name("prd.json~"))
        self.path.write_text(text)
        self.path.with_name("prd.json~").unlink(missing_ok=True)

    def _jq(self, change: Change) -> None:
        temporary = self.path.with_name("tmp")
        temporary.write_text(self._changed(self._read(), change))
        temporary.replace(self.path)

    def _sed(self, change: Change) -> None:
        self._jq(change)

    def _slowly(self, change: Change) -> None:
        """In pieces, which cannot be read before the last."""
        text = self._changed(self._read(), change)
        with self.path.open("w") as file:
            for start in range(0, len(text), len(text) // 3):
                file.write(text[start : start + len(text) // 3])
                file.flush()
                time.sleep(0.02)

    def _old_buffer(self, change: Change) -> None:
        """What was loaded long ago is written in place, over whatever was saved since and was taken over."""
        end = time.monotonic() + TAKEN_OVER
        while self._saved and self._read() == self._saved and time.monotonic() < end:
            time.sleep(0.01)
        self._buffer = self._changed(self._buffer, change)
        self.path.write_text(self._buffer)


@pytest.mark.parametrize("seed", sample(range(2), 1))
def test_no_edit_is_lost_and_none_counts_twice(tmp_path: Path, seed: int, thorough: bool) -> None:
    for number in range(8 if thorough else 1):
        _run_with_edits(tmp_path / str(number), 100 * seed + number, workers=(1, 3)[seed])


def _run_with_edits(folder: Path, seed: int, *, workers: int) -> None:
    tasks = [task(name, priority=number + 1) for number, name in enumerate(TASKS)]
    project = make_project(folder, agent=AGENT, tasks=tasks, parallel={"workers": workers})
    editors = Editors(project, seed, EDITS_OF_A_RUN)
    editors.start()
    ran = project.ralph("run")
    editors.join()
    assert editors.failure is None, editors.failure
    assert ran.code == 0, ran.out + ran.err
    again = project.ralph("run")  # what was saved after the last look
    assert again.code == 0, again.out + again.err
    prd = project.prd
    found = {key: (each.id, value) for each in prd.tasks for key, value in each.extra.items()}
    assert found == editors.keys, ran.out
    assert {name: prd.task(name).title for name in editors.titles} == editors.titles
    assert Counter(each.id for each in prd.tasks) == Counter([*TASKS, *editors.added])
    assert {each.status for each in prd.tasks} == {"completed"}
    done = Counter(record.task_id for record in project.records if record.tasks_completed)
    assert done == Counter([*TASKS, *editors.added]), "nothing is done twice"
    assert project.ralph("validate").code == 0


# At one moment


def edited(project: Project, script: str) -> str:
    """Run, with that sh script run while the second task's agent works; what the run said. It looks once a second."""
    ran = during(project, script, then=1.2)
    assert ran.code == 0, ran.out + ran.err
    return " ".join(ran.out.split())


@pytest.fixture
def project(tmp_path: Path) -> Project:
    return make_project(tmp_path, agent=WAITS, tasks=[task("one", priority=1), task("two", priority=2), task("three")])


def statuses(project: Project) -> dict[str, str]:
    return {each.id: each.status for each in project.prd.tasks}


ALL_DONE = dict.fromkeys(("one", "two", "three"), "completed")
OLD = "touch -d '5 seconds ago' .rulebook-ralph/prd.json"


def test_an_old_buffer_takes_nothing_back(project: Project) -> None:
    (project.beside / "buffer").write_text(project.folder.prd.read_text().replace("Do three", "Do it my way"))
    edited(project, f"cat '{project.beside}/buffer' > .rulebook-ralph/prd.json")
    assert statuses(project) == ALL_DONE
    assert project.task("three").title == "Do it my way"
    assert len(project.records) == 3


def test_a_file_that_cannot_be_read_is_left_and_said_and_waited_for(project: Project) -> None:
    said = edited(project, f"""sed -i 's/"Do three"/"Do it my way",/' .rulebook-ralph/prd.json; {OLD}""")
    assert "prd.json:" in said
    assert "leaving the file as it is" in said
    text = project.folder.prd.read_text()
    assert '"Do it my way",,' in text
    assert project.task_commits().keys() == ALL_DONE.keys()
    project.folder.prd.write_text(text.replace(",,", ","))
    assert project.ralph("resume").code == 0
    assert statuses(project) == ALL_DONE
    assert project.task("three").title == "Do it my way"
    assert len(project.records) == 3


def test_a_task_that_gets_another_id_while_it_is_worked_on_lands_once(project: Project) -> None:
    ran = during(project, """sed -i 's/"id": "two"/"id": "second"/' .rulebook-ralph/prd.json""")
    assert ran.code == 0, ran.out + ran.err
    assert "two is not in the task list any more; its work is kept in" in " ".join(ran.out.split())
    assert sorted(project.task_commits()) == ["one", "second", "three"]


def test_a_removed_file_is_written_again(project: Project) -> None:
    edited(project, "rm .rulebook-ralph/prd.json")
    assert statuses(project) == ALL_DONE
    assert project.ralph("validate").code == 0


def test_a_stash_takes_nothing_away(project: Project) -> None:
    project.write({"app.txt": "sound\nmine\n", "note.txt": "mine\n"})
    edited(project, "git stash -q -u")
    assert statuses(project) == ALL_DONE
    assert [record.iteration_number for record in project.records] == [1, 2, 3]
    assert project.folder.progress.read_text().count("## End of iteration") == 4
    assert project.ralph("validate").code == 0
    assert project.git("show", "stash@{0}:app.txt") == "sound\nmine"
    assert project.git("show", "stash@{0}^3:note.txt") == "mine"


def test_what_stands_in_the_file_on_another_branch_is_no_edit(project: Project) -> None:
    """The list as it was before the run is committed on main; the branch is left and comes back."""
    project.git("add", "-A")
    project.git("commit", "-qm", "state")
    retitled = "sed -i 's/Do three/Do it my way/' .rulebook-ralph/prd.json; sleep 1.2; git stash -q; git switch -q main"
    edited(project, f"{retitled}; sleep 1.2; git switch -q ralph/toy")
    assert statuses(project) == ALL_DONE
    assert project.task("three").title == "Do it my way"
    assert project.git("show", "main:.rulebook-ralph/prd.json").count("completed") == 1, "the totals' own key"


# At the very moment when Ralph writes


class File:
    """prd.json, a Ralph that writes it, and an editor."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "prd.json"
        prd = Prd(version=1, project="toy", created_at=CREATED, updated_at=CREATED, tasks=(task("one"), task("two")))
        self.path.write_bytes(prd_file.encode_prd(prd))
        clock = Clock(now=lambda: datetime.now(UTC), monotonic=time.monotonic)
        self.notices: list[str] = []
        self.ralphs = PrdFile(
            self.path, prd, saved_version=lambda _: None, clock=clock, notice=lambda _, text: self.notices.append(text)
        )
        self.ralphs.take_edits()

    def settle(self, number: int) -> None:
        """Ralph changes task two, and writes."""
        before = self.ralphs.prd
        changed = before.replacing(task("two", status="completed", title=before.task("two").title))
        self.ralphs.put(replace(changed, updated_at=f"2026-01-01T00:00:{number:02}.000Z"))
        self.ralphs.write()

    def with_title(self, title: str) -> str:
        return self.path.read_text().replace("Do one", title)

    def require(self, title: str) -> None:
        self.ralphs.take_edits()
        self.ralphs.write()
        on_disk = prd_file.read_prd(self.path)
        for prd in (self.ralphs.prd, on_disk):
            assert (prd.task("one").title, prd.task("two").status) == (title, "completed"), self.notices


def by_renaming(path: Path, text: str) -> None:
    temporary = path.with_name("tmp")
    temporary.write_text(text)
    temporary.replace(path)


@pytest.mark.parametrize("save", [by_renaming, Path.write_text])
def test_a_save_between_the_last_look_and_the_rename(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, save: Callable[[Path, str], object]
) -> None:
    file = File(tmp_path)
    link, text = os.link, file.with_title("Mine")

    def linked(*arguments: Any, **named: Any) -> None:
        monkeypatch.setattr(os, "link", link)
        save(file.path, text)
        link(*arguments, **named)

    monkeypatch.setattr(os, "link", linked)
    file.settle(1)
    file.require("Mine")


def test_a_save_through_a_file_that_was_opened_before_the_rename(tmp_path: Path) -> None:
    file = File(tmp_path)
    text = file.with_title("Mine")
    with file.path.open("r+") as editor:
        file.settle(1)
        editor.truncate()
        editor.write(text)
    file.require("Mine")


def test_a_half_written_save_at_the_rename_is_not_overwritten(tmp_path: Path) -> None:
    file = File(tmp_path)
    text = file.with_title("Mine")
    with file.path.open("r+") as editor:
        file.settle(1)
        editor.truncate()
        editor.write(text[:100])
        editor.flush()
        file.ralphs.take_edits()
        editor.write(text[100:])
    file.require("Mine")


def test_two_editors_that_had_the_same_version(tmp_path: Path) -> None:
    """The second save takes nothing of the first one back; the first editor's next save can."""
    file = File(tmp_path)
    one, two = file.with_title("Mine"), file.path.read_text().replace("Do two", "Two")
    for text in (one, two):
        by_renaming(file.path, text)
        file.settle(1 + (text == two))
    file.require("Mine")
    assert file.ralphs.prd.task("two").title == "Two"
    by_renaming(file.path, one.replace("Mine", "Mine again"))
    file.require("Mine again")
    assert file.ralphs.prd.task("two").title == "Two"
