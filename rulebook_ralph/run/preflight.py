"""What is looked at before the first agent is paid: everything that would stop a run at night.

A run ends at the first; `ralph validate` is told all of it, with its place.
"""

import os
from collections.abc import Callable, Iterator, Mapping
from threading import Event

from rulebook_ralph.agents.agent import Probe
from rulebook_ralph.agents.prices import cost_problem
from rulebook_ralph.agents.question import names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config import requirements
from rulebook_ralph.config.layers import PROJECT_CONFIG
from rulebook_ralph.config.settings import Config, Reviewer
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git import attempts
from rulebook_ralph.run.project import Project, RunOptions, Say
from rulebook_ralph.tasks import disk, edits
from rulebook_ralph.tasks.model import Prd, Task, problem_with_id
from rulebook_ralph.tasks.prd_file import PRD_NAME
from rulebook_ralph.tasks.text import Problem, escaped, nearest, some
from rulebook_ralph.verify import reviewers
from rulebook_ralph.verify.rules import unsatisfiable


def require_means(config: Config, roster: Roster, prd: Prd, options: RunOptions, notice: Say) -> None:
    """Raises RalphError where what is asked for cannot be worked on: its tasks, agents, reviewers, criteria, limits."""
    for task_id in options.only:
        edits.find(prd, task_id)
    able = AbleAgents(config, roster, notice)
    open_tasks = [task for task in prd.tasks if task.status != "completed"]
    needed = {
        (requirements.executor_for(config, task, stage), requirements.model_for(config, task, stage)): None
        for task in open_tasks
        for stage in requirements.stages_of(config, task)
    } or {(config.defaults.executor, config.defaults.model): None}
    for executor, model in needed:
        able.require(executor)
        if config.limits.max_cost_usd is not None and (
            problem := cost_problem(config.prices, roster.settings_of(executor, model))
        ):
            raise RalphError(problem)
    if names_agent(config.judge.executor):
        roster.agent(config.judge.executor)
    _require_reviewers(config, roster, prd, able)
    look_at_criteria(prd, strict=options.strict, notice=notice)


def _require_reviewers(config: Config, roster: Roster, prd: Prd, able: "AbleAgents") -> None:
    """Raises RalphError for a reviewer of the loop that is not known, and (exit 5) for one that cannot be asked."""
    for key, tier, reviewer in reviewers.in_use(config, prd):
        if problem := unknown_reviewer(config, roster, reviewer):
            raise RalphError(f"{key}: {problem}")
        choice = reviewers.with_model(config, reviewer, tier)
        model = roster.model(choice, Event(), named_by=reviewers.key_of(reviewer))
        problem = model.missing
        if model.ask is not None and names_agent(reviewer.executor):
            found = able.probe(reviewer.executor)
            problem = "" if found.installed else found.problem
        if problem:
            raise RalphError(f"{key}: the reviewer {reviewer.id} cannot be asked: {problem}", exit_code=ExitCode.AGENT)


def unknown_reviewer(config: Config, roster: Roster, reviewer: Reviewer) -> str:
    """Why there is no such reviewer, or empty."""
    problem = _problem_with(roster, reviewer.executor) if names_agent(reviewer.executor) else ""
    ids = [each.id for each in config.tools.reviewers]
    if not problem or reviewer.id in ids:
        return problem
    near = nearest(reviewer.id, ids)
    hint = f"; did you mean {near}?" if near else f"; tools.reviewers has {some(ids) if ids else 'none'}"
    return f"there is no reviewer and no agent '{reviewer.id}'{hint}"


