"""Completion hooks: commands of the user's own (`hooks[]`), and the repository's own commit hooks.

A hook can ask for another attempt, or stop; never complete. It reads what is known of the attempt as one JSON object
(schemas/hook-input.schema.json) on its standard input, in a clone in which the candidate's tree stands.
"""

import json
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from rulebook_ralph.config.settings import Hook
from rulebook_ralph.errors import RalphError
from rulebook_ralph.git.diff import FileDiff
from rulebook_ralph.process import supervisor
from rulebook_ralph.process.streams import HeadTail
from rulebook_ralph.report.events import Notice
from rulebook_ralph.tasks.model import Value
from rulebook_ralph.tasks.results import CheckResult, StopReason, Usage, Verdict, feedback_excerpt
from rulebook_ralph.tasks.text import clipped, printable_block
from rulebook_ralph.verify.case import Case, Examination, again
from rulebook_ralph.verify.rules import is_promised

LONGEST_ANSWER = 256 * 1024
"""Bytes of standard output; a hook that prints more is ended."""
STOP_REASONS: tuple[StopReason, ...] = ("blocked", "cancelled", "paused", "error")
"""Why a user's hook may stop. Another reason stops the task as an error with that text."""
GATES_PRIORITY = 50
"""Hooks of a higher priority are asked after the gates, and told of their results."""
RULES = frozenset(
    (
        *("agent", "work", "protect", "secrets", "blocked", "gates", "evidence", "stop-criteria", "promise"),
        *("criteria", "review", "commit", "merge"),
    )
)
"""Names of the judge's own rules: a verdict that bears one means that rule."""

VERSION = 1
MOST_FILES = 1000
LONGEST_MESSAGE = 200_000

_AGAIN = 2
_CUT = "\n… left out …\n"
_GATE_KEYS = ("step", "kind", "command", "passed", "required", "exitCode", "reason", "output", "durationMs")


class _NoAnswer(Exception):  # noqa: N818 - what the hook did, in one line
    """What the hook answered is no answer, so nobody knows what it thinks."""


def user_hooks(hooks: Sequence[Hook]) -> tuple[Hook, ...]:
    """The configured hooks by their priority. Raises RalphError for one that is wrongly configured."""
    seen: set[str] = set()
    for hook in hooks:
        if not hook.command.strip():
            raise RalphError(f"hooks: '{hook.name}' needs a `command`")
        if hook.name in RULES or hook.name in seen or not hook.name.strip():
            raise RalphError(f"hooks: the name '{hook.name}' is taken or empty; give the hook another one")
        seen.add(hook.name)
    return tuple(sorted(hooks, key=lambda hook: hook.priority))


def hooks_before_gates(case: Case, examination: Examination) -> Verdict | None:
    """What the user's hooks say that need not know of the gates."""
    hooks = (each for each in examination.verifiers.hooks if each.priority <= GATES_PRIORITY)
    return _ask_all(hooks, case, examination, None)


def hooks_after_gates(case: Case, examination: Examination) -> Verdict | None:
    """What the user's hooks of a priority above the gates' say."""
    hooks = [each for each in examination.verifiers.hooks if each.priority > GATES_PRIORITY]
    return _ask_all(hooks, case, examination, examination.gate_results()) if hooks else None


def _ask_all(
    hooks: Iterable[Hook], case: Case, examination: Examination, gates: Sequence[CheckResult] | None
) -> Verdict | None:
    """The first verdict of a hook. One that fails is passed over, unless it is required; one that answers nonsense
    leaves the attempt unaccepted. Raises Cancelled.
    """
    for each in hooks:
        wrong, verdict = "", None
        try:
            verdict = _asked(each, case, examination, gates)
        except (_NoAnswer, RalphError) as fault:
            has_answered = isinstance(fault, _NoAnswer)
            wrong = str(fault) if has_answered else f"failed: {fault}"
            verdict = _not_accepted(each.name, wrong) if has_answered or each.required else None
            examination.log.append(f"hook {each.name}: {wrong}")
            examination.verifiers.report(Notice("warning", f"the hook '{each.name}' {wrong}"))
        examination.checks.append(
            CheckResult(
                step=each.name,
                method="hook",
                command=each.command,
                passed=verdict is None and not wrong,
                required=each.required,
                reason=verdict.reason if verdict else wrong,
            )
        )
        if verdict is not None:
            return verdict
    return None


def _not_accepted(name: str, why: str) -> Verdict:
    return again(
        name,
        f"the hook '{name}' gave no verdict, so the attempt is not accepted: it {why}",
        f"The hook '{name}' of this project could not say whether the work is done, which is not your doing (it {why})"
        ". If it is done, leave it; say so again.",
        counts=False,
    )


