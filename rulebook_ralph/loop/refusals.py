"""What a run would refuse although each file by itself is well formed: what they say together, and with git.

For `ralph validate`, which tells all of it; a run ends at the first (loop/preflight.py, workspace/repository.py).
"""

import functools
from collections.abc import Iterator, Mapping

from rulebook_ralph.core import requirements, reviewers
from rulebook_ralph.core.model import STATE_FOLDER, Prd
from rulebook_ralph.core.problem import Problem
from rulebook_ralph.core.question import names_agent
from rulebook_ralph.core.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import preflight, reviewing
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.project import Project
from rulebook_ralph.state.codec import PRD_NAME
from rulebook_ralph.workspace.repository import require_branch

_CONFIG = f"{STATE_FOLDER}/config.yaml"


def of_agents(config: Config, prd: Prd, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Agents that are named and cannot be made: by the configuration, then by open tasks, each once."""
    crew = Crew(config, environment)
    told: set[str] = set()

    @functools.cache
    def problem_with(executor: str) -> str:
        try:
            crew.member(executor)
        except RalphError as error:
            return str(error)
        return ""

    yield from _of_reviewers(config, prd, crew)
    for key, executor in _configured(config):
        if problem := problem_with(executor):
            told.add(executor)
            yield Problem(_CONFIG, None, key, problem)
    for index, task in enumerate(prd.tasks):
        stages = requirements.stages_of(config, task) if task.status != "completed" else ()
        for executor in dict.fromkeys(requirements.executor_for(config, task, stage) for stage in stages):
            if executor not in told and (problem := problem_with(executor)):
                yield Problem(PRD_NAME, None, f"$.tasks[{index}].overrides.executor", problem)


def _of_reviewers(config: Config, prd: Prd, crew: Crew) -> Iterator[Problem]:
    for key, _, reviewer in reviewers.in_use(config, prd):
        if problem := reviewing.unknown(config, crew, reviewer):
            yield Problem(PRD_NAME if key.startswith("$") else _CONFIG, None, key, problem)


def _configured(config: Config) -> Iterator[tuple[str, str]]:
    """Key and executor, of all that a run makes whatever its tasks say."""
    yield "defaults.executor", config.defaults.executor
    if names_agent(config.judge.executor):
        yield "judge.executor", config.judge.executor
    for index, executor in enumerate(config.tools.executors):
        if executor.fallback:
            yield f"tools.executors[{index}].fallback", executor.fallback


def of_tasks(config: Config, prd: Prd) -> Iterator[Problem]:
    """Open tasks that no attempt could complete."""
    for task, problem in preflight.never_completed(config, prd):
        index = prd.tasks.index(task)
        yield Problem(PRD_NAME, None, f"$.tasks[{index}]", f"can never be completed: {problem}")


def of_names(project: Project, prd: Prd) -> Iterator[Problem]:
    """Names of project and branch that git does not take."""
    if problem := preflight.problem_with_name(project, prd):
        yield Problem(PRD_NAME, None, "$.project", problem)
        return
    try:
        require_branch(project.repository, prd.work_branch)
    except RalphError as error:
        yield Problem(PRD_NAME, None, "$.branch" if prd.branch else "$.project", str(error))
