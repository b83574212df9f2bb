"""Tells a person elsewhere that a run ended or a task is completed (`notify` in the configuration).

Nothing here ever fails a run: what goes wrong is one warning. A process of its own sends, and is ended at the timeout.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from importlib.util import find_spec
from pathlib import Path
from threading import Thread
from typing import Self, TypedDict

from rulebook_ralph.config.notify_urls import named, resolved, variable_of
from rulebook_ralph.config.settings import Notify
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report import events
from rulebook_ralph.report.markdown import code
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.text import some

_NO_PACKAGE = "notifications need the package apprise, which is not installed: pip install 'rulebook-ralph[notify]'"
_SENDER = Path(__file__).with_name("notify_sender.py")
_LONGEST = 20_000
"""Characters of a message; services that take fewer get its beginning."""
_LONGEST_TITLE = 250
_LOOKED_AT = 10.0
"""Seconds for a look at the addresses, which asks nobody."""


class _Message(TypedDict):
    """What the sender reads; each address with its index in the configuration."""

    addresses: list[tuple[int, str]]
    title: str
    body: str
    kind: str


class Notifier:
    """Sends for one run, as a context manager: at its end it waits until all was sent, each within its timeout.

    `warn` is told what did not arrive.
    """

    def __init__(self, folder: StateFolder, environment: Mapping[str, str], *, warn: Callable[[str], None]) -> None:
        self._folder = folder
        self._environment = environment
        self._warn = warn
        self._project = folder.root.name
        self._last: tuple[Notify, Callable[[str], str]] = (Notify(), str)
        self._at_work: list[Thread] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        notify, clean = self._last
        if isinstance(error, RalphError) and "error" in notify.on:
            self.send(notify, f"{self._project}: the run broke off", str(error), "warning", clean)
        for thread in self._at_work:
            thread.join()

    def heard(self, event: events.Event, notify: Notify, clean: Callable[[str], str]) -> None:
        """What happens in the run, with its configuration by now; `clean` takes secrets out of what is sent."""
        match event:
            case events.RunPlanned():
                self._project, self._last = event.project, (notify, clean)
            case events.IterationSettled(outcome="completed") if notify.task_completed:
                title = f"{self._project}: {event.task_id} is completed"
                how_far = f"{event.completed_tasks} of {event.total_tasks} tasks completed"
                commit = f", commit {code(event.commit[:12])}" if event.commit else ""
                self.send(notify, title, f"{how_far}{commit}", "info", clean)
            case events.RunEnded() if notify.urls and event.stop_reason in notify.on:
                title = f"{self._project}: {event.stop_reason}, {event.reason}"
                kind = {"complete": "success", "paused": "info"}.get(event.stop_reason, "warning")
                self.send(notify, title, _summary(self._folder) or event.reason, kind, clean)

    def send(self, notify: Notify, title: str, body: str, kind: str, clean: Callable[[str], str]) -> None:
        """In the background. `kind` is apprise's: info, success, warning or failure."""
        addresses = [pair for pair in enumerate(resolved(notify.urls, self._environment)) if pair[1]]
        if not addresses or not is_installed():
            return  # said at the start
        message: _Message = {
            "addresses": addresses,
            "title": clean(title)[:_LONGEST_TITLE],
            "body": clean(body),
            "kind": kind,
        }

        def work() -> None:
            failed = _asked(message, self._environment, notify.timeout)
            if failed:
                self._warn(f"a notification was not sent: {some(failed)}")

        thread = Thread(target=work, name="notification", daemon=True)
        thread.start()
        self._at_work.append(thread)


def is_installed() -> bool:
    """Whether the extra is there."""
    return find_spec("apprise") is not None


def problems(notify: Notify, environment: Mapping[str, str]) -> list[str]:
    """Why notifications would not be sent as configured, each with what to do. Asks no service."""
    if not notify.urls:
        return []
    if not is_installed():
        return [_NO_PACKAGE]
    addresses = resolved(notify.urls, environment)
    missing = [variable_of(url) for url, address in zip(notify.urls, addresses, strict=True) if not address]
    found = [f"notify.urls: {name} is not set in the environment; set it to an address" for name in missing]
    known = [pair for pair in enumerate(addresses) if pair[1]]
    message: _Message = {"addresses": known, "title": "", "body": "", "kind": "info"}
    failed = _asked(message, environment, _LOOKED_AT) if known else []
    return [*found, *(f"{problem}; see the services that it knows: apprise --details" for problem in failed)]


def _asked(message: _Message, environment: Mapping[str, str], timeout: float) -> list[str]:
    """Have the sender do it; which entries failed, and how."""
    try:
        written = subprocess.run(
            [sys.executable, "-P", str(_SENDER)],
            input=json.dumps(message).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=timeout,
            process_group=0,  # not a session of its own, in which the supervisor would take it for an agent's leftover
            check=False,
        ).stdout
        left = "the sender broke off"
    except subprocess.TimeoutExpired as late:
        written, left = late.stdout or b"", f"not sent within {timeout:g} s"
    except OSError as error:
        written, left = b"", f"the sender cannot be started: {error.strerror}"
    done = dict(line.partition(" ")[::2] for line in written.decode("utf-8", "replace").splitlines())
    results = [(named(index, address), done.get(str(index), left)) for index, address in message["addresses"]]
    return [f"{name}: {problem}" for name, problem in results if problem]


def _summary(folder: StateFolder) -> str:
    """The account of the work; empty where the state cannot be read."""
    from rulebook_ralph.report import account, summary  # noqa: PLC0415 - only where it is sent

    try:
        return summary.whole(account.read(folder), longest=_LONGEST)
    except RalphError:
        return ""
