"""What a planner is shown of a project, within a budget: gates, tasks, file names, the files that matter most.

A planner works nowhere near the tree: it is given texts, an agent a clone to read in too. Only files that git tracks
are shown, none that should hold keys, and everything goes through the redactor.
"""

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from threading import Event
from typing import Any

from rulebook_ralph.agents.models import ReadingPlace
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config.settings import Config
from rulebook_ralph.git.repository import GitError, Repository, within_state
from rulebook_ralph.run import expectations
from rulebook_ralph.run.project import Project
from rulebook_ralph.run.token_budget import few
from rulebook_ralph.run.verifying import OwnClones, workspace_of
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.text import estimated_tokens as tokens

WANTED_SHARE = 0.4
"""Of `limits.promptTokens`, for what is wanted."""

_TASKS_SHARE = 0.1
_LISTING_SHARE = 0.1
_RULES_SHARE = 0.05
_FILES_SHARE = 0.25
_MOST_FILES = 30
_LARGEST_FILE = 24_000
_OF_ROOT = ("readme.md", "agents.md", "claude.md", "contributing.md")
_OF_ROOT_SCORE = 0.2
_MENTIONED_SCORE = 10.0

_WORD = re.compile(r"[^\W_]{3,}")
_INNER_CAPITAL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_KEYS = re.compile(r"(^|/)(\.env[^/]*|id_(rsa|dsa|ecdsa|ed25519))$|\.(pem|key|p12|pfx|keystore)$", re.IGNORECASE)


@contextmanager
def reading_place(project: Project, roster: Roster, *, cancelled: Event) -> Iterator[Callable[[], ReadingPlace]]:
    """Gives a clone of HEAD in which an agent reads the code, made when it is asked for."""
    with closing(OwnClones(project.repository, project.cache)) as clones:

        def place() -> ReadingPlace:
            workspace = workspace_of(project, roster, cancelled=cancelled, report=lambda _: None)
            clone = clones.open("plan")
            clone.hold(project.repository.head())
            within = workspace.place(clone)
            return ReadingPlace(within.inside, within.environment(roster.given), within.box)

        yield functools.cache(place)


def gather(
    repository: Repository,
    config: Config,
    prd: Prd,
    wanted: str,
    clean: Callable[[str], str],
) -> Mapping[str, Any]:
    """What bears on `wanted`, for the envelope: the files as they stand in HEAD. Raises GitError."""
    budget = config.limits.prompt_tokens
    listed = os.fsdecode(repository.run("ls-files", "-z")).split("\0")
    paths = [path for path in listed if path and path.isprintable() and not within_state(path)]

    def shown(texts: Sequence[str], share: float) -> list[str]:
        return few([clean(" ".join(text.split())) for text in texts], int(budget * share))

    return {
        "rules": shown(config.rules, _RULES_SHARE),
        "gates": shown([expectations.gate(step) for step in config.verification.gates], _RULES_SHARE),
        "tasks": shown([f"{task.id} ({task.status}): {task.title}" for task in prd.tasks], _TASKS_SHARE),
        "fileNames": shown(folded(paths, int(budget * _LISTING_SHARE)), _LISTING_SHARE),
        "files": dict(_read(repository, by_relevance(paths, wanted), clean, int(budget * _FILES_SHARE))),
    }


def folded(paths: Sequence[str], limit: int) -> list[str]:
    """The paths in at most `limit` tokens: those that lie too deep as their folder and how many there are."""
    for depth in range(max((path.count("/") for path in paths), default=0), -1, -1):
        lines = _down_to(paths, depth)
        if sum(tokens(line) + 2 for line in lines) <= limit:
            return lines
    return few(_down_to(paths, 0), limit)


def _down_to(paths: Sequence[str], depth: int) -> list[str]:
    counts = Counter("/".join(path.split("/")[: depth + 1]) + "/" * (path.count("/") > depth) for path in paths)
    return [f"{name} ({count} files)" if name.endswith("/") else name for name, count in counts.items()]


def by_relevance(paths: Sequence[str], wanted: str) -> list[str]:
    """The paths that share words with what is wanted, rare words counting more; those that it names come first. Of a
    small project all others follow.
    """
    sought = set(_words(wanted))
    of_path = {path: set(_words(path)) & sought for path in paths if not _KEYS.search(path)}
    frequency = Counter(word for words in of_path.values() for word in words)
    scores = {}
    for path, words in of_path.items():
        score = sum(1 / frequency[word] for word in words)
        score += _OF_ROOT_SCORE * (path.lower() in _OF_ROOT) + _MENTIONED_SCORE * (path in wanted)
        if score or len(paths) <= _MOST_FILES:
            scores[path] = score
    return sorted(scores, key=lambda path: (-scores[path], path.count("/"), path))[:_MOST_FILES]


def _words(text: str) -> Iterator[str]:
    return (found.casefold() for found in _WORD.findall(_INNER_CAPITAL.sub(" ", text)))


def _read(
    repository: Repository, paths: Sequence[str], clean: Callable[[str], str], room: int
) -> Iterator[tuple[str, str]]:
    """The files that fit, whole; what is no small text file is passed over."""
    for path in paths:
        try:
            data = repository.run("cat-file", "blob", f"HEAD:{path}")
            text = clean(data.decode()) if len(data) <= _LARGEST_FILE and b"\0" not in data else ""
        except (GitError, UnicodeDecodeError):
            continue
        needed = tokens(text) + tokens(path)
        if text and needed <= room:
            room -= needed
            yield clean(path), text
