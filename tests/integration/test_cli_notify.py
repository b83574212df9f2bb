"""Notifications through apprise to a receiver on loopback: what arrives, what it costs, and that none fails a run."""

import json
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Event, Thread
from typing import Any

import pytest

from rulebook_ralph.config.settings import Notify
from rulebook_ralph.report.notify import Notifier
from rulebook_ralph.tasks.disk import StateFolder
from tests.harness import HONEST, make_project, task

TOKEN = "aVerySecretTokenOfTheHook"


@dataclass
class Receiver:
    """What it got; it answers with `status`, and only when `answers` is set."""

    port: int = 0
    got: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200
    answers: Event = field(default_factory=Event)

    @property
    def url(self) -> str:
        return f"json://127.0.0.1:{self.port}/{TOKEN}"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    made.answers.set()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            made.got.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))) | {"path": self.path})
            made.answers.wait(20)
            self.send_response(made.status)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made.port = server.server_address[1]
    Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.answers.set()
    server.shutdown()
    server.server_close()


def test_a_run_tells_of_its_tasks_and_its_end(tmp_path: Path, receiver: Receiver) -> None:
    project = make_project(tmp_path, tasks=[task("one", title="Tell @team"), task("two")])
    project.environment["CHAT"] = receiver.url
    project.environment["RALPH_NOTIFY__URLS"] = '["${CHAT}", "${NOBODY}", "bogus://x"]'
    project.environment["RALPH_NOTIFY__TASK_COMPLETED"] = "true"
    project.environment["RALPH_NOTIFY__TIMEOUT"] = "20"
    project.agent(
        f'mkdir -p work && echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"; echo "see {receiver.url}"\n'
        'echo "<promise>$RALPH_PROMISE</promise>"\n'
    )
    ran = project.ralph("run")
    assert ran.code == 0, ran.out
    got = {each["title"]: each for each in receiver.got}
    assert len(receiver.got) == 3, ran.out
    assert got.keys() >= {"toy: one is completed", "toy: two is completed"}
    end = got["toy: complete, all 2 tasks are completed"]
    assert end["type"] == "success"
    assert end["path"] == f"/{TOKEN}"
    assert "toy: 2 of 2 tasks completed" in end["message"]
    assert "@team" not in end["message"]
    said = ran.out + ran.err
    assert "NOBODY is not set in the environment" in said
    assert said.count("notify.urls.2 (bogus): apprise knows no such address; see") == 1, "at the start"
    kept = [path.read_text("utf-8") for path in project.folder.path.rglob("*") if path.is_file()]
    assert TOKEN not in "".join([*kept, said])
    told = project.ralph("config", "show", "notify")
    assert TOKEN not in told.out


def test_no_agent_gate_or_hook_is_given_an_address(tmp_path: Path) -> None:
    told = 'env | grep -a -e CHAT -e slack:// >> "{beside}/told" || true; echo {who} >> "{beside}/ran"'

    def told_by(who: str) -> str:
        return told.format(beside=tmp_path / "beside", who=who)

    project = make_project(
        tmp_path,
        agent=f"{told_by('agent')}\n{HONEST}",
        hooks=[{"name": "tells", "command": told_by("hook")}],
        notify={"urls": ["${CHAT}"], "on": []},
        verification={"steps": [{"name": "tells", "kind": "test", "command": told_by("gate")}]},
        workspace={"setup": told_by("setup")},
    )
    hook = project.root / ".git/hooks/pre-commit"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\n{told_by('commit hook')}\n")
    hook.chmod(0o755)
    project.environment["CHAT"] = "slack://secret"
    assert project.ralph("run").code == 0
    assert project.ralph("verify").code == 0
    assert project.ralph("doctor").code in (0, 5)
    ran = (project.beside / "ran").read_text().splitlines()
    assert {"agent", "gate", "hook", "setup", "commit hook"} == set(ran)
    assert (project.beside / "told").read_text() == ""


def test_a_service_that_does_not_answer_costs_the_timeout_and_a_warning(tmp_path: Path, receiver: Receiver) -> None:
    receiver.answers.clear()
    warned: list[str] = []
    begun = time.monotonic()
    notify = Notify(urls=(receiver.url,), timeout=1)
    with Notifier(notify, StateFolder(tmp_path), {}, warn=warned.append, clean=str) as notifier:
        notifier.send("title", "body", "info")
        assert time.monotonic() - begun < 0.8, "it is sent in the background"
    assert time.monotonic() - begun < 5
    assert warned == ["a notification was not sent: notify.urls.0 (json): not sent within 1 s"]


def test_a_service_that_refuses_is_a_warning(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 500
    warned: list[str] = []
    notify = Notify(urls=(receiver.url,), timeout=20)
    with Notifier(notify, StateFolder(tmp_path), {}, warn=warned.append, clean=str) as notifier:
        notifier.send("title", "body", "info")
    assert warned == ["a notification was not sent: notify.urls.0 (json): the service did not take it"]


def test_an_address_in_the_projects_own_file_is_refused(tmp_path: Path, receiver: Receiver) -> None:
    project = make_project(tmp_path, notify={"urls": [receiver.url]})
    ran = project.ralph("run")
    assert ran.code == 2
    assert "holds a secret" in ran.err
    assert receiver.got == []
