"""What a completed task brought about, for the tasks that build on it: facts from git and syntax, words of the agent.

What the agent says of files is held against git: a sentence that claims work on a file that was not changed, or names
one that is not there, is left out. Pure, but for the functions that are handed in.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from msgspec.structs import replace

from rulebook_ralph.checks.integrity.extraction import cases
from rulebook_ralph.checks.integrity.languages import language_of
from rulebook_ralph.checks.integrity.suites import is_test_file
from rulebook_ralph.core.diff import FileDiff, Versions
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import CheckResult, ParsedIteration
from rulebook_ralph.core.model import CompletionSummary, Task
from rulebook_ralph.core.token_estimate import tokens
from rulebook_ralph.loop.exported_names import exported_names, is_read
from rulebook_ralph.loop.token_budget import cut

MOST = 200
"""Entries of each list."""
_LONGEST = 300
"""Characters of an entry."""
_MOST_READ = 200
"""Files whose text is looked into."""

_FILE = re.compile(r"`([\w@.+-]+\.\w{1,8})`|((?<![\w/:.@+-])\.{0,2}/?[\w@.+-]+(?:/[\w@.+-]+)+\.\w{1,8})(?![\w/-])")
_SENTENCE = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\"'(])|\n+")
_CLAIM = re.compile(
    r"\b(?:add|creat|writ|wrote|modif|updat|chang|edit|fix|extend|implement|introduc|refactor|delet|remov|renam|mov)\w*",
    re.IGNORECASE,
)

Read = Callable[[Sequence[FileDiff]], Mapping[str, Versions]]


def summarise(
    parsed: ParsedIteration, diff: Sequence[FileDiff], checks: Iterable[CheckResult], read: Read
) -> CompletionSummary:
    """The summary of a task whose work, `diff`, was judged as complete. `read` gives the versions of files."""
    looked_into = [file for file in diff if _is_looked_into(file)][:_MOST_READ]
    changed = frozenset(path for file in diff for path in (file.path, file.old_path) if path)
    claims = (parsed.summary, *parsed.verification_steps)
    doubtful = sorted({name for text in claims for name in _named_files(text)} - changed)[:_MOST_READ]
    versions = read([*looked_into, *(FileDiff(kind="M", path=name, old_path=name) for name in doubtful)])
    there = frozenset(name for name in doubtful if name in versions and versions[name].after is not None)
    told = [step for step in map(_one_line, parsed.verification_steps) if not _names_missing(step, changed, there)]
    facts = CompletionSummary(
        summary=_believed(parsed.summary, changed, there),
        files_created=_first(file.path for file in diff if file.kind in ("A", "R")),
        files_modified=_first(file.path for file in diff if file.kind == "M"),
        exports_added=_first(_added_exports(looked_into, versions)),
        tests_added=_first(_added_tests(looked_into, versions)),
        verification_steps=_first(told),
    )
    return proven(facts, checks)


def proven(summary: CompletionSummary, checks: Iterable[CheckResult]) -> CompletionSummary:
    """The summary with the commands that passed before its other steps of verification."""
    passed = [f"{check.step}: {check.command}" for check in checks if check.passed and check.command]
    return replace(summary, verification_steps=_first([*passed, *summary.verification_steps]))


def told(task: Task, limit: int) -> str:
    """A completed task for those that build on it, in `limit` tokens: the words, then as many facts as fit."""
    whole = cut(_one_line(f"{task.id}: {task.title}{'. ' + task.summary if task.summary else ''}"), limit)
    facts = task.completion_summary
    if facts is None:
        return whole
    lists = (
        ("exports", facts.exports_added),
        ("files created", facts.files_created),
        ("files modified", facts.files_modified),
        ("tests", facts.tests_added),
    )
    for name, items in lists:
        for most in (20, 5):
            longer = f"{whole}\n  {name}: {some(items, most)}"
            if items and tokens(longer) <= limit:
                whole = longer
                break
    return whole


def _is_looked_into(file: FileDiff) -> bool:
    return not file.binary and (is_read(file.path) or language_of(file.path) is not None)


def _added_exports(files: Iterable[FileDiff], versions: Mapping[str, Versions]) -> Iterator[str]:
    """Names that no changed file offered before."""
    before: set[str] = set()
    after: dict[str, None] = {}
    for file in files:
        texts = versions.get(file.path)
        if texts is None or is_test_file(file.path):
            continue
        before |= exported_names(file.old_path or file.path, texts.before or "")
        after.update(dict.fromkeys(sorted(exported_names(file.path, texts.after or ""))))
    yield from (name for name in after if name not in before)


def _added_tests(files: Iterable[FileDiff], versions: Mapping[str, Versions]) -> Iterator[str]:
    before: set[str] = set()
    after: dict[tuple[str, str], None] = {}
    for file in files:
        texts = versions.get(file.path)
        if texts is not None:
            before |= set(_tests(texts.before, file.old_path or file.path))
            after |= {(file.path, name): None for name in _tests(texts.after, file.path)}
    yield from (f"{path}::{name}" for path, name in after if name not in before)


def _tests(text: str | None, path: str) -> list[str]:
    language = language_of(path)
    if language is None or text is None:
        return []
    return [f"{case.scope}::{case.name}" if case.scope else case.name for case in cases(text, path, language)]


def _believed(text: str, changed: frozenset[str], there: frozenset[str]) -> str:
    """The sentences that git does not deny."""
    sentences = [sentence for sentence in _SENTENCE.split(text.strip()) if sentence.strip()]
    return " ".join(sentence.strip() for sentence in sentences if not _is_denied(sentence, changed, there))


def _is_denied(sentence: str, changed: frozenset[str], there: frozenset[str]) -> bool:
    if _names_missing(sentence, changed, there):
        return True
    claims = _CLAIM.search(sentence) is not None
    return claims and any(not _is_among(name, changed) for name in _named_files(sentence))


def _names_missing(text: str, changed: frozenset[str], there: frozenset[str]) -> bool:
    """Whether it names a file, with its folder, that is neither there nor changed."""
    return any("/" in name and name not in there and not _is_among(name, changed) for name in _named_files(text))


def _named_files(text: str) -> list[str]:
    """Files as the repository has them; what is named outside of it is not git's to deny."""
    names = ((found[1] or found[2]).removeprefix("./") for found in _FILE.finditer(text))
    return [name for name in names if not name.startswith("/") and ".." not in name.split("/")]


def _is_among(name: str, changed: frozenset[str]) -> bool:
    return name in changed or any(path.endswith(f"/{name}") for path in changed)


def _first(texts: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_one_line(text)[:_LONGEST] for text in texts))[:MOST]


def _one_line(text: str) -> str:
    return " ".join(text.split())
