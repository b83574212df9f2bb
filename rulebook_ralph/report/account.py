"""What was done in a project so far, as values: the tasks with their attempts, the gates, the reviews, the learnings.

Made of the state folder alone, so that it can be had at any time, also while a run goes on.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rulebook_ralph.errors import RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.tasks import history, progress, text
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.history import Iteration
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.results import CheckResult, Evidence
from rulebook_ralph.tasks.review import Review


@dataclass(frozen=True, slots=True)
class TaskAccount:
    """A task and its iterations that are kept, oldest first. `commit` is empty where it is not known any more."""

    task: Task
    records: tuple[Iteration, ...]

    @property
    def commit(self) -> str:
        landed = (record.commit for record in reversed(self.records) if record.tasks_completed and record.commit)
        return next(landed, "") if self.task.status == "completed" else ""

    @property
    def review(self) -> Review | None:
        """The last one of its work."""
        return next((record.review for record in reversed(self.records) if record.review is not None), None)

    @property
    def evidence(self) -> Evidence | None:
        """Of the attempt that completed it, or of the last one."""
        return next((record.evidence for record in reversed(self.records) if record.evidence is not None), None)

    @property
    def duration_ms(self) -> int:
        return sum(record.duration_ms for record in self.records)


@dataclass(frozen=True, slots=True)
class Account:
    """Of the whole project. `gates` are the last results, of iteration `gates_of`; `unreadable` says of iteration files
    why they are left out.
    """

    prd: Prd
    tasks: tuple[TaskAccount, ...]
    gates: tuple[CheckResult, ...]
    gates_of: int
    learnings: tuple[str, ...]
    duration_ms: int
    unreadable: tuple[str, ...]

    def of(self, status: str) -> tuple[TaskAccount, ...]:
        """The tasks of that status, in the order of the list."""
        return tuple(each for each in self.tasks if each.task.status == status)


def read(folder: StateFolder) -> Account:
    """The account of a project. Raises RalphError where its task list cannot be read; nothing is written."""
    prd = read_prd(folder.prd)
    records: list[Iteration] = []
    unreadable: list[str] = []
    for number in history.numbers(folder):
        try:
            records.append(history.read(folder, number))
        except RalphError as error:
            unreadable.append(str(error))
    by_task: dict[str, list[Iteration]] = {}
    for record in records:
        for name in record.tasks:
            by_task.setdefault(name, []).append(record)
    gates = ((record.iteration_number, found) for record in reversed(records) if (found := _gates(record)))
    last, results = next(gates, (0, ()))
    said = [learning for record in records if record.parsed for learning in record.parsed.learnings]
    return Account(
        prd=prd,
        tasks=tuple(TaskAccount(task, tuple(by_task.get(task.id, ()))) for task in prd.tasks),
        gates=results,
        gates_of=last,
        learnings=tuple(progress.unheard("", said)),
        duration_ms=sum(record.duration_ms for record in records),
        unreadable=tuple(unreadable),
    )


def snapshot(account: Account, record: Iteration) -> str:
    """The ref under which an attempt's work is kept; empty without one."""
    kept = attempts.attempt_reference(account.prd.project, record.task_id, record.iteration_number)
    return kept if record.snapshot else ""


def as_json(account: Account) -> dict[str, object]:
    """The account as one object."""
    prd = account.prd
    return {
        "project": prd.project,
        "branch": prd.work_branch,
        "completedCount": len(account.of("completed")),
        "blockedCount": len(account.of("blocked")),
        "totalTasks": len(account.tasks),
        "iterations": prd.totals.iterations,
        "costUsd": text.known_cost(prd.totals.cost_usd, prd.totals.tokens or prd.totals.iterations),
        "tokens": prd.totals.tokens,
        "durationMs": account.duration_ms,
        "tasks": [_task_as_json(each) for each in account.tasks],
        "gates": {"iterationNumber": account.gates_of or None, "results": account.gates},
        "learnings": account.learnings,
        "unreadable": account.unreadable,
    }


def story_as_json(account: Account, told: TaskAccount) -> dict[str, object]:
    """One task with each of its attempts."""
    tried = [
        {
            "iterationNumber": record.iteration_number,
            "stage": record.stage,
            "attempt": record.attempt,
            "agent": record.agent,
            "status": record.completion_status or record.phase,
            "verdict": record.verdict.reason if record.verdict else None,
            "feedback": record.feedback or None,
            "gates": _gates(record),
            "evidence": record.evidence,
            "review": record.review,
            "filesChanged": record.files_changed,
            "snapshot": snapshot(account, record) or None,
            "commit": record.commit if record.tasks_completed else None,
            "costUsd": record.told_usd,
            "tokens": record.spent_tokens,
            "durationMs": record.duration_ms,
        }
        for record in told.records
    ]
    return {**_task_as_json(told), "attempts": tried}


def _task_as_json(told: TaskAccount) -> Mapping[str, Any]:
    task = told.task
    return {
        "id": task.id,
        "title": task.title,
        "status": task.status,
        "commit": told.commit or None,
        "attemptsByStage": task.attempts,
        "blockedReason": task.blocked_reason,
        "summary": task.summary or None,
        "completionSummary": task.completion_summary,
        "evidence": told.evidence,
        "review": told.review,
        "costUsd": text.known_cost(task.cost_usd, task.tokens or len(told.records)),
        "tokens": task.tokens,
        "durationMs": told.duration_ms,
    }


def _gates(record: Iteration) -> tuple[CheckResult, ...]:
    return tuple(check for check in record.checks if check.method == "gate")
