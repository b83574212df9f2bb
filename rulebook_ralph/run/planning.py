"""`ralph plan`: which model plans, what it is asked and shown, and its answer held against the project before anyone
sees it.

A planner works nowhere near the tree: it is given texts within a budget, an agent a clone to read in too. Only files
that git tracks are shown, none that should hold keys, and everything goes through the redactor.
"""

import functools
import os
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from threading import Event
from typing import Any

import msgspec
from msgspec.structs import replace

from rulebook_ralph import resources
from rulebook_ralph.agents import registry
from rulebook_ralph.agents.models import ReadingPlace
from rulebook_ralph.agents.question import ANTHROPIC, Ask, ModelError, Question, names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config.settings import AskedModel, Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git.repository import GitError, Repository, within_state
from rulebook_ralph.run.excerpts import few
from rulebook_ralph.run.parts import workspace_of
from rulebook_ralph.run.project import Project
from rulebook_ralph.run.prompt import gate_line
from rulebook_ralph.run.templates import BUILT_IN_ALONE, PLAN, Templates
from rulebook_ralph.run.verifying import OwnClones
from rulebook_ralph.tasks.edits import extended
from rulebook_ralph.tasks.model import Json, Prd
from rulebook_ralph.tasks.plan import MOST_TASKS, Plan, PlanAnswer, unfit
from rulebook_ralph.tasks.struct_reading import read_struct
from rulebook_ralph.tasks.text import Fault, json_path
from rulebook_ralph.tasks.text import estimated_tokens as tokens
from rulebook_ralph.verify.material import UnusableAnswerError, decoded, envelope

LONGEST_PLAN = 200_000
"""Characters; a run takes no larger edit."""

_LONGEST_QUESTION = 500
_MOST_TOLD = 30
_LONGEST_REFUSED = 60_000
"""Characters of a refused answer that are shown to the one who gave it."""
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


class NoPlanError(RalphError):
    """No plan came: the model could not be asked, or what it answers cannot be used (`faults`, with their places)."""

    def __init__(self, message: str, *faults: Fault) -> None:
        super().__init__(message, exit_code=ExitCode.AGENT)
        self.faults = faults


