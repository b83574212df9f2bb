"""A check's command in a shell: its output searched whole, read for names of tests, and kept in part."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event as Flag
from threading import Lock

from rulebook_ralph.process import supervisor
from rulebook_ralph.process.streams import HeadTail, LineSplitter
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.verify.test_counts import NO_TESTS, TestRun
from rulebook_ralph.verify.test_names import TestOutput
from rulebook_ralph.verify.workspace import SHELL, Cancelled, Place

_HEAD = 16 * 1024
_TAIL = 48 * 1024
_LONGEST_LINE = 256 * 1024
_LONGEST_TEXT = 200


@dataclass(frozen=True, slots=True)
class Execution:
    """What a command did, before anything is expected of it. `problem` says why it has no exit code of its own.

    `timed_out` is the limit (seconds) that ended it. `kept` is the raw output where it was small enough to be kept
    whole, else None; `found` says for each text that was looked for whether it was there. `output` has no secrets.
    """

    exit_code: int | None = None
    problem: str = ""
    timed_out: float | None = None
    kept: bytes | None = b""
    found: Mapping[str, bool] = field(default_factory=dict)
    output: str = ""
    duration_ms: int = 0
    tests: TestRun = NO_TESTS

    def answers(self, external: External) -> bool:
        """Whether running the command again for that check would tell nothing new."""
        if self.timed_out is not None:
            return external.timeout <= self.timed_out
        if self.problem or self.duration_ms > external.timeout * 1000:
            return False
        return self.kept is not None or all(text in self.found for text in _texts_of(external))

    def differences(self, external: External) -> tuple[str, ...]:
        """What was not as expected; empty where the check passes."""
        return (self.problem,) if self.problem else tuple(self._differences(external))

    def _differences(self, external: External) -> Iterator[str]:
        expected = external.success_exit_code
        if self.exit_code != expected:
            instead = f", expected {expected}" if expected else ""
            by_signal = self.exit_code is not None and self.exit_code < 0
            yield (
                f"ended by signal {-(self.exit_code or 0)}{instead}"
                if by_signal
                else f"exit code {self.exit_code}{instead}"
            )
        if external.output_contains and not self._holds(external.output_contains):
            yield f"the output does not contain {_quoted(external.output_contains)}"
        if external.output_not_contains and self._holds(external.output_not_contains):
            yield f"the output contains {_quoted(external.output_not_contains)}"

    def _holds(self, text: str) -> bool:
        return self.found[text] if text in self.found else _encoded(text) in (self.kept or b"")


def execute(
    external: External,
    place: Place,
    environment: Mapping[str, str],
    *,
    clean: Callable[[str], str],
    cancelled: Flag,
) -> Execution:
    """Run the command in that place, to its end or its time limit. Raises Cancelled, and nothing else."""
    folder = _folder(place, external.working_dir)
    if isinstance(folder, str):
        return Execution(problem=folder)
    taken = _Taken(_texts_of(external), str(place.inside))
    command = supervisor.Command((SHELL, "-c", external.command), folder, environment, merge_stderr=True, box=place.box)
    limits = supervisor.ProcessLimits(wall_time=external.timeout)
    try:
        ended = supervisor.run(command, limits=limits, on_output=taken.feed, cancelled=cancelled)
    except OSError as error:
        return Execution(problem=f"could not be run: {error.strerror or error}")
    if ended.killed_by == "interrupted":
        raise Cancelled
    late = ended.killed_by is not None
    problem = f"did not end within {external.timeout:g} s" if late else ""
    if ended.failure is not None:
        problem = f"could not start: {ended.failure.message}"
    return Execution(
        exit_code=None if late else ended.exit_code,
        problem=problem,
        timed_out=external.timeout if late else None,
        kept=taken.whole(),
        found=taken.found,
        output=clean(taken.told()),
        duration_ms=ended.duration_ms,
        tests=taken.tests(),
    )


class Memory:
    """What commands did, by all that it depends on; for any number of threads. A question that is being answered is
    waited for.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: dict[object, Future[Execution]] = {}

    def get(self, key: object, answers: Callable[[Execution], bool], run: Callable[[], Execution]) -> Execution:
        """What is known under the key, if it `answers`; else what `run` gives, which is known from then on."""
        with self._lock:
            known = self._known.get(key)
            mine: Future[Execution] = Future()
            if known is None:
                self._known[key] = mine
        if known is not None:
            execution = known.result()
            if answers(execution):
                return execution
        try:
            mine.set_result(run())
        except BaseException as error:
            mine.set_exception(error)
            with self._lock:
                if self._known.get(key) is mine:
                    del self._known[key]
            raise
        with self._lock:
            self._known[key] = mine
        return mine.result()


class _Taken:
    """The output of a command: searched, read for tests, and its head and tail kept."""

    def __init__(self, texts: Iterable[str], root: str) -> None:
        self._raw = HeadTail(head=_HEAD, tail=_TAIL)
        self._kept = HeadTail(head=_HEAD, tail=_TAIL)
        self._search = _Search(texts)
        self._lines = LineSplitter(self._line, longest=_LONGEST_LINE)
        self._tests = TestOutput()
        self._root = root

    @property
    def found(self) -> Mapping[str, bool]:
        return self._search.found

    def feed(self, block: bytes) -> None:
        self._raw.feed(block)
        self._search.feed(block)
        self._lines.feed(block)

    def whole(self) -> bytes | None:
        return None if self._raw.omitted else self._raw.head() + self._raw.tail()

    def tests(self) -> TestRun:
        return self._tests.result()

    def told(self) -> str:
        """What a person reads: without the lines that only name tests that passed, where Ralph asked for them."""
        self._lines.close()
        output = self._kept
        if not output.omitted:
            return output.text()
        head, tail = (part.decode("utf-8", "replace") for part in (output.head(), output.tail()))
        # the words at a cut are left out: half a secret would not be recognised
        whole = head[: len(head) - len(head.split()[-1])] if head and not head[-1].isspace() else head
        rest = tail[len(tail.split()[0]) :] if tail and not tail[0].isspace() else tail
        return f"{whole}\n… {output.omitted} bytes left out …\n{rest}"

    def _line(self, line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\r")
        if not self._tests.feed(text.replace(self._root, ".")):
            self._kept.feed(line + b"\n")


class _Search:
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


def _folder(place: Place, working_dir: str) -> Path | str:
    """The folder as the process sees it, or why it is none to run in."""
    real = os.path.realpath(place.folder)
    wanted = os.path.normpath(os.path.join(real, working_dir))  # noqa: PTH118 - resolve() raises on loops
    try:
        reached = os.path.realpath(wanted)
    except ValueError as error:
        return f"could not start: the folder {working_dir!r}: {error}"
    if not _is_below(reached, real):
        return f"not run: the folder {working_dir} leads out of the repository"
    return place.inside / os.path.relpath(reached, real)


def _is_below(folder: str, root: str) -> bool:
    return folder == root or folder.startswith(root.rstrip("/") + "/")


def _texts_of(external: External) -> tuple[str, ...]:
    return tuple(text for text in (external.output_contains, external.output_not_contains) if text)


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")
