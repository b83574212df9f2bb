"""What is looked at before the first agent is paid: everything that would stop a run at night."""

import difflib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from rulebook_ralph.core import requirements
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.identifiers import problem_with_id
from rulebook_ralph.core.model import STATE_FOLDER, Prd, Task
from rulebook_ralph.core.question import names_agent
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.able_agents import AbleAgents
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.reviewing import require_reviewers
from rulebook_ralph.loop.rules.stop_criteria import unsatisfiable
from rulebook_ralph.state import disk
from rulebook_ralph.workspace import commits


@dataclass(frozen=True, slots=True)
class Ready:
    """Who commits, and whether commits are signed."""

    who: commits.Identity
    sign: bool


def require_something_to_verify(project: Project, prd: Prd, *, trust_agent: bool) -> None:
    """Raises RalphError where nothing at all would verify the work at an open task, or what is asked for never can."""
    open_tasks = [task for task in prd.tasks if task.status != "completed"]
    for task, problem in never_completed(project.config, prd):
        raise RalphError(f"task {task.id} can never be completed: {problem}")
    if trust_agent or any(step.required for step in project.config.verification.gates):
        return
    bare = [task.id for task in open_tasks if not requirements.is_verified_by_itself(project.config, task)]
    if bare or not open_tasks:
        raise RalphError(
            f"nothing would verify the work{f' at {some(bare)}' if bare else ''}: no required gate in "
            f"{project.folder.config}; add one to verification.steps, such as {{name: tests, kind: test, "
            "command: make test}, or give --trust-agent to believe the agent"
        )


def never_completed(config: Config, prd: Prd) -> Iterator[tuple[Task, str]]:
    """The open tasks of which something is asked that no configured gate can show, and what."""
    said: dict[str, tuple[str, ...]] = {}
    for task in prd.tasks:
        if task.status == "completed":
            continue
        if (own := repr(task.overrides)) not in said:
            said[own] = unsatisfiable(requirements.stop_criteria_for(config, task), config.verification.gates)
        for problem in said[own]:
            yield task, problem


def require_agents(project: Project, crew: Crew, prd: Prd, notice: Callable[[str, str], None]) -> None:
    """Raises RalphError (exit 5) where an agent that an open task may need cannot be started, nor any fallback."""
    config = project.config
    open_tasks = [task for task in prd.tasks if task.status != "completed"]
    needed = {
        requirements.executor_for(config, task, stage): None
        for task in open_tasks
        for stage in requirements.stages_of(config, task)
    }
    if names_agent(config.judge.executor):
        crew.member(config.judge.executor)
    able = AbleAgents(config, crew, notice)
    for executor in needed or {config.defaults.executor: None}:
        able.require(executor)
    require_reviewers(config, crew, prd, able.probe)


def look_at_criteria(prd: Prd, *, strict: bool, notice: Callable[[str, str], None]) -> None:
    """Tells which open tasks do not say themselves what completes them; raises RalphError for them when `strict`."""
    without = [task.id for task in requirements.tasks_without_criteria(prd)]
    if without and strict:
        raise RalphError(
            f"no criteria of their own: {some(without)}; give them an outcome and acceptanceCriteria (ralph task edit "
            f"{without[0]} --outcome … --acceptance …), or run without --strict"
        )
    if without:
        notice("warning", f"no criteria of their own, so the gates and the promise decide: {some(without)}")


def require_writable(project: Project) -> None:
    """Raises RalphError where the state folder or the git folder cannot be written."""
    folder, repository = project.folder, project.repository
    state = (folder.path, folder.prd, folder.history, folder.progress)
    for path in state:
        if path.is_symlink():
            raise RalphError(f"{path} {disk.IS_LINK}")
    if folder.progress.is_file() and folder.progress.stat().st_size > disk.LARGEST:
        raise RalphError(
            f"{folder.progress} is larger than {disk.LARGEST // 2**20} MB; move it away, Ralph begins a new one"
        )
    if folder.progress.exists() and not folder.progress.is_file():
        raise RalphError(f"{folder.progress} is no regular file; remove it, Ralph begins a new one")
    shared = (repository.common_folder / name for name in ("objects", "refs", "refs/heads"))
    for path in (*state, repository.git_folder, *shared, project.root):
        if path.exists() and not os.access(path, os.W_OK):
            raise RalphError(f"{path} is read-only; make it writable for Ralph's state")


