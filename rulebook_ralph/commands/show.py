"""`ralph show N`: one iteration, whole: verdict, gates, feedback; or its prompt, output or diff."""

import click
import msgspec

from rulebook_ralph.app import App
from rulebook_ralph.commands.history import result_of
from rulebook_ralph.commands.projects import open_root
from rulebook_ralph.commands.state_folders import state_folder
from rulebook_ralph.console import Console
from rulebook_ralph.core import amounts
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import CheckResult, Iteration
from rulebook_ralph.core.review import Review
from rulebook_ralph.errors import RalphError
from rulebook_ralph.state import codec, history
from rulebook_ralph.workspace import commits
from rulebook_ralph.workspace.git import GitError


@click.command()
@click.argument("number", type=click.IntRange(min=1), metavar="N")
@click.option("--prompt", "part", flag_value="prompt", help="The whole prompt the agent was given.")
@click.option("--output", "part", flag_value="output", help="The agent's whole raw output.")
@click.option("--diff", "part", flag_value="diff", help="What the attempt changed, against its base.")
@click.option("--json", is_flag=True, help="Print the iteration's record.")
@click.pass_obj
def command(app: App, number: int, *, part: str | None, json: bool) -> int:
    """One iteration: what was asked, what the agent did, what Ralph found."""
    record = history.read(state_folder(app), number)
    with app.console(json=json) as console:
        if json:
            console.json(msgspec.json.decode(codec.encode_iteration(record)))
        elif part is None:
            _tell(console, record)
        else:
            console.verbatim(_part(app, record, part))
    return 0


def _part(app: App, record: Iteration, part: str) -> str:
    if record.snapshot is None:
        if part == "prompt":
            return record.prompt
        raise RalphError(f"iteration {record.iteration_number} has no snapshot yet: its agent has not ended")
    _, repository = open_root(app)
    try:
        if part == "diff":
            patch = repository.git.raw("diff", "--no-ext-diff", record.base_commit, record.snapshot)
            return patch.decode("utf-8", "replace")
        name = "prompt.md" if part == "prompt" else "output.log"
        return commits.file_of_snapshot(repository, record.snapshot, name).decode("utf-8", "replace")
    except GitError:
        raise RalphError(
            f"the snapshot {record.snapshot[:12]} of iteration {record.iteration_number} is not in this repository"
        ) from None


def _tell_check(console: Console, check: CheckResult) -> None:
    how = f"{check.ending}: {check.reason}" if check.reason else check.ending
    label = "gate " if check.method == "gate" else "hook " if check.method == "hook" else "check"
    console.line(f"  {label}     {check.step}: {how} ({amounts.duration(check.duration_ms / 1000)})")
    for finding in check.findings:
        place = f" ({finding.file}:{finding.line})" if finding.file else ""
        console.line(f"            {'met' if finding.met else 'NOT met'}: {finding.criterion}{place}")


def _tell_review(console: Console, review: Review) -> None:
    for look in review.looks:
        why = f": {look.reason}" if look.reason else ""
        took = amounts.duration(look.duration_ms / 1000)
        console.line(f"  review    {look.tier} by {look.reviewer}: {look.decision}{why} ({took})")
    for issue in review.issues:
        console.line(f"            {issue.severity} {issue.place} ({issue.type}): {issue.description}")
    for name in review.not_reviewed:
        console.line(f"            not reviewed: {name}")


def _tell(console: Console, record: Iteration) -> None:
    cost = "" if record.cost_usd is None else f", {amounts.money(record.cost_usd)}"
    verdict = record.verdict
    console.line(f"Iteration {record.iteration_number}: {record.names}, {record.stage}, attempt {record.attempt}")
    console.line(f"  result    {result_of(record)}")
    if verdict is not None:
        console.line(f"  verdict   {verdict.reason}" + (f" ({verdict.hook})" if verdict.hook else ""))
    console.line(f"  agent     {record.agent}, {amounts.duration(record.duration_ms / 1000)}{cost}")
    console.line(f"  started   {record.started_at}")
    console.line(f"  base      {record.base_commit[:12]}")
    if record.commit and record.tasks_completed:
        console.line(f"  commit    {record.commit[:12]}")
    for check in record.checks:
        _tell_check(console, check)
    if record.review:
        _tell_review(console, record.review)
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
