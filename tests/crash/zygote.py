"""Starts Ralph again and again, at the price of a fork: reads orders from stdin, a line of JSON each, and answers.

An order is answered twice: with the process id when Ralph has started, with its exit status when it has ended.
"""

import importlib
import os
import sys

import msgspec

from tests.crash import points
from tests.crash.points import Order


def serve() -> None:
    points.install()
    for name in ("cli.main", "cli.run", "run.scheduler", "cli.trust", "run.start", "verify.canary"):
        importlib.import_module(f"rulebook_ralph.{name}")
    points.watch_refs()
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
    from rulebook_ralph.cli.main import main  # noqa: PLC0415 - after `install`

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
    if order.plan is not None:
        points.activate(order.plan)
    main(order.arguments)


if __name__ == "__main__":
    serve()
