"""Who can work is known before the first agent: the whole line of those that stand in for each other is looked at."""

from datetime import UTC, datetime
from typing import Literal

import pytest

from rulebook_ralph.core.settings import Config, Executor, Tools
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.able_agents import AbleAgents
from rulebook_ralph.loop.crew import Crew

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)


def executor(name: str, fallback: str = "", *, there: bool = True) -> Executor:
    return Executor(id=name, type="command", command="/bin/sh" if there else f"/nowhere/{name}", fallback=fallback)


class Case:
    def __init__(self, *executors: Executor) -> None:
        self.notices: list[str] = []
        self.config = Config(tools=Tools(executors=executors))
        self.crew = Crew(self.config, {"PATH": "/bin:/usr/bin"})
        self.able = AbleAgents(self.config, self.crew, lambda _level, text: self.notices.append(text))

    def require(self, *names: str) -> None:
        for name in names:
            self.able.require(name)


def test_one_that_is_there_works_itself() -> None:
    case = Case(executor("a", "b"), executor("b"))
    case.require("a")
    assert (case.crew.acting("a", NOON), case.notices) == ("a", [])


def test_the_second_in_the_line_may_be_missing_too() -> None:
    case = Case(executor("a", "b", there=False), executor("b", "c", there=False), executor("c"))
    case.require("a", "a", "b")
    assert case.crew.acting("a", NOON) == "c"
    assert [("/nowhere/a" in told, "/nowhere/b" in told) for told in case.notices] == [(False, True), (True, False)]
    assert case.notices[1].endswith("going on with c")


def test_a_fallback_that_is_missing_is_told_before_it_is_needed_and_stepped_over() -> None:
    case = Case(executor("a", "b"), executor("b", "c", there=False), executor("c"))
    case.require("a")
    assert (case.crew.acting("a", NOON), case.crew.fallback_of("a", NOON)) == ("a", "c")
    assert len(case.notices) == 1
    assert case.notices[0].endswith("it cannot take over")


def test_nobody_is_left() -> None:
    case = Case(executor("a", "b", there=False), executor("b", "a", there=False))
    with pytest.raises(RalphError, match=r"/nowhere/a.*nor can its fallback: b") as caught:
        case.require("a")
    assert caught.value.exit_code == ExitCode.AGENT
    with pytest.raises(RalphError, match="/nowhere/x") as caught:
        Case(executor("x", there=False)).require("x")
    assert "nor" not in str(caught.value)


def test_the_last_of_a_line_that_is_missing_is_told() -> None:
    case = Case(executor("a", "b"), executor("b", there=False))
    case.require("a")
    assert case.crew.acting("a", NOON) == "a"
    assert len(case.notices) == 1


def test_one_that_cannot_be_made_is_refused_though_it_is_only_a_fallback() -> None:
    case = Case(executor("a", "b"), Executor(id="b", type="no-such-type"))
    with pytest.raises(RalphError, match="unknown type"):
        case.require("a")


@pytest.mark.parametrize(("permissions", "warned"), [("ask", 1), ("edit", 1), ("full", 0)])
def test_a_server_that_heeds_no_permissions_is_told_once(
    permissions: Literal["full", "edit", "ask"], warned: int
) -> None:
    attached = Executor(
        id="o", type="opencode", command="/bin/true", permissions=permissions, endpoint="http://127.0.0.1:1"
    )
    case = Case(attached)
    case.require("o", "o")
    assert len([told for told in case.notices if "http://127.0.0.1:1" in told]) == warned
