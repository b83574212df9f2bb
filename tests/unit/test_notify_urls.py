"""Where notifications go: which address an entry means, what of it is secret, and when one is sent."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from rulebook_ralph.core import events
from rulebook_ralph.core.evidence import StopReason
from rulebook_ralph.core.notify_urls import named, resolved, secrets, variable_of, without_addresses
from rulebook_ralph.core.redaction import MARK
from rulebook_ralph.core.settings import Config, Notify
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import notification
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.notification import Notifier
from rulebook_ralph.state.store import StateFolder

SLACK = "slack://T1JJ3T3L2/A1BRTD4JD/TIiajkdnlazkcOXrIdevi7FQ/?overflow=split"


NOTIFY = Notify(urls=("json://localhost",), on=("stuck", "interrupted", "error"))
PLANNED = events.RunPlanned(
    project="toy",
    branch="b",
    agent="a",
    open_tasks=1,
    total_tasks=1,
    completed_tasks=0,
    max_iterations=1,
    max_wall_time=None,
    max_cost_usd=None,
)


def sending(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The titles of what would be sent."""
    sent: list[str] = []

    def asked(message: Mapping[str, str], *_: object) -> list[str]:
        sent.append(message["title"])
        return []

    monkeypatch.setattr(notification, "_asked", asked)
    return sent


def test_an_entry_is_an_address_or_the_name_of_a_variable() -> None:
    urls = ("json://localhost", "${CHAT}", "${NOT_SET}", "x${CHAT}")
    assert resolved(urls, {"CHAT": f" {SLACK}\n"}) == ("json://localhost", SLACK, "", "x${CHAT}")
    assert [variable_of(url) for url in urls] == ["", "CHAT", "NOT_SET", ""]


def test_who_is_to_know_no_address_gets_no_variable_that_holds_one() -> None:
    environment = {"CHAT": "slack://token", "RALPH_NOTIFY__URLS": '["slack://token"]', "HOME": "/home/me"}
    assert without_addresses(environment, ("${CHAT}", "${NOBODY}", "json://host")) == {"HOME": "/home/me"}
    assert without_addresses({"HOME": "/"}, ()) == {"HOME": "/"}


def test_addresses_and_their_tokens_are_secret_and_their_hosts_are_not() -> None:
    config = Config(notify=Notify(urls=("${CHAT}", "mailto://me:pass-word-of-mine@mail.example.company.org")))
    clean = Crew(config, {"CHAT": SLACK}).redactor().clean
    assert clean(f"to {SLACK}!") == f"to {MARK}!"
    assert clean("posted TIiajkdnlazkcOXrIdevi7FQ") == f"posted {MARK}"
    assert clean("login pass-word-of-mine") == f"login {MARK}"
    assert clean("mail.example.company.org at localhost") == "mail.example.company.org at localhost"
    assert list(secrets(["", "json://localhost:8080/hook"])) == ["json://localhost:8080/hook"]


def test_messages_name_an_entry_and_its_kind_alone() -> None:
    assert named(2, SLACK) == "notify.urls.2 (slack)"
    assert named(0, "no address at all") == "notify.urls.0"
    assert named(0, f"{'x' * 40}://a") == "notify.urls.0"


def test_what_keeps_notifications_from_being_sent_is_told_with_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    assert notification.problems(Notify(), {}) == []
    [told] = notification.problems(Notify(urls=("${CHAT}",)), {})
    assert str(told) == "notify.urls: CHAT is not set in the environment; set it to an address"
    monkeypatch.setattr(notification, "is_installed", lambda: False)
    [told] = notification.problems(Notify(urls=("${CHAT}",)), {"CHAT": SLACK})
    assert told.text.endswith("pip install 'rulebook-ralph[notify]'")


def test_only_the_chosen_stop_reasons_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sending(monkeypatch)
    reasons: tuple[StopReason, ...] = ("complete", "interrupted", "stuck")
    for reason in reasons:
        ended = events.RunEnded(
            stop_reason=reason,
            reason="so it is",
            tasks=(),
            iterations=1,
            completed_count=0,
            failed_count=0,
            cost_usd=0,
            tokens=0,
            duration_ms=0,
            next_steps=(),
        )
        with Notifier(StateFolder(tmp_path), {}, warn=sent.append) as notifier:
            notifier.heard(PLANNED, NOTIFY, str)
            notifier.heard(ended, NOTIFY, str)
    assert sent == ["toy: interrupted, so it is", "toy: stuck, so it is"]


def test_a_run_that_breaks_off_is_told_of_once_it_had_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent = sending(monkeypatch)
    for begun in (True, False):
        with pytest.raises(RalphError), Notifier(StateFolder(tmp_path), {}, warn=sent.append) as notifier:  # noqa: PT012
            if begun:
                notifier.heard(PLANNED, NOTIFY, str)
            raise RalphError("the disk is full")
    assert sent == ["toy: the run broke off"]
