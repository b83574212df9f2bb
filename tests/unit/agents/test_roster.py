"""Who works in whose place, and for how long."""

from datetime import UTC, datetime, timedelta

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config.settings import Config, Executor, Notify, Tools

NOON = datetime(2026, 3, 1, 12, tzinfo=UTC)
LATER = NOON + timedelta(hours=1)


def roster(**fallbacks: str) -> Roster:
    executors = tuple(Executor(id=name, type="command", fallback=other) for name, other in fallbacks.items())
    return Roster(Config(tools=Tools(executors=executors)), {})


def test_an_executor_works_itself_until_its_fallback_takes_over() -> None:
    agents = roster(a="b", b="")
    assert (agents.acting("a", NOON), agents.fallback_of("a"), agents.fallback_of("b")) == ("a", "b", "")
    assert agents.substitute("a", until=None) == "b"
    assert agents.acting("a", NOON) == agents.acting("a", LATER) == "b"
    assert agents.acting("b", NOON) == "b"


def test_without_a_fallback_nobody_takes_over() -> None:
    assert roster(a="").fallback_of("a") == ""
    assert roster().fallback_of("claude") == "", "an agent that is not configured"
    assert roster(a="a").fallback_of("a") == "", "not even it itself"


def test_a_substitution_ends_at_its_time() -> None:
    agents = roster(a="b", b="")
    agents.substitute("a", until=LATER, now=NOON)
    assert agents.acting("a", LATER - timedelta(microseconds=1)) == "b"
    assert agents.acting("a", LATER) == "a"


def test_a_chain_is_followed_to_who_can_work() -> None:
    agents = roster(a="b", b="c", c="")
    assert agents.substitute("b", until=LATER, now=NOON) == "c"
    assert agents.fallback_of("a", NOON) == "c"
    assert agents.fallback_of("a", LATER) == "b"
    assert agents.substitute("a", until=None, now=NOON) == "c"
    assert agents.acting("a", NOON) == "c"
    assert agents.acting("a", LATER) == "b", "as soon as it can"


def test_two_that_stand_in_for_each_other_never_both_do() -> None:
    agents = roster(a="b", b="a")
    agents.substitute("a", until=LATER, now=NOON)
    assert agents.fallback_of("b", NOON) == ""
    assert agents.fallback_of("b", LATER) == "a", "who can work again by then"
    assert agents.fallback_of("b") == "", "without a time, whoever is replaced stays so"


NAMES = st.sampled_from("abcd")


@given(
    st.fixed_dictionaries(dict.fromkeys("abcd", st.one_of(st.just(""), NAMES))),
    st.lists(st.tuples(NAMES, st.one_of(st.none(), st.integers(0, 9)), st.integers(0, 3)), max_size=20),
)
def test_somebody_always_acts_whatever_fails_when(
    fallbacks: dict[str, str], events: list[tuple[str, int | None, int]]
) -> None:
    agents, now = roster(**fallbacks), NOON
    for wanted, lasts, passing in events:
        now += timedelta(seconds=passing)
        failing = agents.acting(wanted, now)
        other = agents.fallback_of(failing, now)
        if other:
            until = None if lasts is None else now + timedelta(seconds=lasts)
            assert agents.substitute(failing, until=until, now=now) == other != failing
            assert agents.acting(wanted, now) == (failing if lasts == 0 else other)
        for name in "abcd":
            assert agents.acting(name, now) in "abcd"


def test_a_changed_configuration_keeps_who_works_in_whose_place() -> None:
    before = roster(a="b", b="")
    before.substitute("a", until=None)
    executors = tuple(Executor(id=name, type="command") for name in ("a", "b"))
    assert Roster(Config(tools=Tools(executors=executors)), {}, before=before).acting("a", NOON) == "b"
    assert Roster(Config(), {}, before=before).acting("a", NOON) == "a", "b is gone"


def test_agents_are_not_told_where_notifications_go() -> None:
    config = Config(notify=Notify(urls=("${CHAT}", "json://host")))
    given = {"CHAT": "slack://secret", "RALPH_NOTIFY__URLS": "x", "PATH": "/bin"}
    assert Roster(config, given).given == {"PATH": "/bin"}
    assert Roster(config, given).secrets()["CHAT"] == "slack://secret"
