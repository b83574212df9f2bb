"""`ralph history` and `ralph show N`: the iterations so far, one line each; one of them whole."""

import click
import msgspec

from rulebook_ralph.cli.app import App
from rulebook_ralph.cli.places import open_project, open_root, state_folder
from rulebook_ralph.errors import RalphError
from rulebook_ralph.report.console import Console
from rulebook_ralph.tasks import history, text
from rulebook_ralph.tasks.iteration import Iteration
from rulebook_ralph.tasks.results import CheckResult, Evidence
from rulebook_ralph.tasks.review import Review
from rulebook_ralph.tasks.text import counted, some

STYLES = {
    "result": {"completed": "green", "verified": "cyan", "failed": "yellow", "blocked": "red", "limited": "yellow"}
    | {"executing": "bold", "judged": "bold"},
}


@click.command("history")
@click.option("--task", metavar="ID", help="Only the iterations of this task.")
@click.option("--limit", "-n", type=click.IntRange(min=1), default=20, show_default=True, help="The newest N.")
@click.option("--json", is_flag=True, help="Print one JSON object.")
@click.pass_obj
def history_command(app: App, *, task: str | None, limit: int, json: bool) -> int:
    """The iterations so far, the newest last."""
    folder = state_folder(app)
    shown: list[Iteration] = []
    numbers = history.numbers(folder)
    for number in reversed(numbers):
        record = history.read(folder, number)
        if task is None or task in record.tasks:
            shown.append(record)
        if len(shown) == limit:
            break
    shown.reverse()
    with app.console(json=json, paged=True) as console:
        if json:
            console.json({"iterations": [_brief(record) for record in shown]})
        elif shown:
            console.table(
                ("", "task", "stage", "attempt", "result", "time", "cost", "why"), map(_row, shown), styles=STYLES
            )
            if len(numbers) < numbers[-1]:
                console.line(f"kept: {len(numbers)} of {counted(numbers[-1], 'iteration')}; the others were pruned")
        else:
            console.line("no iterations yet; 'ralph run' starts")
    return 0


def _row(record: Iteration) -> tuple[str, ...]:
    completed = bool(record.tasks_completed)
    return (
        f"#{record.iteration_number}",
        record.names,
        record.stage,
        str(record.attempt),
        result_of(record),
        text.duration(record.duration_ms / 1000),
        "" if record.cost_usd is None else text.money(record.cost_usd),
        (record.commit or "")[:10] if completed else _why(record),
    )


def _why(record: Iteration) -> str:
    """What the result's word does not say already."""
    reason, result = record.verdict.reason if record.verdict else "", result_of(record)
    return "" if result in ("verified", reason) else reason


def result_of(record: Iteration) -> str:
    """How an iteration ended, in a word: a stage that holds is verified, only the last one completes the task."""
    between = record.completion_status == "completed" and not record.tasks_completed
    return "verified" if between else record.completion_status or record.phase


def _brief(record: Iteration) -> dict[str, object]:
    return {
        "iterationNumber": record.iteration_number,
        "taskId": record.task_id,
        "tasksAttempted": record.tasks,
        "stage": record.stage,
        "attempt": record.attempt,
        "phase": record.phase,
        "completionStatus": record.completion_status,
        "reason": record.verdict.reason if record.verdict else None,
        "startedAt": record.started_at,
        "endedAt": record.ended_at,
        "commit": record.commit,
        "costUsd": record.cost_usd,
        "durationMs": record.duration_ms,
    }


@click.command("show")
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.option("--prompt", "part", flag_value="prompt", help="The whole prompt the agent was given.")
@click.option("--output", "part", flag_value="output", help="What the agent said and did, as 'ralph logs N' tells it.")
@click.option("--raw", "part", flag_value="raw", help="The agent's whole output as it is.")
@click.option("--diff", "part", flag_value="diff", help="What the attempt changed, against its base.")
@click.option("--json", is_flag=True, help="Print the iteration's record.")
@click.pass_obj
def show_command(app: App, number: int, *, part: str | None, json: bool) -> int:
    """One iteration: what was asked, what the agent did, what Ralph found."""
    record = history.read(state_folder(app), number)
    with app.console(json=json, paged=part != "raw") as console:
        if json:
            console.json(msgspec.json.decode(history.encode(record)))
        elif part is None:
            _show(console, record)
        elif part in ("output", "raw"):
            _show_output(app, console, record, raw=part == "raw")
        else:
            console.verbatim(_part(app, record, part), diff=part == "diff")
    return 0


