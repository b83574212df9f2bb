"""An attempt before the judge, in a real repository: a base, what an agent made of it, and a model as a function."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from types import SimpleNamespace
from typing import Any, cast

from rulebook_ralph.agents.question import Ask, ModelError, Question
from rulebook_ralph.config.settings import Config, Hook, StopCriteria
from rulebook_ralph.tasks import parser
from rulebook_ralph.tasks.criteria import Criteria, External
from rulebook_ralph.tasks.model import Stage, Task
from rulebook_ralph.tasks.results import AgentResult, CheckResult
from rulebook_ralph.verify.case import Case, Examination, StageCriteria
from rulebook_ralph.verify.redaction import Redactor
from rulebook_ralph.verify.workspace import Place
from tests.unit.git.project import Project

IDENTITY = {
    **{f"GIT_{who}_{what}": "a@b.invalid" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}
PROMISE = "<promise>DONE</promise>"
TASK = Task(
    id="one", title="Add add", description="It adds.", acceptance_criteria=("add adds two numbers", "it is documented")
)


class Gates:
    """Stands for the gates: a command of a criterion passes where its text says so; hooks run in a plain folder."""

    def __init__(self, root: Path, results: Sequence[CheckResult] = ()) -> None:
        self.root = root
        self.results = tuple(results)
        self.environment = {**os.environ, **IDENTITY}
        self.commands: list[str] = []

    def command(self, tree: str, external: External, *, step: str) -> CheckResult:
        self.commands.append(external.command)
        passed = external.command.startswith("true")
        reason = "" if passed else "exit code 1"
        return CheckResult(
            step=step,
            method="external",
            command=external.command,
            passed=passed,
            exit_code=int(not passed),
            reason=reason,
            output="" if passed else "E it does not add",
        )

    @contextmanager
    def stand(self, tree: str) -> Iterator[Any]:
        folder = self.root.parent / "clone"
        if not folder.exists():
            subprocess.run(
                ["git", "clone", "-q", str(self.root), str(folder)], check=True, env={**os.environ, **IDENTITY}
            )
        subprocess.run(["git", "read-tree", "-u", "--reset", tree], cwd=folder, check=True)
        subprocess.run(["git", "read-tree", "HEAD"], cwd=folder, check=True)
        yield Place(folder, folder, None, dict)


class Seen(Examination):
    """An examination whose gates said what the test gives."""

    def gate_results(self) -> tuple[CheckResult, ...]:
        return cast("Gates", self.verifiers.gates).results


class Toy(Project):
    """A project with a first commit, which is the base of its attempts."""

    def __init__(self, root: Path, files: Mapping[str, str]) -> None:
        super().__init__(root, files)
        self.base = self.git("rev-parse", "HEAD")


def project(folder: Path, files: Mapping[str, str] = {"app.py": "x = 1\ny = 2\n"}) -> Toy:
    return Toy(folder / "project", files)


def attempt(
    made: Toy,
    files: Mapping[str, str | None],
    *,
    criteria: Criteria | None = None,
    earlier: Sequence[tuple[Stage, Criteria]] = (),
    said: str = f"Done.\n\n{PROMISE}\n",
    ask: Ask | None = None,
    config: Config | None = None,
    hooks: Sequence[Hook] = (),
    gates: Sequence[CheckResult] = (),
    reviewers: object = None,
    secret: str = "correct-horse-battery",
    result: AgentResult | None = None,
    no_agent: bool = False,
    **values: Any,
) -> tuple[Case, Any]:
    """The case, and the examination for its rules."""
    task = values.pop("task", TASK)
    stage: Stage = values.pop("stage", "coder")
    own = StageCriteria(stage, criteria or Criteria(promise="DONE"))
    result = result or AgentResult(agent="test", status="finished", final_text=said)
    case = Case(
        **{
            "project": "toy",
            "task": task,
            "stage": stage,
            "attempt": 1,
            "iteration": 1,
            "last_stage": True,
            "implements": True,
            "criteria": (own, *(StageCriteria(each, theirs) for each, theirs in earlier)),
            "stop_criteria": StopCriteria(),
            "base": made.base,
            "checks_base": made.base,
            "tree": made.tree(files),
            "result": None if no_agent else result,
            "parsed": parser.parse(result),
            **values,
        }
    )
    verifiers = SimpleNamespace(
        repository=made.repository,
        config=config or Config(),
        gates=Gates(made.root, gates),
        ask=ask,
        why_no_model="no judging model: there is no key",
        reviewers=reviewers,
        hooks=tuple(hooks),
        redactor=Redactor({"MY_PASSWORD": secret}),
        cancelled=Event(),
        report=lambda _: None,
        say_once=lambda _: None,
        commit_message=lambda case: f"{case.task.title}\n\nRalph-Task: {case.task.id}\n",
    )
    return case, Seen(case, cast("Any", verifiers), cast("Any", None))


def scripted(*answers: str | Exception | Callable[[Question], str]) -> tuple[Ask, list[Question]]:
    """A model that gives those answers in order, then the last one again; and what it was asked."""
    questions: list[Question] = []

    def ask(question: Question) -> str:
        answer = answers[min(len(questions), len(answers) - 1)]
        questions.append(question)
        if isinstance(answer, Exception):
            raise answer
        return answer(question) if callable(answer) else answer

    return ask, questions


def shown(question: Question) -> dict[str, list[str]]:
    """The lines of each file in a question."""
    return {file["file"]: file.get("lines", []) for file in json.loads(question.data)["files"]}


NO_ANSWER = ModelError("the API cannot be reached")
