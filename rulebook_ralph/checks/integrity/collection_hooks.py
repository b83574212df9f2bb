"""Python files that decide which tests are run, or what a failure is: conftest.py and what Python loads by itself."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.languages import language_of
from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff, Versions

_NAME = (
    r"(?P<{}>pytest_(?:collection\w*|collect_\w+|ignore_collect|itemcollected|deselected|runtest\w*|pyfunc_call|"
    r"pycollect_\w+|make_collect_report|generate_tests|sessionfinish|exception_interact|cmdline_\w+|assertrepr_compare|"
    r"report_teststatus|load_initial_conftests|fixture_setup|fixture_post_finalizer|unconfigure))\b"
)
_HOOK = re.compile(
    rf"^[ \t]*(?:async[ \t]+)?def[ \t]+{_NAME.format('defined')}"
    rf"|^[ \t]*{_NAME.format('assigned')}[ \t]*(?::[^=\n]+)?=(?!=)"
    rf"|^[ \t]*(?:from[ \t][^#\n]+)?import[ \t][^#\n]*(?<![\w.]){_NAME.format('imported')}"
    rf"|^[ \t]*(?:\w+[ \t]+as[ \t]+)?{_NAME.format('listed')}[ \t]*,?[ \t]*\)?[ \t]*(?:#.*)?$"
    rf"|[\[(,][ \t]*[\"']{_NAME.format('spelled')}[\"']"
    r"|^[ \t]*(?P<setting>collect_ignore(?:_glob)?)\b[ \t]*(?:[+=:]|\.\w+\()",
    re.MULTILINE,
)
_SKIPS = re.compile(
    r"\bpytest\.(?:skip|xfail|exit|importorskip)\b|\bmark\.(?:skip|xfail)|\bos\._exit\(|\bsys\.exit\(|"
    r"\badd_marker\(|\bexitstatus\s*=|\.outcome\s*=|\.option\.(?:keyword|markexpr|deselect|ignore(?:_glob)?|lf|maxfail|"
    r"collectonly|file_or_dir)\s*=|\.args(?:\[:\])?\s*="
)
_ENTRY_POINT = re.compile(r"\bpytest11\b")
_OF_PACKAGE = ("pyproject.toml", "setup.cfg", "setup.py", "entry_points.txt")
_BY_ITSELF = ("sitecustomize.py", "usercustomize.py")


def collection_files(diff: Sequence[FileDiff]) -> list[FileDiff]:
    """The changed files that are to be looked at: each conftest.py, and where a plugin may have been written."""
    return [file for file in diff if _is_conftest(file) or _may_be_plugin(file, diff)]


def _is_conftest(file: FileDiff) -> bool:
    return "conftest.py" in (_base(file.path), _base(file.old_path or ""))


def _may_be_plugin(file: FileDiff, diff: Sequence[FileDiff]) -> bool:
    """Whether a module got hooks of pytest; in a file of tests they count where a conftest.py speaks of it."""
    if not file.path.endswith(".py") or not any(
        "pytest_" in line.text and _HOOK.search(line.text) for line in file.added
    ):
        return False
    stem = _base(file.path).removesuffix(".py")
    return language_of(file.path) is None or any(
        stem in line.text for other in diff if _is_conftest(other) for line in other.added
    )


def collection_hooks(
    diff: Sequence[FileDiff], versions: Mapping[str, Versions], excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """Hooks in conftest.py that were added or changed, skips in it, and files that Python loads whenever it starts."""
    for file in diff:
        if excused(file.path):
            continue
        if _base(file.path) in _BY_ITSELF and file.kind != "D":
            yield Objection(file.path, None, "Python runs this file whenever it starts, so also in the gates")
        yield from _entry_points(file)
    for file in collection_files(diff):
        texts = versions.get(file.path)
        if texts is None or excused(file.path) or (file.old_path is not None and excused(file.old_path)):
            continue
        before, after = _hooks(texts.before), _hooks(texts.after)
        if not _is_conftest(file) and before:
            continue  # a plugin that was there is the program itself
        for name, text in after.items():
            if before.get(name) != text:
                done = "changed" if name in before else "added"
                yield Objection(file.path, _line_of(file, name), f"`{name}` was {done}; it decides which tests count")
        if _is_conftest(file) and (file.kind != "A" or not _is_for_new_tests(file, diff)):
            yield from _skips(file, " ".join(after.values()))


def _entry_points(file: FileDiff) -> Iterator[Objection]:
    """Plugins of pytest that a package announces: they are loaded wherever it is installed."""
    if _base(file.path) in _OF_PACKAGE:
        was_there = {line.text.strip() for line in file.removed}
        for line in file.added:
            if _ENTRY_POINT.search(line.text) and line.text.strip() not in was_there:
                yield Objection(file.path, line.number, "a plugin of pytest is announced; it decides which tests count")
                return


def _is_for_new_tests(file: FileDiff, diff: Sequence[FileDiff]) -> bool:
    """Whether a new conftest.py stands in a folder of which only new files are known, tests among them."""
    folder = file.path.rpartition("/")[0]
    below = [other for other in diff if folder and other.path.startswith(f"{folder}/") and other is not file]
    return any(language_of(other.path) for other in below) and all(other.kind == "A" for other in below)


def _skips(file: FileDiff, of_hooks: str) -> Iterator[Objection]:
    was_there = {line.text.strip() for line in file.removed}
    for line in file.added:
        text = line.text.strip()
        if _SKIPS.search(text) and not text.startswith("#") and text not in was_there and text not in of_hooks:
            yield Objection(file.path, line.number, "what every test uses now skips tests or ends the run")
            return


def _hooks(text: str | None) -> dict[str, str]:
    """Hooks and settings of a conftest.py: name -> what they say, white space and comments aside."""
    found: dict[str, str] = {}
    lines = (text or "").split("\n")
    for row, line in enumerate(lines):
        match = _HOOK.search(line) if "pytest_" in line or "collect_ignore" in line else None
        if match is None or line.lstrip().startswith("#"):
            continue
        indent = len(line) - len(line.lstrip())
        body = [line.strip()]
        for following in lines[row + 1 :]:
            stripped = following.strip()
            if stripped and len(following) - len(following.lstrip()) <= indent and stripped[0] not in ")]}":
                break
            if stripped and not stripped.startswith("#"):
                body.append(stripped)
        name = next(filter(None, match.groupdict().values()))
        found[name] = found.get(name, "") + " ".join(body)
    return found


def _line_of(file: FileDiff, name: str) -> int | None:
    lines = [*(line for line in file.added if name in line.text), *file.added, *file.removed]
    return lines[0].number if lines else None


def _base(path: str) -> str:
    return path.rpartition("/")[2]
