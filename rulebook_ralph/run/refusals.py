"""What a run would refuse although each file by itself is well formed: what they say together, and with git.

For `ralph validate`, which tells all of it; a run ends at the first (run/preflight.py, run/branch.py).
"""

import functools
from collections.abc import Iterator, Mapping

from rulebook_ralph.agents.question import names_agent
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config import requirements
from rulebook_ralph.config.layers import PROJECT_CONFIG
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run import preflight
from rulebook_ralph.run.project import Project
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.prd_file import PRD_NAME
from rulebook_ralph.tasks.text import Problem, escaped
from rulebook_ralph.verify import reviewers


def of_agents(config: Config, prd: Prd | None, environment: Mapping[str, str]) -> Iterator[Problem]:
    """Agents and reviewers that are named and cannot be made: by the configuration, then by open tasks, each once."""
    roster = Roster(config, environment)
    told: set[str] = set()

    @functools.cache
    def problem_with(executor: str) -> str:
        try:
            roster.agent(executor)
        except RalphError as error:
            return str(error)
        return ""

    for key, _, reviewer in reviewers.in_use(config, prd):
        if problem := preflight.unknown_reviewer(config, roster, reviewer):
            yield Problem(PRD_NAME if key.startswith("$") else PROJECT_CONFIG, None, key, problem)
    for key, executor in _configured(config):
        if executor not in told and (problem := problem_with(executor)):
            told.add(executor)
            yield Problem(PROJECT_CONFIG, None, key, problem)
    for index, task in enumerate(prd.tasks if prd else ()):
        stages = requirements.stages_of(config, task) if task.status != "completed" else ()
        for executor in dict.fromkeys(requirements.executor_for(config, task, stage) for stage in stages):
            if executor not in told and (problem := problem_with(executor)):
                yield Problem(PRD_NAME, None, f"$.tasks[{index}].overrides.executor", problem)


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
    if not project.repository.can_name_branch(prd.work_branch):
        told = f"'{escaped(prd.work_branch)}' is no name for a branch"
        yield Problem(PRD_NAME, None, "$.branch" if prd.branch else "$.project", told)


def _configured(config: Config) -> Iterator[tuple[str, str]]:
    """Key and executor, of all that is configured and all that a run makes whatever its tasks say."""
    for index, executor in enumerate(config.tools.executors):
        yield f"tools.executors[{index}]", executor.id
    yield "defaults.executor", config.defaults.executor
    if names_agent(config.judge.executor):
        yield "judge.executor", config.judge.executor
    for index, executor in enumerate(config.tools.executors):
        if executor.fallback:
            yield f"tools.executors[{index}].fallback", executor.fallback
