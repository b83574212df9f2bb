"""What one iteration is about: the agent, its brief, its limits, and what it will be judged by, all as values."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rulebook_ralph.agents.agent import AgentLimits
from rulebook_ralph.core import requirements
from rulebook_ralph.core.criteria import External, MultiStage, Verification
from rulebook_ralph.core.criteria_reading import part_verification
from rulebook_ralph.core.model import Prd, Stage, Task
from rulebook_ralph.core.settings import Config, VerificationStep
from rulebook_ralph.loop import brief, leftovers, reviewing
from rulebook_ralph.loop.checkout_environment import environment_in
from rulebook_ralph.loop.codebase import Codebase
from rulebook_ralph.loop.crew import Crew, Member
from rulebook_ralph.loop.gatekeeper import Base, Gatekeeper
from rulebook_ralph.loop.iteration import Assignment, Further
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.project import Project
from rulebook_ralph.loop.template_files import TemplateFiles
from rulebook_ralph.workspace.snapshot import Change, Opening

_BESIDE = (
    "Other agents work on other tasks at this moment, each in a checkout of its own, and all of it is merged: change "
    "what this task needs and nothing else."
)


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over a task: which stage and attempt it is, and who works on it. `task` is already in iteration, and so
    are the `others` that are handed out with it.
    """

    number: int
    task: Task
    stage: Stage
    member: Member
    others: tuple[Task, ...] = ()

    @property
    def attempt(self) -> int:
        """The number of the attempt within the task's stage."""
        return self.task.attempts.get(self.stage, 0) + 1


@dataclass(frozen=True, slots=True)
class Now:
    """What is true at this moment of a run: the task list, its progress, the last commits, what stands in the tree."""

    prd: Prd
    progress: str
    commits: Sequence[str]
    feedback: str
    changed: tuple[Change, ...]
    iteration: int
    max_iterations: int


