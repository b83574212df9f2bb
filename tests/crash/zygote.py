"""Starts Ralph again and again, at the price of a fork: reads orders from stdin, a line of JSON each, and answers.

An order is answered twice: with the process id when Ralph has started, with its exit status when it has ended.
"""

import importlib
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import msgspec

from tests.crash import points
from tests.crash.points import Order


def serve() -> None:
    points.install()
    for name in ("cli", "commands.run", "commands.resume", "loop.manager", "core.lifecycle"):
        importlib.import_module(f"rulebook_ralph.{name}")
    for line in sys.stdin.buffer:
        order = msgspec.json.decode(line, type=Order)
        pid = os.fork()
        if pid == 0:
            _become_ralph(order)
        _answer(pid)
        _answer(os.waitpid(pid, 0)[1])


def _answer(number: int) -> None:
    sys.stdout.buffer.write(b"%d\n" % number)
    sys.stdout.buffer.flush()


def _become_ralph(order: Order) -> None:
    from rulebook_ralph.cli import main  # noqa: PLC0415 - after `install`

    os.setsid()
    os.chdir(order.folder)
    os.environ.clear()
    os.environ.update(order.environment)
    for descriptor, name in ((0, os.devnull), (1, order.output), (2, order.errors)):
        opened = os.open(name, os.O_RDWR | os.O_CREAT | (os.O_TRUNC if descriptor else 0), 0o644)
        os.dup2(opened, descriptor)
        os.close(opened)
    import tempfile  # noqa: PLC0415

    tempfile.tempdir = order.environment["TMPDIR"]
    _add_a_task(Path(order.beside))
    if order.plan is not None:
        points.activate(order.plan)
    main(order.arguments)


def _add_a_task(beside: Path) -> None:
    """While the second task's agent works, a person adds a task, once: as the inbox does it when `ralph task` asks."""
    from rulebook_ralph.core.edits import Add  # noqa: PLC0415
    from rulebook_ralph.errors import RalphError  # noqa: PLC0415
    from rulebook_ralph.loop.inbox import Inbox  # noqa: PLC0415

    enter = Inbox.__enter__
    inboxes: list[Inbox] = []

    def entered(inbox: Inbox) -> Inbox:
        inboxes.append(inbox)
        return enter(inbox)

    def add(environment: Mapping[str, str]) -> None:
        if environment["RALPH_TASK"] == "one" or (beside / "added").exists() or not inboxes:
            return
        words = {"title": "Do late", "priority": 9}
        try:
            inboxes[-1]._apply(Add(task_id="late", words=words))
        except RalphError as error:
            if "late" not in str(error):
                (beside / "refused").write_text(str(error))
                return
        (beside / "added").touch()

    Inbox.__enter__ = entered  # type: ignore[method-assign,assignment]
    points.on_agent_start.append(add)


if __name__ == "__main__":
    serve()
