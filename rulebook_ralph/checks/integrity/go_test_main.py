"""Go code that runs before any test of its package and can end the run as if all were well."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from rulebook_ralph.checks.integrity.objection import Objection
from rulebook_ralph.core.diff import FileDiff, Versions

_FUNCTION = re.compile(r"^[ \t]*func[ \t]+(TestMain|init)[ \t]*\(", re.MULTILINE)
_NEXT = re.compile(r"^func[ \t]+(?:\w|\()", re.MULTILINE)
_COMMENT = re.compile(r"//[^\n]*")
_MAIN = re.compile(r"^[ \t]*func[ \t]+TestMain[ \t]*\(")
_EXITS = re.compile(r"\bExit\(\s*0\s*\)")
_RUNS = re.compile(r"\bRun\(|\bVerifyTestMain\(")


def go_test_main(
    diff: Sequence[FileDiff], versions: Mapping[str, Versions], excused: Callable[[str], bool]
) -> Iterator[Objection]:
    """At most one objection for each *_test.go file: a `TestMain` where its package had none, or one that no longer
    runs the tests; and a `TestMain` or `init` that ends the run with success.
    """
    had_one = {_folder(file.old_path) for file in diff if file.old_path and _loses_main(file)}
    for file in diff:
        if not file.path.endswith("_test.go") or file.kind == "D" or excused(file.path):
            continue
        texts = versions.get(file.path)
        if texts is None or texts.after is None:
            continue
        before, after = _functions(texts.before), _functions(texts.after)
        known = "TestMain" in {name for name, _ in before} or _folder(file.path) in had_one
        for name, body in after:
            if (name, body) not in before and (what := _objection(name, body, is_known=known)):
                yield Objection(file.path, _line_of(texts.after, name), what)
                break


def _objection(name: str, body: str, *, is_known: bool) -> str | None:
    if _EXITS.search(body):
        return f"`{name}` can now end the run with success before the tests"
    if name == "TestMain" and not is_known:
        return "`TestMain` was added; it decides which tests count"
    if name == "TestMain" and not _RUNS.search(body):
        return "`TestMain` does not run the tests"
    return None


def _loses_main(file: FileDiff) -> bool:
    return (file.old_path or "").endswith("_test.go") and any(_MAIN.match(line.text) for line in file.removed)


def _functions(text: str | None) -> list[tuple[str, str]]:
    """Each TestMain and init with all that stands before the next function, white space and comments aside."""
    plain = _COMMENT.sub("", text or "")
    found = []
    for match in _FUNCTION.finditer(plain):
        following = _NEXT.search(plain, match.end())
        body = plain[match.end() : following.start() if following else len(plain)]
        found.append((match[1], " ".join(body.split())))
    return found


def _line_of(text: str, name: str) -> int | None:
    match = next((match for match in _FUNCTION.finditer(text) if match[1] == name), None)
    return text.count("\n", 0, match.start(1)) + 1 if match else None


def _folder(path: str) -> str:
    return path.rpartition("/")[0]