def _asked(hook: Hook, case: Case, examination: Examination, gates: Sequence[CheckResult] | None) -> Verdict | None:
    """What a hook's command answers. Raises _NoAnswer, RalphError and Cancelled."""
    runner, clean = examination.verifiers.gates, examination.verifiers.redactor.clean
    output = bytearray()

    def collect(block: bytes) -> None:
        output.extend(block)
        if len(output) > LONGEST_ANSWER:
            raise _NoAnswer(f"printed more than {LONGEST_ANSWER} bytes")

    with runner.stand(case.tree) as place:
        own = {"RALPH_TASK": case.task.id, "RALPH_STAGE": case.stage}
        known = hook_input(case, examination, root=place.inside, gates=gates)
        ended = place.run(
            [hook.command],
            {**place.environment(runner.environment), **own, **hook.env},
            limits=supervisor.ProcessLimits(wall_time=hook.timeout),
            on_output=collect,
            cancelled=examination.verifiers.cancelled,
            stdin=json.dumps(known).encode(),  # ASCII: an agent's lone surrogates survive it
            merge_stderr=False,
        )
    if ended.failure is not None:
        raise RalphError(f"could not start: {ended.failure.message}")
    if ended.killed_by is not None:
        raise RalphError(f"did not end within {hook.timeout:g} s")
    said = printable_block(clean(ended.stderr_tail)).strip()
    if ended.exit_code == _AGAIN:
        return _again(hook.name, said)
    if ended.exit_code != 0:
        words = f": {clipped(said.splitlines()[-1])}" if said else ""
        raise RalphError(f"ended with exit code {ended.exit_code}{words}")
    return _read(hook.name, bytes(output), clean) if output.strip() else None


def _read(name: str, output: bytes, clean: Callable[[str], str]) -> Verdict | None:
    try:
        answer = json.loads(output.decode("utf-8", "replace"))  # unlike msgspec's it takes lone surrogates
    except (RecursionError, ValueError) as error:
        raise _NoAnswer(f"printed what is no JSON: {clipped(clean(str(error)))}") from error
    if not isinstance(answer, dict):
        raise _NoAnswer("printed JSON that is no object")
    said = {
        "reason": _text(answer, "reason") or _text(answer, "stopReason"),
        "message": _text(answer, "message") or _text(answer, "stopMessage") or _messages(answer.get("nextMessages")),
    }
    words = {key: printable_block(clean(text)).strip() for key, text in said.items()}
    match answer.get("action"):
        case "skip":
            return None
        case "continue":
            return _again(name, words["message"], words["reason"])
        case "stop":
            return _stopped(name, words["reason"] or "blocked", words["message"])
        case "complete":
            raise _NoAnswer("answered with the action 'complete': no hook can complete a task")
        case other:
            named = clipped(clean(repr(other)))
            raise _NoAnswer(f"answered with the action {named}, not skip, continue or stop")


def _text(answer: Mapping[str, Any], key: str) -> str:
    value = answer.get(key)
    if not isinstance(value, str | None):
        raise _NoAnswer(f"answered with a `{key}` that is no text")
    return value or ""


def _messages(value: Any) -> str:
    """The texts of messages for the next attempt: strings, or objects with `content`, `parts` or `text`."""
    match value:
        case None | str():
            return value or ""
        case list():
            return "\n".join(filter(None, map(_messages, value)))
        case dict():
            return _messages(value.get("content") or value.get("parts") or value.get("text"))
        case _:
            raise _NoAnswer("answered with `nextMessages` that are no messages")


def _again(name: str, feedback: str, reason: str = "") -> Verdict:
    """Another attempt, with what the hook says."""
    said = feedback or reason
    line = clipped(reason or said.partition("\n")[0]) or "it gave no reason"
    return again(
        name,
        f"the hook '{name}' asks for another attempt: {line}",
        f"The hook '{name}' of this project asks for another attempt:\n{feedback_excerpt(said or line)}",
    )


def _stopped(name: str, reason: str, message: str) -> Verdict:
    """The end of the task (blocked) or of the run. A reason that is none of those known is an error with that text.

    Only a blocked attempt counts.
    """
    known = next((each for each in STOP_REASONS if each == reason), None)
    said = message if known else f"{reason}: {message}" if message else reason
    line = clipped(said.partition("\n")[0]) or "it gave no reason"
    return Verdict(
        action="stop",
        hook=name,
        reason=f"the hook '{name}' says: {line}",
        feedback=f"The hook '{name}' of this project ended it ({reason}):\n{feedback_excerpt(said or line)}",
        stop_reason=known or "error",
        counts=known == "blocked",
    )


# What a hook is told


