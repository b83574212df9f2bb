"""`ralph verify`: the verdict on the tree as it stands, with no agent, for people and CI."""

import click

from rulebook_ralph.cli.app import App, interruptible, trust_commands
from rulebook_ralph.cli.places import open_project
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.run import verifying
from rulebook_ralph.run.verifying import VerifyOutcome
from rulebook_ralph.tasks.edits import find
from rulebook_ralph.tasks.model import Prd, Task, Value
from rulebook_ralph.tasks.prd_file import read_prd
from rulebook_ralph.tasks.results import CheckResult, feedback_excerpt
from rulebook_ralph.tasks.struct_reading import camel


@click.command()
@click.argument("task_ids", nargs=-1, metavar="[TASK…]")
@trust_commands
@click.option("--json", is_flag=True, help="Print one JSON object; the rest goes to stderr.")
@click.pass_obj
def verify_command(app: App, task_ids: tuple[str, ...], *, trust_commands: bool, json: bool) -> int:
    """Run the gates, and the criteria of each TASK, on the tree as it stands; no agent works, nothing is committed.

    Without a TASK the criteria of all completed tasks are verified, those aside that a model judges. Exit code 3 says
    that something does not hold.
    """
    opened = open_project(app)
    prd = read_prd(opened.project.folder.prd)
    chosen = _chosen(prd, task_ids)
    require_agreed(app, opened, trusted=trust_commands)
    with app.console(json=json) as console, interruptible() as cancelled:
        with verifying.tools(opened.project, report=console.report, cancelled=cancelled) as tools:
            outcome = verifying.verify(opened.project, tools.verifiers, chosen, with_models=bool(task_ids))
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
        mark = "-" if stage.left_out else "✘" if stage.failed else "✔"
        why = f": not verified, {stage.left_out}" if stage.left_out else ""
        why = f": {stage.verified.reason}" if stage.failed and not stage.verified.results else why
        console.line(f"{mark} {stage.task_id} ({stage.stage}){why}")
        for result in stage.verified.results:
            if not result.passed and result.method != "multi_stage":
                console.line(f"    {result.step}: {result.reason}{'' if result.required else ' (a warning only)'}")
                _tell_output(console, result)
        for warning in stage.verified.warnings:
            console.line(f"    warning: {warning}")
    if outcome.passed:
        console.line("verified: everything that was run holds")
        return
    failed = [f"gate {result.step}" for result in outcome.gates if not result.passed and result.required]
    failed += [f"{stage.task_id} ({stage.stage})" for stage in outcome.stages if stage.failed]
    console.line(f"not verified: {', '.join(failed) or 'nothing that was run passed'}")


def _tell_output(console: Console, result: CheckResult) -> None:
    told = "" if result.output.strip() in result.reason else feedback_excerpt(result.output, head=5, tail=25)
    for line in told.splitlines():
        console.line(f"      {line}".rstrip())


def _as_json(outcome: VerifyOutcome) -> dict[str, object]:
    return {
        "success": outcome.passed,
        "gates": list(map(_whole, outcome.gates)),
        "stages": [
            {
                "taskId": stage.task_id,
                "stage": stage.stage,
                "passed": None if stage.left_out else stage.verified.passed,
                "reason": stage.left_out or stage.verified.reason,
                "checks": list(map(_whole, stage.verified.results)),
                "warnings": stage.verified.warnings,
            }
            for stage in outcome.stages
        ],
    }


def _whole(value: Value) -> dict[str, object]:
    """All its fields, also those that are as usual."""
    whole = {camel(name): getattr(value, name) for name in value.__struct_fields__}
    return whole | {"findings": list(map(_whole, whole["findings"]))} if "findings" in whole else whole
