"""A check's command in a shell: run once for the same tree, its output searched whole and kept in part."""

import os
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, replace
from pathlib import Path
from threading import Event, Lock

from rulebook_ralph import supervisor
from rulebook_ralph.core.criteria import External
from rulebook_ralph.core.streams import HeadTail

SHELL = "/bin/sh"
_HEAD = 16 * 1024
_TAIL = 48 * 1024


class Cancelled(Exception):  # noqa: N818 - an order, not an error
    """The run was told to end while a check ran: the check said nothing."""


@dataclass(frozen=True, slots=True)
class Execution:
    """What a command did, before anything is expected of it. `problem` says why it has no exit code of its own.

    `timed_out` is the limit (seconds) that ended it, None where it ended by itself. `kept` is the raw output where it
    was small enough to be kept whole, else None; `found` says for each text that was looked for whether it was there.
    `output` has no secrets, and is cut.
    """

    exit_code: int | None = None
    problem: str = ""
    timed_out: float | None = None
    kept: bytes | None = b""
    found: Mapping[str, bool] | None = None
    output: str = ""
    duration_ms: int = 0

    def answers(self, external: External) -> bool:
        """Whether running the command again for that check would tell nothing new."""
        if self.timed_out is not None:
            return external.timeout <= self.timed_out
        if self.problem or self.duration_ms > external.timeout * 1000:
            return False
        return self.kept is not None or all(text in (self.found or {}) for text in texts_of(external))

    def holds(self, text: str) -> bool:
        """Whether the whole output contains the text; only of an execution that `answers` for it."""
        if self.found is not None and text in self.found:
            return self.found[text]
        return _encoded(text) in (self.kept or b"")


class ResultCache:
    """What commands did within one iteration, by command, folder, environment and tree; for any number of threads.

    The same command asked for twice at the same time runs once, and both get what it did.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[object, Future[Execution]] = {}

    def get(
        self, key: object, answers: Callable[[Execution], bool], run: Callable[[], Execution], *, again: bool = False
    ) -> Execution:
        """What is known under the key, if it `answers`; else, or `again`, what `run` gives, which is known from then
        on. What `run` raises, all who wait get.
        """
        with self._lock:
            known = self._known.get(key)
            if known is None:
                mine = self._known[key] = Future[Execution]()
        if known is not None:
            execution = known.result()
            if answers(execution) and not again:
                return execution
            mine = Future()
        try:
            mine.set_result(run())
        except BaseException as error:
            mine.set_exception(error)
            raise
        with self._lock:
            self._known[key] = mine
        return mine.result()


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Where commands run, and with what. `tree` is the object id of what stands at `root`: what they do to the same
    tree is remembered in `cache`, where there is one. `clean` takes secrets out of a text.
    """

    root: Path
    environment: Mapping[str, str]
    clean: Callable[[str], str]
    cancelled: Event
    tree: str = ""
    cache: ResultCache | None = None

    def with_environment(self, environment: Mapping[str, str]) -> "Surroundings":
        return replace(self, environment=environment)


def execute(external: External, around: Surroundings, *, again: bool = False) -> Execution:
    """Run the command, or say what it did on this tree before, unless it is to run `again`. Raises Cancelled, and
    nothing else.
    """
    root = os.path.realpath(around.root)
    try:
        folder = os.path.realpath(os.path.join(root, external.working_dir))  # noqa: PTH118 - resolve() raises on loops
    except ValueError as error:
        return Execution(problem=f"could not start: the folder {external.working_dir!r}: {error}")
    if _is_below(os.path.normpath(os.path.join(root, external.working_dir)), root) and not _is_below(folder, root):  # noqa: PTH118
        return Execution(problem=f"not run: a link leads from the folder {external.working_dir} out of the repository")
    if around.cache is None or not around.tree:
        return _run(external, folder, around)
    key = (external.command, folder, frozenset(around.environment.items()), around.tree)
    return around.cache.get(
        key, lambda known: known.answers(external), lambda: _run(external, folder, around), again=again
    )


def texts_of(external: External) -> tuple[str, ...]:
    """The texts that its output must or must not contain."""
    return tuple(text for text in (external.output_contains, external.output_not_contains) if text)


def _run(external: External, folder: str, around: Surroundings) -> Execution:
    output = HeadTail(head=_HEAD, tail=_TAIL)
    search = Search(texts_of(external))

    def take(block: bytes) -> None:
        output.feed(block)
        search.feed(block)

    command = supervisor.Command((SHELL, "-c", external.command), Path(folder), around.environment, merge_stderr=True)
    limits = supervisor.Limits(wall_time=external.timeout)
    try:
        ended = supervisor.run(command, limits=limits, on_output=take, cancelled=around.cancelled)
    except OSError as error:
        return Execution(problem=f"could not be run: {error.strerror or error}")
    if ended.killed_by == "interrupted":
        raise Cancelled
    late = ended.killed_by is not None
    return Execution(
        exit_code=None if late else ended.exit_code,
        problem=_problem(ended, external),
        timed_out=external.timeout if late else None,
        kept=None if output.omitted else output.head() + output.tail(),
        found=search.found,
        output=_told(output, around.clean),
        duration_ms=ended.duration_ms,
    )


def _problem(ended: supervisor.Ended, external: External) -> str:
    if ended.failure is not None:
        return f"could not start: {ended.failure.message}"
    return f"did not end within {external.timeout:g} s" if ended.killed_by is not None else ""


class Search:
    """Looks for texts in a stream of bytes, also across its blocks. `found` says which have been seen."""

    def __init__(self, texts: Iterable[str]) -> None:
        self.found = dict.fromkeys(texts, False)
        self._open = {text: _encoded(text) for text in self.found}
        self._overlap = max(map(len, self._open.values()), default=1) - 1
        self._end = b""

    def feed(self, block: bytes) -> None:
        if not self._open:
            return
        data = self._end + block
        for text in [text for text, wanted in self._open.items() if wanted in data]:
            self.found[text] = True
            del self._open[text]
        self._end = data[max(0, len(data) - self._overlap) :]


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _told(output: HeadTail, clean: Callable[[str], str]) -> str:
    """The output without secrets. The words at a cut are left out: half a secret would not be recognised."""
    if not output.omitted:
        return clean(output.text())
    head = output.head().decode("utf-8", "replace")
    tail = output.tail().decode("utf-8", "replace")
    whole_words = head[: len(head) - len(head.split()[-1])] if head and not head[-1].isspace() else head
    further_words = tail[len(tail.split()[0]) :] if tail and not tail[0].isspace() else tail
    return clean(whole_words) + f"\n… {output.omitted} bytes left out …\n" + clean(further_words)


def _is_below(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(root.rstrip("/") + "/")