def hook_input(
    case: Case, examination: Examination, *, root: Path, gates: Sequence[CheckResult] | None
) -> dict[str, Any]:
    """What is known of the attempt as one JSON object, capped. `gates` is null in it where they have not been run."""
    result, diff = case.result, examination.diff()
    said, half = result.final_text if result else "", LONGEST_MESSAGE // 2
    return {
        "version": VERSION,
        "root": str(root),
        "taskId": case.task.id,
        "title": case.task.title,
        "acceptanceCriteria": list(case.task.acceptance_criteria),
        "stage": case.stage,
        "attempt": case.attempt,
        "iterationNumber": case.iteration,
        "agent": result.agent if result else "",
        "agentStatus": result.status if result else "finished",
        "promise": case.criteria[0].criteria.promise,
        "promiseGiven": result is not None and is_promised(case),
        "finalMessage": said if len(said) <= LONGEST_MESSAGE else said[:half] + _CUT + said[-half:],
        "toolResults": [_whole(tool) for tool in result.tool_results] if result else [],
        "parsed": _whole(case.parsed),
        "filesChanged": [file.path for file in diff[:MOST_FILES]],
        "filesChangedCount": len(diff),
        "diffStat": [_stat(file) for file in diff[:MOST_FILES]],
        "gates": None if gates is None else [{key: _whole(each)[key] for key in _GATE_KEYS} for each in gates],
        "usage": _whole(result.usage if result else Usage()),
        "costUsd": result.cost_usd if result else None,
        "durationMs": result.duration_ms if result else 0,
    }


def _stat(file: FileDiff) -> dict[str, Any]:
    counts = {"added": len(file.added), "removed": len(file.removed)}
    return {"path": file.path, "kind": file.kind, "oldPath": file.old_path, **counts, "binary": file.binary}


def _whole(value: Value) -> dict[str, Any]:
    """A value with all its keys, also those that a file would leave out."""
    return {
        field.encode_name: msgspec.to_builtins(getattr(value, field.name)) for field in msgspec.structs.fields(value)
    }


# The repository's own commit hooks, run on the candidate as git would run them

_COMMIT_HOOKS = ("pre-commit", "commit-msg")
_COMMIT_LIMITS = supervisor.ProcessLimits(wall_time=900)
_RUN_COMMIT_HOOKS = """
cat > .git/COMMIT_EDITMSG && git read-tree "$1" && git update-index -q --refresh
shift
for hook; do
  case $hook in */commit-msg) set -- .git/COMMIT_EDITMSG;; *) set --;; esac
  "$hook" "$@" || { code=$?; echo; echo "the ${hook##*/} hook refused it (exit code $code)"; exit 1; }
done
"""
"""Has the index hold the candidate first, in the sandbox: nothing is written into a gate's clone from outside."""


def commit_is_taken(case: Case, examination: Examination) -> Verdict | None:
    """`pre-commit` and `commit-msg` let the commit of a completed task pass. Raises Cancelled, GitError."""
    if not case.last_stage or not examination.diff():
        return None  # there is no commit
    folder = examination.verifiers.repository.hooks_folder()
    hooks = [path for name in _COMMIT_HOOKS if (path := folder / name).is_file() and os.access(path, os.X_OK)]
    problem = _refusal(case, examination, hooks) if hooks else None
    if problem is None:
        return None
    reason = f"the commit was refused: {clipped(problem.splitlines()[0])}"
    return again("commit", reason, f"The repository's own hooks refused the commit:\n{feedback_excerpt(problem)}")


def _refusal(case: Case, examination: Examination, hooks: Sequence[Path]) -> str | None:
    """Which hook refuses, and what it prints; None where all agree. Raises Cancelled."""
    verifiers, output = examination.verifiers, HeadTail(head=8192, tail=16384)
    own = {"GIT_INDEX_FILE": ".git/index", "GIT_EDITOR": ":", "GIT_PREFIX": ""}
    try:
        with verifiers.gates.stand(case.tree) as stand:
            place = stand
            if place.box is not None:  # the user's hooks, where they are outside of it
                folder = hooks[0].parent
                read_only = (*place.box.read_only, (folder.resolve(), folder))
                place = replace(place, box=replace(place.box, read_only=read_only))
            ended = place.run(
                [_RUN_COMMIT_HOOKS, "sh", case.tree, *map(str, hooks)],
                {**place.environment(verifiers.gates.environment), **own},
                limits=_COMMIT_LIMITS,
                on_output=output.feed,
                cancelled=verifiers.cancelled,
                stdin=verifiers.commit_message(case).encode(),
            )
    except RalphError as error:
        return f"the hooks could not be run: {error}"
    if ended.exit_code == 0:
        return None
    told = verifiers.redactor.clean(output.text()).strip().splitlines() or ["no reason was given"]
    late = f"the hooks did not end within {_COMMIT_LIMITS.wall_time:g} s" if ended.killed_by else ""
    first = late or (ended.failure.message if ended.failure else told.pop())
    return "\n".join([first, *told]).strip()
