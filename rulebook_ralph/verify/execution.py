"""A check's command in a shell: its output searched whole, read for names of tests, and kept in part."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event as Flag

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
    """What a command did. `problems` say what was not as expected; empty where it passed. `output` has no secrets."""

    problems: tuple[str, ...] = ()
    exit_code: int | None = None
    output: str = ""
    duration_ms: int = 0
    tests: TestRun = NO_TESTS


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
        return Execution((folder,))
    taken = _Taken((external.output_contains, external.output_not_contains), str(place.inside))
    command = supervisor.Command((SHELL, "-c", external.command), folder, environment, merge_stderr=True, box=place.box)
    limits = supervisor.ProcessLimits(wall_time=external.timeout)
    try:
        ended = supervisor.run(command, limits=limits, on_output=taken.feed, cancelled=cancelled)
    except OSError as error:
        return Execution((f"could not be run: {error.strerror or error}",))
    if ended.killed_by == "interrupted":
        raise Cancelled
    late = ended.killed_by is not None
    if ended.failure is not None:
        problems = [f"could not start: {ended.failure.message}"]
    elif late:
        problems = [f"did not end within {external.timeout:g} s"]
    else:
        problems = list(_differences(external, ended.exit_code, taken.found))
    return Execution(
        tuple(problems), None if late else ended.exit_code, clean(taken.told()), ended.duration_ms, taken.tests()
    )


def _differences(external: External, code: int | None, found: Mapping[str, bool]) -> Iterator[str]:
    expected = external.success_exit_code
    if code != expected:
        instead = f", expected {expected}" if expected else ""
        by_signal = code is not None and code < 0
        yield (f"ended by signal {-(code or 0)}" if by_signal else f"exit code {code}") + instead
    if external.output_contains and not found[external.output_contains]:
        yield f"the output does not contain {quoted(external.output_contains)}"
    if external.output_not_contains and found[external.output_not_contains]:
        yield f"the output contains {quoted(external.output_not_contains)}"


class _Taken:
    """The output of a command: searched, read for tests, and its head and tail kept."""

    def __init__(self, texts: Iterable[str], root: str) -> None:
        self._kept = HeadTail(head=_HEAD, tail=_TAIL)
        self._search = _Search(texts)
        self._lines = LineSplitter(self._line, longest=_LONGEST_LINE)
        self._tests = TestOutput()
        self._root = root

    @property
    def found(self) -> Mapping[str, bool]:
        return self._search.found

    def feed(self, block: bytes) -> None:
        self._search.feed(block)
        self._lines.feed(block)

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
        self.found = {text: False for text in texts if text}
        self._open = {text: text.encode("utf-8", "surrogatepass") for text in self.found}
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


def quoted(text: str) -> str:
    return repr(text if len(text) <= _LONGEST_TEXT else text[:_LONGEST_TEXT] + "…")
