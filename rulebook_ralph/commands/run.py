"""`ralph run`: work on the tasks until all is proven done or a stated limit ends it."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import click
from msgspec.structs import replace as replaced

from rulebook_ralph.app import App
from rulebook_ralph.cancellation import Cancellation
from rulebook_ralph.commands.durations import Duration
from rulebook_ralph.commands.interrupting import interruptible
from rulebook_ralph.commands.projects import bring_back_state, end_orphans, open_project, open_root
from rulebook_ralph.commands.trusting import adopt, require_agreed
from rulebook_ralph.core import events, policy, renewal
from rulebook_ralph.core.criteria import STAGES
from rulebook_ralph.core.redaction import cleaned
from rulebook_ralph.core.settings import MOST_WORKERS, Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop import notification, rehearsal, summary
from rulebook_ralph.loop.crew import Crew
from rulebook_ralph.loop.manager import Manager
from rulebook_ralph.loop.notification import Notifier
from rulebook_ralph.loop.options import RunOptions
from rulebook_ralph.loop.preflight_secrets import require_no_secret
from rulebook_ralph.state import lock
from rulebook_ralph.state.store import StateFolder


@dataclass(frozen=True, slots=True)
class Asked:
    """The options that `run` and `resume` have in common."""

    agent: str | None
    tasks: tuple[str, ...]
    max_iterations: int | None
    max_wall_time: float | None
    dry_run: bool
    json: bool
    quiet: bool
    trust_agent: bool
    retry_blocked: bool
    strict: bool
    on_limit: str | None
    trust_commands: bool = False
    watch: bool = False
    parallel: int | None = None
    isolated: bool = False


def options(*, retry_blocked: bool) -> Callable[[Callable[..., int]], Callable[..., int]]:
    """The options of `run` and `resume`; they differ in whether blocked tasks are tried again."""
    given = (
        click.option("--agent", metavar="ID", help="The agent to use, at every task and stage."),
        click.option("--task", "tasks", metavar="ID", multiple=True, help="Only this task; may be given again."),
        click.option("--max-iterations", type=click.IntRange(min=1), metavar="N", help="End after N iterations."),
        click.option("--max-wall-time", type=Duration(), metavar="TIME", help="End after TIME: 90s, 45m or 8h."),
        click.option(
            "--parallel",
            type=click.IntRange(min=1, max=MOST_WORKERS),
            metavar="N",
            help="Work on up to N tasks marked [P] at once, each in a checkout of its own.",
        ),
        click.option("--isolated", is_flag=True, help="Let agents work in a checkout of their own, not in your tree."),
        click.option("--dry-run", is_flag=True, help="Print the plan and the first prompt; touch nothing."),
        click.option("--json", is_flag=True, help="Print one JSON object at the end; the rest goes to stderr."),
        click.option("--quiet", "-q", is_flag=True, help="Only iteration ends, warnings and the end."),
        click.option("--trust-agent", is_flag=True, help="Go without any gate: believe the agent's word."),
        click.option(
            "--retry-blocked/--no-retry-blocked",
            default=retry_blocked,
            show_default=True,
            help="Try blocked tasks once more, after the pending ones.",
        ),
        click.option(
            "--on-limit",
            type=click.Choice(["wait", "stop", "fallback"]),
            help="At an agent's usage limit: wait until it resets, end, or go on with its fallback.",
        ),
        click.option(
            "--watch", is_flag=True, help="Stay afterwards, and start again when an edit gives something to do."
        ),
        click.option("--strict", is_flag=True, help="Refuse to start while a gate is red on the base."),
        click.option("--trust-commands", is_flag=True, help="Run what is configured without 'ralph trust': for CI."),
    )

    def decorate(function: Callable[..., int]) -> Callable[..., int]:
        for option in reversed(given):
            function = option(function)
        return function

    return decorate


@click.command()
@options(retry_blocked=True)
@click.pass_obj
def command(app: App, /, **given: object) -> int:
    """Work on the tasks of .rulebook-ralph/prd.json until all is proven done or a limit ends it.

    Ends with 0 when all is complete, 3 with blocked tasks, 4 at a limit, 5 when the agent cannot work, 130 after ^C.
    """
    return start(app, Asked(**given), command="run")  # type: ignore[arg-type]  # click gives what `options` names


def start(app: App, asked: Asked, *, command: str) -> int:
    """Run or rehearse; returns the exit code. Raises RalphError."""
    options = RunOptions(
        command=command,
        only=asked.tasks,
        retry_blocked=asked.retry_blocked,
        strict=asked.strict,
        trust_agent=asked.trust_agent,
        again=_again(asked),
    )
    with app.console(quiet=asked.quiet, json=asked.json) as console:
        if asked.dry_run:
            project = open_project(app, overrides=overrides(asked))
            Crew(project.config, project.environment).member(project.config.defaults.executor)
            rehearsed = rehearsal.rehearse(project, options)
            if asked.json:
                console.json(rehearsal.as_json(rehearsed))
            else:
                console.verbatim(rehearsal.as_text(rehearsed))
            return 0
        try:
            if asked.watch:
                from rulebook_ralph.commands import watching  # noqa: PLC0415 - only for a watch

                ended = watching.watch(app, asked, options, console.report)
            else:
                with interruptible() as cancelled:
                    ended = run_once(app, asked, options, console.report, cancelled)
        except RalphError as error:
            if asked.json:
                console.json(summary.refused_as_json(str(error)))
            raise
        if asked.json:
            console.json(summary.as_json(ended))
        return summary.exit_code(ended)


def run_once(
    app: App,
    asked: Asked,
    options: RunOptions,
    report: Callable[[events.Event], None],
    cancelled: Cancellation,
    *,
    spent: policy.RunTally = policy.RunTally(),  # noqa: B008 - frozen
    begins: Callable[[Manager], None] = lambda _: None,
) -> events.RunEnded:
    """Under the project's lock: the state is mended after a dead run before its configuration is believed; then run.

    `spent` is what other runs have used of the same limits; `begins` is told of the run. Raises RalphError.
    """
    opened = root, repository = open_root(app)

    def warn(text: str) -> None:
        report(events.Notice("warning", text))

    notifier = Notifier(StateFolder(root), app.environment, warn=warn)
    held = lock.held_for_run(repository.lock_file, since=app.clock.iso(), command=options.command)
    with notifier, held as (died, put_back_lock):
        if died is not None:
            end_orphans(died, report, within=(repository.root, repository.git_folder))
        bring_back_state(app, opened, report, command=options.command)
        project = open_project(app, overrides=overrides(asked), opened=opened)
        tips = require_agreed(app, project, trusted=asked.trust_commands)

        def reread() -> Config:
            edited = open_project(app, overrides=overrides(asked), opened=opened)
            require_agreed(app, edited, trusted=asked.trust_commands, tips=tips)
            return _within(edited.config, spent)

        config = _within(project.config, spent)
        limited = replace(project, config=config, reread=reread, put_back_lock=put_back_lock)
        crew = Crew(limited.config, project.environment)
        require_no_secret(project, crew)

        def told(event: events.Event) -> None:
            event = cleaned(event, manager.redactor.clean_cut)
            report(event)
            notifier.heard(event, manager.config.notify, manager.redactor.clean)

        for problem in notification.problems(limited.config.notify, app.environment):
            warn(str(problem))
        manager = Manager(limited, crew, options, report=told, clock=app.clock, cancelled=cancelled)
        begins(manager)
        ended = manager.run(after_death=died is not None)
        adopt(app, project, tips)
        return cleaned(ended, manager.redactor.clean_cut)


def _within(config: Config, spent: policy.RunTally) -> Config:
    return replaced(config, limits=renewal.limits_left(config.limits, spent))


def _again(asked: Asked) -> str:
    parallel = f" --parallel {asked.parallel}" if asked.parallel else ""
    return f"ralph resume{parallel}{' --isolated' if asked.isolated else ''}"


def overrides(asked: Asked) -> dict[str, object]:
    """The configuration that the command line gives."""
    limits = {"maxRunWallTime": asked.max_wall_time, "maxIterations": asked.max_iterations, "onLimit": asked.on_limit}
    roles = {role: {"executor": asked.agent} for role in STAGES}  # what is asked for here wins over every role's own
    return {
        "limits": limits,
        "defaults": {"executor": asked.agent},
        "ralph": {"agents": roles},
        "parallel": {"workers": asked.parallel},
        "git": {"workspace": "isolated" if asked.isolated else None},
    }