def require_something_to_verify(project: Project, prd: Prd) -> None:
    """Raises RalphError where nothing at all would verify the work at an open task, or what is asked for never can."""
    open_tasks = [task for task in prd.tasks if task.status != "completed"]
    for task, problem in never_completed(project.config, prd):
        raise RalphError(f"task {task.id} can never be completed: {problem}")
    if any(step.required for step in project.config.verification.gates):
        return
    bare = [task.id for task in open_tasks if not requirements.is_verified_by_itself(project.config, task)]
    if bare or not open_tasks:
        raise RalphError(
            f"nothing would verify the work{f' at {some(bare)}' if bare else ''}: no required gate in "
            f"{project.folder.config}; add one to verification.steps, such as {{name: tests, kind: test, "
            "command: make test}, or give the tasks criteria of their own"
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


def look_at_criteria(prd: Prd, *, strict: bool, notice: Say) -> None:
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
    shared = (repository.common_dir / name for name in ("objects", "refs", "refs/heads"))
    for path in (*state, repository.git_dir, *shared, project.root):
        if path.exists() and not os.access(path, os.W_OK):
            raise RalphError(f"{path} is read-only; make it writable for Ralph's state")


def require_usable_name(project: Project, prd: Prd) -> None:
    """Raises RalphError where the project's name cannot be part of a ref's."""
    if problem := problem_with_name(project, prd):
        raise RalphError(f"{project.folder.prd}: $.project {problem}")


def problem_with_name(project: Project, prd: Prd) -> str:
    """Why the project's name cannot be part of a ref's, and what to do; empty where it can."""
    fits = problem_with_id(prd.project) is None
    if fits or project.repository.answer("check-ref-format", attempts.state_reference(prd.project)) is not None:
        return ""
    return f"{prd.project!r} cannot be part of a git ref's name; use letters, digits, '.', '_' and '-'"


class AbleAgents:
    """Looks at each executor once, and tells what is wrong with it once."""

    def __init__(self, config: Config, roster: Roster, notice: Say) -> None:
        self._config = config
        self._roster = roster
        self._notice = notice
        self._probes: dict[str, Probe] = {}

    def require(self, executor: str) -> None:
        """Whoever cannot be started is replaced for the run. Raises RalphError (exit 5) where nobody is left, and for
        one that cannot be made at all: that is better known before it is needed.
        """
        line = self._roster.chain(executor)
        new = [each for each in line if each not in self._probes]
        for each in new:
            self.probe(each)
            self._warn_of_server(each)
        absent = [each for each in line if not self._probes[each].installed]
        if absent == list(line):
            others = f"; nor can its fallback: {', '.join(line[1:])}" if line[1:] else ""
            raise RalphError(f"{self._probes[executor].problem}{others}", exit_code=ExitCode.AGENT)
        for each in reversed(absent):
            self._replace(each, first=each == executor, told=each not in new)

    def probe(self, executor: str) -> Probe:
        """How the executor's own probe ended, looked at once. Raises RalphError for one that cannot be made."""
        if executor not in self._probes:
            self._probes[executor] = self._roster.agent(executor)[0].probe()
        return self._probes[executor]

    def _replace(self, executor: str, *, first: bool, told: bool) -> None:
        others = self._roster.chain(executor)[1:]
        able = any(self._probes[other].installed for other in others if other in self._probes)
        other = self._roster.substitute(executor, until=None) if able and self._roster.fallback_of(executor) else ""
        if told:
            return
        follows = f"; going on with {other}" if other and first else "; it cannot take over"
        self._notice("warning", f"{self._probes[executor].problem}{follows}")

    def _warn_of_server(self, executor: str) -> None:
        settings = self._roster.settings_of(executor)
        if settings.endpoint and settings.permissions != "full":
            self._notice(
                "warning",
                f"agent {executor} works on the server at {settings.endpoint}, whose own rules hold: permissions: "
                f"{settings.permissions} is not heeded; restrict the server itself, or remove the endpoint",
            )


def require_no_secret(project: Project, clean: Callable[[str], str]) -> None:
    """Raises RalphError where config.yaml, which is committed with the state, holds a secret."""
    data = disk.content_of(project.folder.config) or b""
    text = data.decode("utf-8", "replace")
    cleaned = clean(text)
    if cleaned == text:
        return
    pairs = enumerate(zip(text.splitlines(), cleaned.splitlines(), strict=False), start=1)
    number = next((number for number, (before, after) in pairs if before != after), 1)
    raise RalphError(
        f"{project.folder.config}:{number}: holds a secret, and the file is committed with the state; put it into the "
        "environment, or into your own ~/.config/rulebook-ralph/config.yaml"
    )


# For validate: what well-formed files say together, and with git


def problems_with_agents(config: Config, prd: Prd | None, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Agents and reviewers that are named and cannot be made: by the configuration, each once, then by open tasks."""
    roster = Roster(config, environment)
    for key, _, reviewer in reviewers.in_use(config, prd):
        if problem := unknown_reviewer(config, roster, reviewer):
            yield Problem(PRD_NAME if key.startswith("$") else PROJECT_CONFIG, None, key, problem)
    executors = config.tools.executors
    configured = [
        *((f"tools.executors[{index}]", each.id) for index, each in enumerate(executors)),
        ("defaults.executor", config.defaults.executor),
        *([("judge.executor", config.judge.executor)] if names_agent(config.judge.executor) else []),
        *((f"tools.executors[{index}].fallback", each.fallback) for index, each in enumerate(executors)),
    ]
    problems: dict[str, str] = {}
    for key, executor in configured:
        if executor and executor not in problems:
            problems[executor] = _problem_with(roster, executor)
            if problems[executor]:
                yield Problem(PROJECT_CONFIG, None, key, problems[executor])
    for index, task in enumerate(prd.tasks if prd else ()):
        stages = requirements.stages_of(config, task) if task.status != "completed" else ()
        for executor in dict.fromkeys(requirements.executor_for(config, task, stage) for stage in stages):
            if executor not in problems and (problem := _problem_with(roster, executor)):
                yield Problem(PRD_NAME, None, f"$.tasks[{index}].overrides.executor", problem)


def _problem_with(roster: Roster, executor: str) -> str:
    """Why the agent cannot be made; empty where it can."""
    try:
        roster.agent(executor)
    except RalphError as error:
        return str(error)
    return ""


def problems_with_tasks(config: Config, prd: Prd) -> Iterator[Problem]:
    """Open tasks that no attempt could complete."""
    for task, problem in never_completed(config, prd):
        index = prd.tasks.index(task)
        yield Problem(PRD_NAME, None, f"$.tasks[{index}]", f"can never be completed: {problem}")


def problems_with_names(project: Project, prd: Prd) -> Iterator[Problem]:
    """Names of project and branch that git does not take."""
    if problem := problem_with_name(project, prd):
        yield Problem(PRD_NAME, None, "$.project", problem)
        return
    if not project.repository.can_name_branch(prd.work_branch):
        told = f"'{escaped(prd.work_branch)}' is no name for a branch"
        yield Problem(PRD_NAME, None, "$.branch" if prd.branch else "$.project", told)