def _show_output(app: App, console: Console, record: Iteration, *, raw: bool) -> None:
    from rulebook_ralph.cli import logs  # noqa: PLC0415 - agents, not for the list

    project = open_project(app).project
    if raw:
        console.raw(logs.raw_output(project, record))
    else:
        logs.tell(console, project, record)


def _part(app: App, record: Iteration, part: str) -> str:
    if record.snapshot is None:
        if part == "prompt":
            return record.prompt
        raise RalphError(f"#{record.iteration_number} has no attempt to look at yet: its agent has not ended")
    from rulebook_ralph.git.repository import GitError  # noqa: PLC0415 - not for the list

    _, repository = open_root(app)
    try:
        if part == "diff":
            patch = repository.run("diff", "--no-ext-diff", "--no-textconv", record.base_commit, record.snapshot)
            return patch.decode("utf-8", "replace")
        return repository.run("cat-file", "blob", f"{record.snapshot}^2:prompt.md").decode("utf-8", "replace")
    except GitError:
        raise RalphError(
            f"the attempt of #{record.iteration_number} ({record.snapshot[:12]}) is not in this repository any more"
        ) from None


def _show_check(console: Console, check: CheckResult) -> None:
    how = f"{check.ending}: {check.reason}" if check.reason else check.ending
    label = "gate " if check.method == "gate" else "hook " if check.method == "hook" else "check"
    console.line(f"  {label}     {check.step}: {how} ({text.duration(check.duration_ms / 1000)})")
    for finding in check.findings:
        place = f" ({finding.file}:{finding.line})" if finding.file else ""
        console.line(f"            {'met' if finding.met else 'NOT met'}: {finding.criterion}{place}")


def _show_evidence(console: Console, evidence: Evidence) -> None:
    if evidence.turned:
        console.line(f"  proof     failed on the base and passes now: {some(evidence.turned)}")
    if evidence.broken:
        console.line(f"  changed   passed with the base's checks and fails now: {some(evidence.broken)}")
    for item in evidence.asked:
        place = f" ({item.file}:{item.line})" if item.file else ""
        answer = item.answer or "no answer"
        console.line(f"  asked     {item.item}: {answer}{f', {item.reason}' if item.reason else ''}{place}")
    if evidence.asked:
        console.line(f"            answered by: {evidence.judged_by or 'nobody'}")


def _show_review(console: Console, review: Review) -> None:
    for look in review.looks:
        why = f": {look.reason}" if look.reason else ""
        took = text.duration(look.duration_ms / 1000)
        console.line(f"  review    {look.tier} by {look.reviewer}: {look.decision}{why} ({took})")
    for issue in review.issues:
        console.line(f"            {issue.severity} {issue.place} ({issue.type}): {issue.description}")
    for name in review.not_reviewed:
        console.line(f"            not reviewed: {name}")


def _show(console: Console, record: Iteration) -> None:
    _show_head(console, record)
    for changed in record.changed_checks:
        reason = f": {changed.reason}" if changed.reason else ""
        console.line(f"  {changed.change:<9} {changed.path}, a check{reason}")
    for check in record.checks:
        _show_check(console, check)
    if record.evidence:
        _show_evidence(console, record.evidence)
    if record.review:
        _show_review(console, record.review)
    for line in record.log:
        console.line(f"  note      {line}")
    if record.files_changed:
        console.line(f"  files     {some(record.files_changed, 8)}")
    if record.parsed and record.parsed.summary:
        console.line(f"  claimed   {record.parsed.summary}")
    for learning in record.parsed.learnings if record.parsed else ():
        console.line(f"  learned   {learning}")
    if record.feedback:
        console.line("")
        console.line("Feedback to the next attempt:")
        console.verbatim(record.feedback)
    console.line("")
    console.line(f"More: ralph show {record.iteration_number} --prompt | --output | --diff | --json")


def _show_head(console: Console, record: Iteration) -> None:
    cost = "cost unknown" if record.cost_usd is None else text.money(record.cost_usd)
    console.line(f"#{record.iteration_number}: {record.names}, {record.stage}, attempt {record.attempt}")
    console.line(f"  result    {result_of(record)}")
    if (verdict := record.verdict) and verdict.reason != result_of(record):
        console.line(
            f"  verdict   {verdict.reason}" + (f" ({verdict.hook})" if verdict.hook not in ("", "judge") else "")
        )
    console.line(f"  agent     {record.agent}, {text.duration(record.duration_ms / 1000)}, {cost}")
    console.line(f"  started   {record.started_at}")
    console.line(f"  base      {record.base_commit[:12]}")
    if record.commit and record.tasks_completed:
        console.line(f"  commit    {record.commit[:12]}")
