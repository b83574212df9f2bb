"""The judge on a real repository: what an agent would have left is a tree, its gates are real, the model is scripted."""

import json
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from rulebook_ralph.agents.question import Ask, Question
from rulebook_ralph.config.settings import (
    Config,
    Integrity,
    Sandbox,
    StopCriteria,
    Verification,
    VerificationStep,
    Workspace,
)
from rulebook_ralph.git.clone import Clones
from rulebook_ralph.report import events
from rulebook_ralph.tasks.criteria import Criteria, External
from rulebook_ralph.tasks.model import Task
from rulebook_ralph.tasks.results import AgentResult, ParsedIteration
from rulebook_ralph.verify.case import Case, Judgement, StageCriteria, Verifiers
from rulebook_ralph.verify.gates import GateRunner
from rulebook_ralph.verify.judge import judge
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.workspace import ClonePreparer, GateClones
from tests.unit.git.project import Project

PROMISE = "IMPLEMENTATION_COMPLETE"
PYTEST = VerificationStep(
    name="tests", kind="test", command=f"{sys.executable} -m pytest -q -p no:cacheprovider", timeout=120
)
UNITTEST = VerificationStep(name="tests", kind="test", command=f"{sys.executable} -m unittest", timeout=120)
VERBOSE = VerificationStep(name="tests", kind="test", command=f"{sys.executable} -m unittest -v", timeout=120)
NODE = VerificationStep(name="tests", kind="test", command="node --test", timeout=120)


class Model:
    """A judging model that says yes or no to everything, and remembers what it was asked."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[dict[str, Any]] = []

    def __call__(self, question: Question) -> str:
        data = json.loads(question.data)
        self.asked.append(data)
        place = data["files"][0]["file"] if data["files"] else ""
        items = [
            {
                "item": each["item"],
                "answer": self.answer,
                "reason": f"so it is: {self.answer}",
                "file": place,
                "line": 0,
            }
            for each in data["items"]
        ]
        return json.dumps({"items": items})


@dataclass
class Court:
    """One project with its judge. Attempts are given as the files that they change."""

    folder: Path
    files: Mapping[str, str]
    gates: Sequence[VerificationStep] = (PYTEST,)
    integrity: Integrity = field(default_factory=Integrity)
    verification: Mapping[str, Any] = field(default_factory=dict)
    more: Mapping[str, Any] = field(default_factory=dict)
    sandbox: str = "off"
    setup: str = ""

    def __post_init__(self) -> None:
        self.project = Project(self.folder / "project", self.files)
        self.repository = self.project.repository
        self.config = Config(
            verification=Verification(steps=tuple(self.gates), **self.verification),
            integrity=self.integrity,
            sandbox=Sandbox(mode=self.sandbox),  # type: ignore[arg-type]
            workspace=Workspace(setup=self.setup),
            **self.more,
        )
        self.seen: list[events.Event] = []
        self.base = self.project.git("rev-parse", "HEAD")
        self.checks_base = self.base
        self.cancelled = Event()
        self.verifiers = self._verifiers()

    def _verifiers(self) -> Verifiers:
        cache = self.folder / "cache"
        redactor = Redactor({})
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST", "COV"))}
        workspace = ClonePreparer(
            self.repository,
            self.config,
            environment,
            hidden=(),
            clean=redactor.clean,
            cancelled=self.cancelled,
            report=self.seen.append,
        )
        self.clones = Clones(self.repository, cache)
        runner = GateRunner(
            GateClones(self.clones, workspace),
            self.config,
            environment={**environment, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
            redactor=redactor,
            cancelled=self.cancelled,
            report=self.seen.append,
        )
        return Verifiers(
            repository=self.repository,
            config=self.config,
            gates=runner,
            ask=None,
            no_model="no model is configured",
            reviewers=None,
            hooks=(),
            redactor=redactor,
            scratch=cache,
            cancelled=self.cancelled,
            report=self.seen.append,
        )

    @property
    def runner(self) -> GateRunner:
        return self.verifiers.gates

    def case(self, tree: str, *, criteria: External | None = None, **given: Any) -> Case:
        task = given.pop("task", None) or Task(id="t1", title="Do it", acceptance_criteria=("it is done",))
        known = Criteria(promise=PROMISE, verification=criteria) if criteria else Criteria(promise=PROMISE)
        defaults: dict[str, Any] = {
            "project": "toy",
            "task": task,
            "stage": "coder",
            "attempt": 1,
            "iteration": 1,
            "last_stage": True,
            "implements": True,
            "criteria": (StageCriteria("coder", known),),
            "stop_criteria": StopCriteria(),
            "base": self.base,
            "checks_base": self.checks_base,
            "tree": tree,
            "result": AgentResult(agent="script", status="finished", final_text=f"<promise>{PROMISE}</promise>"),
            "parsed": ParsedIteration(status="completed", promises=(PROMISE,)),
        }
        return Case(**{**defaults, **given})

    def judge(self, changed: Mapping[str, str | None], ask: Ask | None = None, **given: Any) -> Judgement:
        """The judgement of an attempt that changed those files (None: deleted); `ask` is the judging model."""
        tree = self.project.tree(changed, self.base)
        return judge(self.case(tree, **given), replace(self.verifiers, ask=ask))

    def land(self, changed: Mapping[str, str | None], judgement: Judgement) -> None:
        """The attempt's work becomes the base of the next one."""
        before = self.base
        self.base = self.project.commit_of(self.project.tree(changed, before), before)
        told = judgement.evidence.checks_base if judgement.evidence else ""
        self.checks_base = told or self.base

    def runs(self, step: str = "tests") -> int:
        """How often a gate was run so far, on whatever."""
        return sum(isinstance(event, events.GateStarted) and event.step == step for event in self.seen)


YES: Callable[[], Model] = lambda: Model("yes")  # noqa: E731
NO: Callable[[], Model] = lambda: Model("no")  # noqa: E731


def sample(names: Mapping[str, Any], count: int) -> list[Any]:
    """Some of the cases, evenly over all; the others only with `--thorough`."""
    every = list(names)
    step = max(1, len(every) // count)
    chosen = set(every[::step][:count])
    return [name if name in chosen else pytest.param(name, marks=pytest.mark.thorough) for name in every]
