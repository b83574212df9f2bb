"""The tests of one changed file, before and after, and which of them is which over the whole diff."""

from collections import defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from rulebook_ralph.checks.integrity.extraction import Case, cases, gained_tokens, is_comment
from rulebook_ralph.checks.integrity.languages import is_other_test, language_of
from rulebook_ralph.core.diff import FileDiff, Versions

_ALIKE = 0.5
_ABSORBED = 0.8
_MOST_COMPARED = 40_000
"""Pairs of tests whose bodies are compared."""


@dataclass(frozen=True, slots=True)
class Suite:
    """The tests of a file that changed, and its text; None where it is not there, or no text."""

    file: FileDiff
    before: str | None
    after: str | None
    old_cases: tuple[Case, ...]
    new_cases: tuple[Case, ...]

    @property
    def is_unreadable(self) -> bool:
        """A text before, and now something else than text."""
        return self.file.kind != "D" and self.before is not None and self.after is None


@dataclass(frozen=True, slots=True)
class Pairing:
    """`pairs` are tests that are still there (old, new), `lost` those that are not. `merged` were taken into others."""

    pairs: tuple[tuple[Case, Case], ...]
    lost: tuple[Case, ...]
    merged: int = 0


def is_test_file(path: str | None) -> bool:
    """Whether tests of a file are run, by its name."""
    return language_of(path) is not None or is_other_test(path)


def read_suites(
    diff: Iterable[FileDiff], versions: Callable[[Sequence[FileDiff]], Mapping[str, Versions]]
) -> tuple[Suite, ...]:
    """The changed test files. Only files of which something was changed are read."""
    files = [file for file in diff if language_of(file.path) is not None or language_of(file.old_path) is not None]
    wanted = [file for file in files if file.kind != "A" or file.binary]
    texts = versions(wanted) if wanted else {}
    return tuple(_suite(file, texts.get(file.path) or _whole(file)) for file in files)


def _whole(file: FileDiff) -> Versions:
    """The text of a file that was added or deleted: it is the diff."""
    return Versions(
        before="\n".join(line.text for line in file.removed) if file.kind == "D" else None,
        after="\n".join(line.text for line in file.added) if file.kind == "A" else None,
    )


def _suite(file: FileDiff, texts: Versions) -> Suite:
    old_path = file.old_path or file.path
    old_language, new_language = language_of(old_path), language_of(file.path)
    old = cases(texts.before, old_path, old_language) if texts.before and old_language else []
    new = cases(texts.after, file.path, new_language) if texts.after and new_language and file.kind != "D" else []
    return Suite(file, texts.before, texts.after, tuple(old), tuple(new))


def pair(suites: Sequence[Suite]) -> Pairing:
    """Which test became which: by name in the same file, by name anywhere, by what it says."""
    state = _Pairing()
    for suite in suites:
        _by_name(suite.old_cases, suite.new_cases, state)
    old, new = tuple(state.old), tuple(state.new)
    state.old, state.new = [], []
    _by_name(old, new, state)
    _by_content(state)
    lost, merged = _absorbed(state, suites)
    return Pairing(tuple(state.pairs), tuple(lost), merged)


@dataclass(slots=True)
class _Pairing:
    pairs: list[tuple[Case, Case]] = field(default_factory=list)
    old: list[Case] = field(default_factory=list)
    new: list[Case] = field(default_factory=list)


def _by_name(old: Sequence[Case], new: Sequence[Case], state: _Pairing) -> None:
    """Pair tests of one name: those of one class first, then equal ones, then by their order."""
    left, free = list(old), list(new)
    for key in (_class_and_name, _name_and_text, _name):
        waiting: dict[object, deque[Case]] = defaultdict(deque)
        for case in free:
            waiting[key(case)].append(case)
        remaining = []
        for case in left:
            candidates = waiting.get(key(case))
            if candidates:
                state.pairs.append((case, candidates.popleft()))
            else:
                remaining.append(case)
        left, free = remaining, [case for rest in waiting.values() for case in rest]
    state.old += left
    state.new += free


def _class_and_name(case: Case) -> object:
    return (case.name, case.scope) if case.scope else (case.name, "", case.text)


def _name_and_text(case: Case) -> object:
    return (case.name, case.text)


def _name(case: Case) -> object:
    return case.name


def _by_content(state: _Pairing) -> None:
    """Pair what is left by the names and literals that the tests hold, the most alike first."""
    if len(state.old) * len(state.new) > _MOST_COMPARED:
        return
    scores = [
        (score, at, to)
        for at, case in enumerate(state.old)
        for to, other in enumerate(state.new)
        if (score := _alike(case, other)) >= _ALIKE
    ]
    taken_old: set[int] = set()
    taken_new: set[int] = set()
    for _, at, to in sorted(scores, key=lambda score: -score[0]):
        if at not in taken_old and to not in taken_new:
            taken_old.add(at)
            taken_new.add(to)
            state.pairs.append((state.old[at], state.new[to]))
    state.old = [case for at, case in enumerate(state.old) if at not in taken_old]


def _alike(case: Case, other: Case) -> float:
    """How much of what a test says another one says too."""
    if not case.tokens or (case.assertions and not other.assertions):
        return 0.0
    return len(case.tokens & other.tokens) / len(case.tokens)


def _gained_lines(pairs: Iterable[tuple[Case, Case]]) -> Iterator[str]:
    """The lines that tests have and had not: a diff may show them as unchanged lines of another test."""
    for old, new in pairs:
        if old.text != new.text:
            had = set(old.text.split("\n"))
            yield from (line for line in new.text.split("\n") if line not in had)


def _added_code(suites: Iterable[Suite]) -> Iterator[str]:
    """The lines that were added, comments aside."""
    for suite in suites:
        language = language_of(suite.file.path)
        yield from (line.text for line in suite.file.added if language is None or not is_comment(line.text, language))


def _absorbed(state: _Pairing, suites: Sequence[Suite]) -> tuple[list[Case], int]:
    """What is still missing, without tests that said nothing and those that became part of others."""
    missing = [case for case in state.old if case.tokens]
    if not missing:
        return [], 0
    names = {case.name for case in missing}
    hosts = [case for suite in suites for case in suite.new_cases if case.is_many and case.assertions]
    gained = gained_tokens([*_added_code(suites), *_gained_lines(state.pairs)])
    lost = []
    for case in missing[:_MOST_COMPARED]:
        if any(_alike(case, host) >= _ALIKE for host in hosts[:200]):
            continue
        checked = case.assertion_tokens - names
        if case.assertions and checked and len(checked & gained) / len(checked) >= _ABSORBED:
            continue
        lost.append(case)
    return lost, len(missing) - len(lost)
