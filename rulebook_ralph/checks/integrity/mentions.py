"""What a task names: files that may then be changed, and what it says is to be removed."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator

from rulebook_ralph.checks.integrity.globs import Globs
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.model import Task

_REMOVES = re.compile(
    r"\b(?:remov|delet|drop|retir|prun|discontinu|eliminat)\w*|\bget(?:ting)? rid\b|\b(?:rip|strip|throw)\w* out\b|"
    r"\bclean\w* up\b|\bno longer (?:need|use|support)",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|\n+")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_CAMEL = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")
_TESTS = {"test", "spec", "case", "should", "suite"}
_SPOKEN = frozenset(("Makefile", "makefile", "GNUmakefile", "justfile", "Justfile", "Rakefile", "Jenkinsfile"))
"""File names without a dot that are no words of prose."""
_SHORTEST_NAME = 3


class Mentions:
    """What one task says of the files that were changed."""

    def __init__(self, task: Task, diff: Iterable[FileDiff]) -> None:
        texts = (task.title, task.description, task.outcome, task.notes, *task.acceptance_criteria)
        self._text = "\n".join(texts)
        patterns = [entry for entry in task.relevant_files if _is_pattern(entry)]
        self._globs = Globs(entry if "/" in entry.rstrip("/") else f"/{entry}" for entry in patterns)
        self._listed = {entry.removeprefix("./") for entry in task.relevant_files if not _is_pattern(entry)}
        names = ({path.rpartition("/")[2] for path in (file.path, file.old_path) if path} for file in diff)
        self._basenames = Counter(name for both in names for name in both)
        self.removals = tuple(Removal(part) for part in _SENTENCE_END.split(self._text) if _REMOVES.search(part))

    def name(self, path: str) -> bool:
        """Whether the task names that file: by its path or, where only one changed file has it, its base name."""
        if path in self._listed or self._globs.match(path) or self._says(path):
            return True
        base = path.rpartition("/")[2]
        alone = self._basenames[base] <= 1 and ("." in base.lstrip(".") or base.startswith(".") or base in _SPOKEN)
        return alone and (base in self._listed or self._says(base))

    def _says(self, words: str) -> bool:
        if words not in self._text:
            return False
        return re.search(rf"(?<![\w/-])(?<!\w\.)(?:\./)?{re.escape(words)}(?![\w/-]|\.\w)", self._text) is not None


class Removal:
    """A sentence that says that something is to be removed."""

    def __init__(self, sentence: str) -> None:
        self.names = frozenset(name for name in _NAME.findall(sentence) if len(name) >= _SHORTEST_NAME)
        self.words = frozenset(words_of(sentence))
        self.speaks_of_tests = bool(self.words & {"test", "spec"})

    def means(self, name: str) -> bool:
        """Whether all words of a name (of a file or a test), besides those that say that it is a test, are in it."""
        words = set(words_of(name)) - _TESTS
        return bool(words) and words <= self.words


def words_of(text: str) -> Iterator[str]:
    """The words in names and prose, in lower case and without a plural's ending."""
    for name in re.findall(r"[A-Za-z\d]+", text):
        for word in _CAMEL.findall(name):
            lower = word.lower()
            yield lower[:-1] if lower.endswith("s") and not lower.endswith("ss") else lower


def _is_pattern(entry: str) -> bool:
    return (any(char in entry for char in "*?[") or entry.endswith("/")) and any(map(str.isalnum, entry))