def require_usable_name(project: Project, prd: Prd) -> None:
    """Raises RalphError where the project's name cannot be part of a ref's."""
    if problem := problem_with_name(project, prd):
        raise RalphError(f"{project.folder.prd}: $.project {problem}")


def problem_with_name(project: Project, prd: Prd) -> str:
    """Why the project's name cannot be part of a ref's, and what to do; empty where it can."""
    fits = problem_with_id(prd.project) is None
    if fits or project.repository.git.succeeds("check-ref-format", commits.state_reference(prd.project)):
        return ""
    return f"{prd.project!r} cannot be part of a git ref's name; use letters, digits, '.', '_' and '-'"


def require_same_state(project: Project, prd: Prd, data: bytes) -> None:
    """Raises RalphError where the run's branch, still to be switched to, has another task list than stands here."""
    repository, branch = project.repository, prd.work_branch
    here = repository.branch()
    tip = repository.tip(branch)
    if here == branch or tip is None or repository.contains(tip):
        return
    there = repository.file_of(f"refs/heads/{branch}", f"{STATE_FOLDER}/prd.json")
    if there != data and (there is not None or repository.file_of("HEAD", f"{STATE_FOLDER}/prd.json") is not None):
        raise RalphError(
            f"prd.json here is another than on branch {branch}, where the work is done; bring them together first: "
            f"git switch {branch} && git merge {here or 'THE OTHER COMMIT'}"
        )


def require_known_tasks(prd: Prd, only: tuple[str, ...]) -> None:
    """Raises RalphError where a task is asked for that is not in the list."""
    known = [task.id for task in prd.tasks]
    for task_id in only:
        if task_id not in known:
            near = difflib.get_close_matches(task_id, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else "; 'ralph status' lists them"
            raise RalphError(f"there is no task '{task_id}' in prd.json{hint}")


def require_committer(project: Project) -> Ready:
    """Git's identity and signing, tried out. Raises RalphError."""
    who = commits.identity(project.repository)
    sign = commits.wants_signing(project.repository)
    if sign and (problem := commits.signing_problem(project.repository)) is not None:
        raise RalphError(
            f"commits are to be signed (commit.gpgSign), but signing fails: {problem}; unlock the key or turn it off"
        )
    return Ready(who, sign)


_UNFINISHED = {
    "MERGE_HEAD": "merge",
    "rebase-merge": "rebase",
    "rebase-apply": "rebase",
    "CHERRY_PICK_HEAD": "cherry-pick",
    "REVERT_HEAD": "revert",
}


def require_nothing_unfinished(project: Project) -> None:
    """Raises RalphError in the middle of a merge, a rebase and the like: a commit would become part of it."""
    for name, what in _UNFINISHED.items():
        if (project.repository.git_folder / name).exists():
            raise RalphError(f"a {what} is not finished in {project.root}; finish it, or: git {what} --abort")


def require_no_submodules(project: Project) -> None:
    """Raises RalphError where the tree has submodules: what an agent changes within them is not seen in a checkout."""
    if (project.root / ".gitmodules").is_file():
        raise RalphError(
            f"{project.root} has submodules, which no isolated checkout keeps; run without --parallel, --isolated"
        )


def require_unmodified(project: Project) -> None:
    """Raises RalphError where tracked files differ from HEAD."""
    modified = project.repository.modified()
    if modified:
        raise RalphError(f"tracked files have uncommitted changes: {some(modified)}; commit or stash them first")
