"""Tells a person elsewhere that a run ended or a task is completed (`notify` in the configuration).

Nothing here ever fails a run: what goes wrong is one warning. A process of its own sends, and is ended at the timeout.
"""

import json
import subprocess
import sys
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Self

from rulebook_ralph.config.settings import Notify
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report import account, events, summary
from rulebook_ralph.tasks.disk import StateFolder

_NO_PACKAGE = "notifications need the package apprise, which is not installed: pip install 'rulebook-ralph[notify]'"
_SENDER = Path(__file__).with_name("notify_sender.py")
_LONGEST = 20_000
"""Characters of a message; services that take fewer get its beginning."""
_LONGEST_TITLE = 250
_LOOKED_AT = 10.0
"""Seconds for a look at an address, which asks nobody."""


class Notifier:
    """Sends for one run, as a context manager: at its end it waits until all was sent, each within its timeout.

    `warn` is told what did not arrive; `clean` takes secrets out of what is sent.
    """

    def __init__(
        self,
        notify: Notify,
        folder: StateFolder,
        environment: Mapping[str, str],
        *,
        warn: Callable[[str], None],
        clean: Callable[[str], str],
    ) -> None:
        self._notify = notify
        self._folder = folder
        self._environment = environment
        self._warn = warn
        self._clean = clean
        self._project = ""
        self._sending = ThreadPoolExecutor(thread_name_prefix="notification")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: object, error: BaseException | None, __: object) -> None:
        if isinstance(error, RalphError) and self._project and "error" in self._notify.on:
            self.send(f"{self._project}: the run broke off", str(error), "warning")
        self._sending.shutdown()

    def heard(self, event: events.Event) -> None:
        """What happens in the run."""
        match event:
            case events.RunPlanned():
                self._project = event.project
            case events.IterationSettled(outcome="completed") if self._notify.task_completed:
                how_far = f"{event.completed_tasks} of {event.total_tasks} tasks completed"
                commit = f", commit {summary.code(event.commit[:12])}" if event.commit else ""
                self.send(f"{self._project}: {event.task_id} is completed", f"{how_far}{commit}", "info")
            case events.RunEnded() if self._notify.urls and event.stop_reason in self._notify.on:
                kind = {"complete": "success", "paused": "info"}.get(event.stop_reason, "warning")
                title = f"{self._project}: {event.stop_reason}, {event.reason}"
                self.send(title, _summary(self._folder) or event.reason, kind)

    def send(self, title: str, body: str, kind: str) -> None:
        """In the background. `kind` is apprise's: info, success, warning or failure."""
        title, body = self._clean(title)[:_LONGEST_TITLE], self._clean(body)

        def work(index: int, address: str) -> None:
            message = {"address": address, "title": title, "body": body, "kind": kind}
            if problem := _asked(index, message, self._environment, self._notify.timeout):
                self._warn(f"a notification was not sent: {problem}")

        for index, address in enumerate(self._notify.addresses(self._environment)):
            if address and is_installed():  # else it was said at the start
                self._sending.submit(work, index, address)


def is_installed() -> bool:
    """Whether the extra is there."""
    return find_spec("apprise") is not None


def problems(notify: Notify, environment: Mapping[str, str]) -> list[str]:
    """Why notifications would not be sent as configured, each with what to do. Asks no service."""
    if notify.urls and not is_installed():
        return [_NO_PACKAGE]

    def look(index: int, address: str) -> str:
        if not address:
            name = notify.variables[index]
            return f"notify.urls: {name} is not set in the environment; set it to an address"
        message = {"address": address, "title": "", "body": "", "kind": "info"}
        problem = _asked(index, message, environment, _LOOKED_AT)
        return f"{problem}; see the services that it knows: apprise --details" if problem else ""

    with ThreadPoolExecutor() as threads:
        return [problem for problem in threads.map(look, count(), notify.addresses(environment)) if problem]


def _asked(index: int, message: Mapping[str, str], environment: Mapping[str, str], timeout: float) -> str:
    """Have the sender do it; which entry failed, and how."""
    try:
        ended = subprocess.run(
            [sys.executable, "-P", str(_SENDER)],
            input=json.dumps(message).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
            timeout=timeout,
            process_group=0,  # not a session of its own, in which the supervisor would take it for an agent's leftover
            check=False,
        )
        problem = "the sender broke off" if ended.returncode else ended.stdout.decode("utf-8", "replace")
    except subprocess.TimeoutExpired:
        problem = f"not sent within {timeout:g} s"
    except OSError as error:
        problem = f"the sender cannot be started: {error.strerror}"
    scheme, separator, _ = message["address"].partition("://")  # the rest may be secret
    known = f" ({scheme})" if separator and scheme.isalnum() else ""
    return f"notify.urls.{index}{known}: {problem}" if problem else ""


def _summary(folder: StateFolder) -> str:
    """The account of the work; empty where the state cannot be read."""
    try:
        return summary.whole(account.read(folder), longest=_LONGEST)
    except RalphError:
        return ""