class _Parts(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The answer before anything in it is looked at."""

    questions: Any
    tasks: Any


def planner(config: Config, *, named: str = "", model: str = "") -> AskedModel:
    """Who plans: `named`, else `defaults.planner`, else the first of `tools.planners`, else whoever is there.

    An agent plans with the model it has. `model` goes before all. Raises RalphError for a name of neither.
    """
    name = named or config.defaults.planner
    found = next((each for each in config.tools.planners if each.id == name or not name), None)
    if found is None and not names_agent(name):
        found = AskedModel(id=ANTHROPIC if name else "", executor=name)
    elif found is None:
        agents = {*registry.known_types(), *(each.id for each in config.tools.executors)}
        if name not in agents:
            planners = ", ".join(each.id for each in config.tools.planners) or "none is configured"
            raise RalphError(
                f"there is no planner '{name}' (tools.planners: {planners}); it may also be {ANTHROPIC} or an agent"
            )
        found = AskedModel(id=name, executor=name, model="")
    return replace(found, model=model) if model else found


def key_of(who: AskedModel) -> str:
    """Which key of the configuration names the executor of a planner, or could."""
    return f"tools.planners.{who.id}.executor" if who.id not in ("", who.executor) else "defaults.planner"


@dataclass(frozen=True, slots=True)
class Planning:
    """One wish. `material` is what is shown of the project; `clean` takes secrets out of a text; `templates` are a
    person's own.
    """

    config: Config
    prd: Prd
    wanted: str
    material: Mapping[str, Any]
    clean: Callable[[str], str]
    templates: Templates = BUILT_IN_ALONE

    def plan(
        self, ask: Ask, answers: Sequence[tuple[str, str]], *, questions_left: int, shown: Sequence[Json] = ()
    ) -> Plan:
        """Tasks that can be added as they are, or questions. `answers` are a person's to earlier questions, and to the
        tasks that were `shown`, which are to be other ones.

        An answer that is refused is asked for again, once. Raises NoPlanError, and BrokenTemplateError.
        """
        said, faults = "", tuple[Fault, ...]()
        for _ in range(2):
            try:
                said = ask(self.question(answers, questions_left, said, faults, shown))
            except ModelError as error:
                raise NoPlanError(f"the planner gave no answer: {error}") from error
            plan, faults = self._read(said, questions_left)
            if plan is not None:
                return plan
        raise NoPlanError("the planner's answer cannot be used, and nothing was added", *faults)

    @property
    def _has_gates(self) -> bool:
        return any(step.required for step in self.config.verification.gates)

    def _read(self, text: str, questions_left: int) -> tuple[Plan | None, tuple[Fault, ...]]:
        """The plan that an answer holds, which can be added as it is; or what is wrong with it."""
        plan, faults = read_plan(text, questions_left=questions_left)
        if plan is not None:
            faults += unfit(plan, stages=self.config.stages, has_gates=self._has_gates, clean=self.clean)
            extended(self.prd, plan.tasks, faults)
        return None if faults else plan, tuple(dict.fromkeys(faults))

    def question(
        self,
        answers: Sequence[tuple[str, str]] = (),
        questions_left: int = 0,
        refused: str = "",
        faults: Sequence[Fault] = (),
        shown: Sequence[Json] = (),
    ) -> Question:
        """What the planner is asked; `faults` are those of the answer that was refused. Raises BrokenTemplateError."""
        clean = self.clean
        instructions = self.templates.rendered(
            PLAN,
            {
                "most_tasks": MOST_TASKS,
                "has_gates": self._has_gates,
                "stages": self.config.stages,
                "questions_left": questions_left,
                "faults": [clean(told(fault)) for fault in faults[:_MOST_TOLD]],
            },
        )
        data: dict[str, Any] = {
            "wanted": clean(self.wanted),
            "answers": [{"question": clean(asked), "answer": clean(answer)} for asked, answer in answers],
            **self.material,
        }
        if shown:
            data["planShown"] = list(shown)
        if refused:
            data["lastAnswer"] = clean(refused[:_LONGEST_REFUSED])
        return Question(instructions, envelope(**data), resources.schema("plan"))


def read_plan(text: str, *, questions_left: int) -> tuple[Plan | None, list[Fault]]:
    """The plan, or up to `questions_left` questions, not compared with anything yet; or what is wrong with it."""
    if len(text) > LONGEST_PLAN:
        return None, [Fault((), f"the answer is longer than {LONGEST_PLAN:,} characters")]
    try:
        parts = decoded(text, _Parts)
    except UnusableAnswerError as error:
        return None, [Fault((), str(error))]
    if isinstance(parts.tasks, list) and len(parts.tasks) > MOST_TASKS:
        return None, [Fault(("tasks",), f"expected at most {MOST_TASKS} tasks, got {len(parts.tasks):,}")]
    faults: list[Fault] = []
    tree = read_struct(msgspec.structs.asdict(parts), PlanAnswer, (), faults)
    if not faults:
        faults = _faults(tree["questions"], tree["tasks"], questions_left)
    return (None, faults) if faults else (Plan(tuple(tree["questions"]), tuple(tree["tasks"])), [])


def told(fault: Fault) -> str:
    """A fault of an answer in one line, its place first."""
    return f"{json_path(fault.path)}: {fault.message}"


def _faults(questions: list[str], tasks: list[Any], questions_left: int) -> list[Fault]:
    faults = []
    if questions and not questions_left:
        faults.append(
            Fault(("questions",), "nobody can be asked any more: decide, and say in the task what you decided")
        )
    elif len(questions) > questions_left:
        faults.append(Fault(("questions",), f"expected at most {questions_left}, got {len(questions)}"))
    for index, question in enumerate(questions):
        if not question.strip() or len(question) > _LONGEST_QUESTION:
            faults.append(Fault(("questions", index), f"expected a question of at most {_LONGEST_QUESTION} characters"))
    if questions and tasks:
        faults.append(Fault(("tasks",), "must be empty while there are questions"))
    if not questions and not tasks:
        faults.append(Fault(("tasks",), "nothing is planned"))
    return faults


# What a planner is shown


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
        "gates": shown([gate_line(step) for step in config.verification.gates], _RULES_SHARE),
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
