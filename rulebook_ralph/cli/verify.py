"""`ralph verify`: the verdict on the tree as it stands, with no agent, for people and CI."""

import click

from rulebook_ralph.cli.app import App, interruptible, trust_commands
from rulebook_ralph.cli.places import open_project
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import verifying
from rulebook_ralph.run.verifying import StageVerdict, VerifyOutcome
from rulebook_ralph.tasks.edits import find
from rulebook_ralph.tasks.model import Prd, Task
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.results import CheckResult, feedback_excerpt
from rulebook_ralph.verify.workspace import Cancelled


@click.command()
@click.argument("task_ids", nargs=-1, metavar="[TASK…]")
@trust_commands
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr.")
@click.pass_obj
def command(app: App, task_ids: tuple[str, ...], *, trust_commands: bool, json: bool) -> int:
    """Run the gates, and the criteria of each TASK, on the tree as it stands; no agent works, nothing is committed.

    Without a TASK the criteria of all completed tasks are verified, those aside that a model judges. Exit code 3 says
    that something does not hold.
    """
    opened = open_project(app)
    prd = read_prd(opened.project.folder.prd)
    chosen = _chosen(prd, task_ids)
    require_agreed(app, opened, trusted=trust_commands)
    with app.console(json=json) as console, interruptible() as cancelled:
        try:
            with verifying.tools(opened.project, report=console.report, cancelled=cancelled) as tools:
                outcome = verifying.verify(opened.project, tools.verifiers, chosen, with_models=bool(task_ids))
        except Cancelled:
            return ExitCode.INTERRUPTED
        if outcome.is_empty:
            raise RalphError("nothing to verify: no gate is configured, and no task that was asked for has criteria")
        if json:
            console.json(_as_json(outcome))
        else:
            _tell(console, outcome)
    return ExitCode.OK if outcome.passed else ExitCode.BLOCKED


def _chosen(prd: Prd, task_ids: tuple[str, ...]) -> tuple[Task, ...]:
    if task_ids:
        return tuple(find(prd, task_id) for task_id in dict.fromkeys(task_ids))
    return tuple(task for task in prd.tasks if task.status == "completed")


def _tell(console: Console, outcome: VerifyOutcome) -> None:
    for gate in outcome.gates:
        if not gate.passed and gate.output:
            console.line(f"output of the gate {gate.step}:")
            _tell_output(console, gate)
    for stage in outcome.stages:
        console.line(f"{_mark(stage)} {stage.task_id} ({stage.stage}){_why(stage)}")
        for result in stage.verified.results:
            if not result.passed and result.method != "multi_stage":
                console.line(f"    {result.step}: {result.reason}{'' if result.required else ' (a warning only)'}")
                _tell_output(console, result)
        for warning in stage.verified.warnings:
            console.line(f"    warning: {warning}")
    red = [result.step for result in outcome.gates if not result.passed and result.required]
    failed = [f"{stage.task_id} ({stage.stage})" for stage in outcome.stages if stage.failed]
    if outcome.passed:
        console.line("verified: everything that was run holds")
    else:
        names = ", ".join([*(f"gate {name}" for name in red), *failed])
        console.line(f"not verified: {names or 'nothing that was run passed'}")


def _tell_output(console: Console, result: CheckResult) -> None:
    told = "" if result.output.strip() in result.reason else feedback_excerpt(result.output, head=5, tail=25)
    for line in told.splitlines():
        console.line(f"      {line}".rstrip())


def _mark(stage: StageVerdict) -> str:
    return "-" if stage.left_out else "✘" if stage.failed else "✔"


def _why(stage: StageVerdict) -> str:
    if stage.left_out:
        return f": not verified, {stage.left_out}"
    return f": {stage.verified.reason}" if stage.failed and not stage.verified.results else ""


def _as_json(outcome: VerifyOutcome) -> dict[str, object]:
    return {
        "success": outcome.passed,
        "gates": [_check(result) for result in outcome.gates],
        "stages": [
            {
                "taskId": stage.task_id,
                "stage": stage.stage,
                "passed": None if stage.left_out else stage.verified.passed,
                "reason": stage.left_out or stage.verified.reason,
                "checks": [_check(result) for result in stage.verified.results],
                "warnings": list(stage.verified.warnings),
            }
            for stage in outcome.stages
        ],
    }


def _check(result: CheckResult) -> dict[str, object]:
    return {
        "step": result.step,
        "method": result.method,
        "command": result.command,
        "passed": result.passed,
        "required": result.required,
        "exitCode": result.exit_code,
        "reason": result.reason,
        "output": result.output,
        "durationMs": result.duration_ms,
        "flaky": result.flaky,
        "attempts": result.attempts,
        "findings": [
            {"criterion": each.criterion, "met": each.met, "reason": each.reason, "file": each.file, "line": each.line}
            for each in result.findings
        ],
    }
