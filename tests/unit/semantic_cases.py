"""Work to be judged, for the tests of the semantic verification."""

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from threading import Event

from rulebook_ralph.checks.subject import Ask, Subject
from rulebook_ralph.core.diff import FileDiff, Line
from rulebook_ralph.core.redaction import Redactor


def numbered(*texts: str, start: int = 1) -> tuple[Line, ...]:
    return tuple(Line(number, text) for number, text in enumerate(texts, start=start))


def added(path: str, *texts: str) -> FileDiff:
    return FileDiff(kind="A", path=path, old_path=None, added=numbered(*texts))


def work(
    *files: FileDiff,
    ask: Ask | None = None,
    relevant: Mapping[str, str] | None = None,
    final_message: str = "Done.",
    commit_messages: Sequence[str] = (),
    acceptance_criteria: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
    no_model: str = "",
) -> Subject:
    return Subject(
        root=Path("/nowhere"),
        stage="coder",
        promise="IMPLEMENTATION_COMPLETE",
        promises=(),
        final_message=final_message,
        commit_messages=tuple(commit_messages),
        title="Greet people",
        description="Say hello to whoever comes.",
        acceptance_criteria=tuple(acceptance_criteria),
        diff=lambda: files,
        relevant_files=lambda: relevant or {},
        tree=lambda: "tree",
        put_back=lambda: None,
        environment=environment or {},
        clean=Redactor(environment or {}).clean,
        cancelled=Event(),
        ask=ask,
        no_model=no_model,
    )


def counting_token() -> Callable[[int], str]:
    """Words that differ, and are the same in every run: a counter's digits, spread so that their order looks random."""
    numbers = count(1)

    def token(size: int) -> str:
        spread = next(numbers) * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << (8 * size))
        return f"{spread:0{2 * size}x}"

    return token
