"""`ralph doctor`: whether a run could start here and what to do where it could not."""

from collections.abc import Iterable
from pathlib import Path

import click

from rulebook_ralph import __version__, config
from rulebook_ralph.app import App
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.commands.interrupting import interruptible
from rulebook_ralph.commands.trusting import refused_at
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.printable import printable
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.loop.diagnosis import diagnosis
from rulebook_ralph.loop.diagnosis.diagnosis import Diagnosis
from rulebook_ralph.loop.diagnosis.examination import examine
from rulebook_ralph.loop.diagnosis.place import Settings, place, root_of

_SHOWN = {"ok": "ok", "warning": "warning", "wrong": "WRONG", "unknown": "?"}


@click.command()
@click.option("--no-gates", is_flag=True, help="Do not run the gates.")
@click.option("--trust-commands", is_flag=True, help="Run what is configured without 'ralph trust': for CI.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def command(app: App, *, no_gates: bool, trust_commands: bool, json: bool) -> int:
    """Look at all that a run needs: git, the state, the agents and their logins, the lock, the disk; run the gates
    once. Changes nothing, but for what a gate does.

    Each line is ok, a warning, WRONG (a run would not start, or complete nothing), or ? where it cannot be told. Ends
    with 0 when nothing is wrong, else with the exit code that a run would have: 2, 3 for the gates, 5 for an agent.
    """
    root = root_of(app.cwd, app.environment)
    found = place(root, app.cwd, _settings(app, root, trusted=trust_commands), app.environment, app.home)
    told: list[tuple[str, Diagnosis]] = []
    with app.console(json=json) as console, interruptible() as cancelled:
        try:
            for group, matters in examine(found, version=__version__, gates=not no_gates, cancelled=cancelled):
                if cancelled.is_set():
                    return ExitCode.INTERRUPTED
                if not json:
                    console.line(group)
                for matter in matters:
                    told.append((group, matter))
                    if not json:
                        console.line(printable(f"  {_SHOWN[matter.state]:<8} {matter}"))
        except Cancelled:
            return ExitCode.INTERRUPTED
        code = diagnosis.exit_code(matter for _, matter in told)
        if json:
            console.json(_as_json(told, code))
        else:
            console.line(_summary(matter for _, matter in told))
    return code


def _settings(app: App, root: Path | None, *, trusted: bool) -> Settings:
    """The configuration as a run reads it, or all that is wrong with it, so that nothing of it is run."""
    files = [config.user_config(app.environment, app.home)]
    if root is not None:
        files.append(root / config.PROJECT_CONFIG)
    irregular = [str(file) for file in files if file.exists() and not file.is_file()]
    if irregular:
        return Settings(None, problems=tuple(f"{file} is no regular file" for file in irregular))
    problems = [*config.user_problems(app.environment, app.home), *(config.project_problems(root) if root else ())]
    if problems:
        return Settings(None, problems=tuple(map(str, problems)))
    try:
        loaded = config.load_with_origins(root, environment=app.environment, home=app.home)
    except RalphError as error:
        return Settings(None, problems=(str(error),))
    if root is not None and not trusted and (refused := refused_at(app, root, loaded)):
        return Settings(None, problems=(refused,))
    variables = sorted({origin for origin in loaded.origins.values() if origin.startswith("RALPH_")})
    told = (loaded.chosen_executor,) if loaded.chosen_executor else ()
    return Settings(loaded.config, (*map(str, loaded.files), *variables, *told))


def _summary(matters: Iterable[Diagnosis]) -> str:
    states = [matter.state for matter in matters]
    wrong, warnings = states.count("wrong"), states.count("warning")
    beside = f"; {counted(warnings, 'warning')}" if warnings else ""
    if not wrong:
        return f"nothing is wrong{beside}"
    return f"{wrong} {'matter is' if wrong == 1 else 'matters are'} wrong{beside}"


def _as_json(told: list[tuple[str, Diagnosis]], code: ExitCode) -> dict[str, object]:
    return {
        "success": code == ExitCode.OK,
        "exitCode": int(code),
        "diagnoses": [
            {"group": group, "state": matter.state, "text": matter.text, "advice": matter.advice}
            for group, matter in told
        ],
    }