@dataclass(frozen=True, slots=True)
class Assigner:
    """Makes briefs and assignments, for one run."""

    project: Project
    crew: Crew
    gatekeeper: Gatekeeper
    options: RunOptions
    codebase: Codebase
    templates: TemplateFiles
    user_tree: Path | None = None
    """Where the user's tree is, if the work is done elsewhere."""

    def stage(self, task: Task, kept: Kept | None) -> Stage:
        """The stage to work on: while the task's work stands in the tree the one it had come to, else the first."""
        stages = requirements.stages_of(self.project.config, task)
        goes_on = kept is not None and kept.task_id == task.id and task.status != "blocked"
        return task.stage if goes_on and task.stage in stages else stages[0]

    def executor(self, task: Task, stage: Stage) -> str:
        """The id of the agent that is to work on a task's stage, whoever stands in for it now."""
        return requirements.executor_for(self.project.config, task, stage)

    def max_attempts(self, task: Task, stage: Stage) -> int:
        """How many attempts the stage has."""
        return requirements.max_attempts(self.project.config, task, stage)

    def brief(self, this: Pass, now: Now, opening: Opening) -> brief.Brief:
        """The prompt for a pass."""
        config, task = self.project.config, this.task
        return self.templates.brief(
            brief.Situation(
                prd=now.prd,
                task=task,
                others=[(each, requirements.criteria_for(config, each, this.stage)) for each in this.others],
                stage=this.stage,
                criteria=requirements.criteria_for(config, task, this.stage),
                stop_criteria=requirements.stop_criteria_for(config, task),
                base=opening.commit,
                changed=tuple(change.path for change in now.changed),
                progress=now.progress,
                commits=now.commits,
                rules=(*requirements.rules_for(config, task), *([_BESIDE] if config.parallel.workers > 1 else ())),
                steps=self.gatekeeper.steps,
                feedback=now.feedback,
                iteration=now.iteration,
                max_iterations=now.max_iterations,
                attempt=this.attempt,
                max_attempts=self.max_attempts(task, this.stage),
                prompt_tokens=config.limits.prompt_tokens,
                looked_for=reviewing.looked_for(config, task, last_stage=self._is_last(task, this.stage)),
                codebase=self.codebase.facts(opening.tree),
            )
        )

    def _is_last(self, task: Task, stage: Stage) -> bool:
        return requirements.stages_of(self.project.config, task)[-1] == stage

    def are_alike(self, one: Task, other: Task) -> bool:
        """Whether two tasks can be judged as one: by the same rules, with the same promise, in one stage, and each by
        criteria of its own, for gates do not tell whose work is missing. Of several stages each would have to be handed
        out to all of them alone, with what it found kept apart.
        """
        terms = self._terms(one)
        return terms is not None and terms == self._terms(other)

    def _terms(self, task: Task) -> tuple[object, ...] | None:
        config = self.project.config
        stage, *later = requirements.stages_of(config, task)
        criteria = requirements.criteria_for(config, task, stage)
        if later or criteria.method == "string_match":
            return None
        return task.overrides, stage, criteria.promise, self.max_attempts(task, stage)

    def _further(self, task: Task, stage: Stage, others: Sequence[Task]) -> tuple[Further, ...]:
        """Of the last stage: the criteria of those before it that are more than a promise; and those of the other
        tasks. They hold for what lands.
        """
        config = self.project.config
        *before, last = requirements.stages_of(config, task)
        found = (Further(each, task, each, requirements.criteria_for(config, task, each)) for each in before)
        earlier = (each for each in found if stage == last and each.criteria.method != "string_match")
        of_others = ((each, requirements.criteria_for(config, each, stage)) for each in others)
        return (*earlier, *(Further(_name(each, stage), each, stage, criteria) for each, criteria in of_others))

    def _here(self, environment: Mapping[str, str]) -> Mapping[str, str]:
        """An agent's environment; in a checkout nothing of it leads back into the user's tree."""
        if self.user_tree is None:
            return environment
        given = self.project.config.workspace.link
        return environment_in(self.project.root, environment, instead_of=self.user_tree, given=given)

    def judging(self, this: Pass) -> tuple[VerificationStep, ...]:
        """The commands beside the gates that judge the work, in the form of gates: of criteria and of user hooks."""
        config, task, stage = self.project.config, this.task, this.stage
        further = (each.criteria for each in self._further(task, stage, this.others))
        criteria = (requirements.criteria_for(config, task, stage), *further)
        of_criteria = (step for each in criteria for step in _commands(each.verification, stage))
        return (*of_criteria, *_hook_commands(config))

    def assignment(
        self,
        this: Pass,
        opening: Opening,
        base: Base,
        *,
        project: str,
        prompt: str,
        wall_time: float,
        money_left: float | None,
        run_limited: bool,
        seconds: int,
    ) -> Assignment:
        """Everything the pass needs to know. `wall_time` is the agent's limit in seconds, `money_left` in dollars."""
        config, task, stage = self.project.config, this.task, this.stage
        criteria = requirements.criteria_for(config, task, stage)
        return Assignment(
            project=project,
            number=this.number,
            task=task,
            stage=stage,
            attempt=this.attempt,
            last_stage=self._is_last(task, stage),
            implements=requirements.implements(config, task),
            name=_name(task, stage) if this.others else stage,
            criteria=criteria,
            further=self._further(task, stage, this.others),
            stop_criteria=requirements.stop_criteria_for(config, task),
            prompt=prompt,
            opening=opening,
            steps=self.gatekeeper.steps,
            judging=self.judging(this),
            excused=base.red,
            tests_on_base=base.tests,
            failing_on_base=base.failing,
            protect=config.protect,
            integrity=config.integrity,
            trust_agent=self.options.trust_agent,
            run_limited=run_limited,
            limits=AgentLimits(wall_time=wall_time, idle_time=config.limits.idle_timeout, cost_usd=money_left),
            environment={**self._here(this.member.environment), **_marks(this, criteria.promise)},
            output_file=leftovers.output_file(self.project, this.number),
            seconds=seconds,
            others=this.others,
        )


def _name(task: Task, stage: Stage) -> str:
    """How the checks of one task among several are known."""
    return f"{task.id}/{stage}"


def _commands(verification: Verification, name: str) -> Iterator[VerificationStep]:
    """The commands of criteria, in the form of gates."""
    if isinstance(verification, External):
        yield VerificationStep(name=name, command=verification.command, working_dir=verification.working_dir)
    elif isinstance(verification, MultiStage):
        for part in verification.stages:
            yield from _commands(part_verification(part), f"{name}/{part.name}")


def _hook_commands(config: Config) -> Iterator[VerificationStep]:
    return (VerificationStep(name=hook.name, command=hook.command) for hook in config.hooks if hook.command)


def _marks(this: Pass, promise: str) -> Mapping[str, str]:
    """What an agent, or a script that it is, may want to know from its environment."""
    return {
        "RALPH_TASK": this.task.id,
        "RALPH_STAGE": this.stage,
        "RALPH_ATTEMPT": str(this.attempt),
        "RALPH_ITERATION": str(this.number),
        "RALPH_PROMISE": promise,
        "RALPH_AGENT": this.member.agent.name,
    }
