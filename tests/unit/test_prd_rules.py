from graphlib import CycleError, TopologicalSorter
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core.model import Prd, Task
from rulebook_ralph.core.prd_rules import LONGEST_CYCLE_SHOWN, MOST_CYCLES, problems_of

IDS = "abcdef"


def _messages(edges: dict[str, list[str]]) -> list[str]:
    tasks = tuple(Task(id=name, title="t", dependencies=tuple(on)) for name, on in edges.items())
    return [fault.message for fault in problems_of(Prd(version=1, project="p", tasks=tasks))]


@given(st.permutations(IDS), st.fixed_dictionaries({name: st.lists(st.sampled_from(IDS), max_size=3) for name in IDS}))
def test_a_cycle_is_told_exactly_where_there_is_no_order_of_work(order: list[str], edges: dict[str, list[str]]) -> None:
    edges = {name: [on for on in edges[name] if on != name] for name in order}
    try:
        TopologicalSorter(edges).prepare()
        ordered = True
    except CycleError:
        ordered = False
    told = _messages(edges)
    assert ordered == (not told)
    for message in told:
        if message.startswith("dependency cycle: "):
            cycle = message.removeprefix("dependency cycle: ").split(" -> ")
            assert cycle[0] == cycle[-1]
            assert all(then in edges[now] for now, then in pairwise(cycle))


def test_a_long_chain_and_a_long_cycle_need_no_recursion() -> None:
    chain = {f"t{n}": [f"t{n + 1}"] for n in range(20_000)} | {"t20000": []}
    assert _messages(chain) == []
    (told,) = _messages(chain | {"t20000": ["t0"]})
    assert told.startswith("dependency cycle: t0 -> t1 -> ")
    assert f"… {20_001 - LONGEST_CYCLE_SHOWN} more … -> t20000 -> t0" in told


def test_many_cycles_are_told_up_to_a_number() -> None:
    pairs = {f"{side}{n}": [f"{'b' if side == 'a' else 'a'}{n}"] for n in range(500) for side in "ab"}
    told = _messages(pairs)
    assert len(told) == MOST_CYCLES + 1
    assert told[-1].startswith(f"more than {MOST_CYCLES} dependency cycles")
