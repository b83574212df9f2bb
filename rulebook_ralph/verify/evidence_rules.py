"""Rules of the judge that run something, or ask: a change, the gates, and what two codes and two sets of checks say."""

from collections.abc import Sequence

from msgspec.structs import replace

from rulebook_ralph.agents.question import GivenUpError, ModelError
from rulebook_ralph.config.rules import kind_of
from rulebook_ralph.tasks.criteria import External
from rulebook_ralph.tasks.results import AskedItem, Evidence, Verdict, feedback_excerpt, telling_line
from rulebook_ralph.tasks.text import clipped, counted, some
from rulebook_ralph.verify.case import Case, Examination, again
from rulebook_ralph.verify.decision import Difference
from rulebook_ralph.verify.execution import GateRun
from rulebook_ralph.verify.gates import red_words
from rulebook_ralph.verify.questions import OpenItem, ask_about
from rulebook_ralph.verify.rules import awaiting_approval, is_promised, nothing_changed, says_blocked

_ALREADY = "no file was changed, as the work is said to be there already"


def something_changed(case: Case, examination: Examination) -> Verdict | None:
    """An attempt that is to change files changed some; or what is asked was there already, which a command of the
    criteria shows, or a yes to the question. A promise shows nothing.
    """
    if not case.implements or examination.table.changes or (case.result is None and not case.approved):
        return None
    if (blocked := says_blocked(case, examination)) is not None:
        return blocked
    if case.result is not None and not is_promised(case):
        return nothing_changed(case, examination)
    verifiers = examination.verifiers
    commands = [each for each in examination.table.commands if not _is_as_a_gate(each[1], examination)]
    results = (verifiers.gates.command(case.tree, external, step=name) for name, external in commands)
    wanted = () if commands else examination.table.wanted
    nobody_can_say = bool(wanted) and verifiers.ask is None and not case.approved  # nor could a person approve it
    if nobody_can_say or not all(result.passed for result in results):
        return nothing_changed(case, examination)
    if wanted:
        items = [OpenItem("unproven", _ALREADY, f"does this hold: {criterion}") for criterion in wanted]
        if (verdict := _answered(case, examination, items, allow=False)) is not None:
            nobody_said = verdict.awaits_approval and verifiers.config.integrity.unproven != "approve"
            return nothing_changed(case, examination) if nobody_said else verdict
    examination.already_done = True
    examination.log.append("nothing was changed: the work was there already")
    return None


def _is_as_a_gate(external: External, examination: Examination) -> bool:
    """Whether a criterion's command asks no more than a gate does, however it is spelled: what holds on every base
    shows no work.
    """
    case, gates = examination.case, examination.verifiers.gates
    words = external.command.split()
    if any(words == step.command.split() for step in gates.steps):
        return True
    kind = kind_of("", external.command)
    if kind in ("lint", "typecheck", "build") and any(step.kind == kind for step in gates.steps):
        return True
    if not gates.command(case.tree, external, step=case.stage).passed:
        return False
    ran = gates.tests_of(case.tree, external)
    return any(ran.has_same_tests(run.tests) for run in examination.table.base.values())


def gates_hold(case: Case, examination: Examination) -> Verdict | None:
    """The gates are no redder than on the base: by name where tests have names, else by number and exit code."""
    table = examination.table
    if not table.steps:
        return None
    if examination.verifiers.gates.parallel and _asks_all(case, examination):
        table.run_beside()
    red = table.red()
    examination.gates_were_run = True
    if red:
        return _red(case, red)
    for run in table.new.values():
        if run.result.failed:
            examination.log.append(f"{red_words(run)}, as before")
            if table.base[run.step].result.failed:
                examination.red_before.add(run.step)
    return None


def _red(case: Case, red: Sequence[tuple[GateRun, Difference]]) -> Verdict:
    told = [_told(run, difference) for run, difference in red]
    claims = {key.lower().rstrip("s") for key, claim in case.parsed.quality_claims.items() if claim is True}
    if claimed := sorted({run.result.kind for run, _ in red if run.result.kind.rstrip("s") in claims}):
        told.append(f"You claimed that these pass: {', '.join(claimed)}. Claim only what you have run.")
    reason = "; ".join(f"gate {run.step} failed: {_in_short(run, difference)}" for run, difference in red)
    return again("gates", reason, "\n\n".join(told))


def _in_short(run: GateRun, difference: Difference) -> str:
    """What is told in one line: the tests, else the telling line of the output."""
    result = run.result
    if difference.tests:
        return some(difference.tests, 3)
    plain = difference.why == result.reason and result.exit_code is not None
    return (telling_line(result.output) if plain else "") or difference.why


def _told(run: GateRun, difference: Difference) -> str:
    result = run.result
    lines = [f"The gate '{result.step}' failed.", f"Command: {result.command}", f"Result: {result.reason or 'failed'}"]
    if difference.tests:
        others = len(run.tests.failing) - len(difference.tests)
        beside = f" ({others} more fail as they did before you began)" if others > 0 else ""
        lines.append(f"Tests that must pass{beside}:\n" + "\n".join(f"- {test}" for test in difference.tests[:50]))
    elif difference.why != result.reason:
        lines.append(f"What is wrong: {difference.why}")
    return "\n".join([*lines, f"Output:\n{feedback_excerpt(result.output)}"])


def evidence_holds(case: Case, examination: Examination) -> Verdict | None:
    """The new code holds with the base's checks, and something turned from red to green; else the answer is yes."""
    table = examination.table
    examination.changed_checks = table.changed_checks
    if not _asks_all(case, examination):
        return None
    items = table.open_items(proof=case.implements)
    examination.evidence = Evidence(turned=table.turned, broken=table.broken, checks_base=case.checks_base)
    verdict = _answered(case, examination, items)
    was_asked = any(item.kind == "changed" for item in items) and verdict is None
    if was_asked or not (table.changed or case.checks_base != case.base):
        examination.evidence = replace(examination.evidence, checks_base="")
    return verdict


def _asks_all(case: Case, examination: Examination) -> bool:
    """Whether the whole table is to be looked at: once, at a task's last stage, where something was changed."""
    full = examination.verifiers.config.verification.proof == "full"
    return full and case.last_stage and bool(examination.table.changes)


def _answered(case: Case, examination: Examination, items: Sequence[OpenItem], *, allow: bool = True) -> Verdict | None:
    """None where every item is answered with yes: by the model, a person, or a configuration that allows it."""
    integrity, rest = examination.verifiers.config.integrity, list[OpenItem]()
    for item in items:
        if allow and getattr(integrity, item.kind) == "allow":
            examination.log.append(f"allowed by integrity.{item.kind}: {item}")
        else:
            rest.append(item)
    if case.approved and rest:
        _record(examination, tuple(AskedItem(item=str(item), answer="yes") for item in rest), "person")
        return None
    if waiting := [item for item in rest if getattr(integrity, item.kind) == "approve"]:
        return _needs_approval(examination, waiting, "integrity leaves it to a person")
    return _asked(case, examination, rest) if rest else None


def _asked(case: Case, examination: Examination, items: Sequence[OpenItem]) -> Verdict | None:
    verifiers = examination.verifiers
    known = {item: verifiers.answers.get((case.iteration, case.task.id, str(item))) for item in items}
    if new := [item for item in items if known[item] is None]:
        if verifiers.ask is None:
            return _needs_approval(examination, new, verifiers.why_no_model)
        try:
            known |= zip(new, ask_about(case, examination, new, verifiers.ask), strict=True)
        except ModelError as error:
            return _not_asked(examination, new, error)
    answers = tuple(answer for answer in known.values() if answer is not None)
    for item, answer in zip(known, answers, strict=True):
        if answer.answer == "yes":  # what is merged later is not asked again
            verifiers.answers[case.iteration, case.task.id, str(item)] = answer
    _record(examination, answers, "model")
    refused = [answer for answer in answers if answer.answer != "yes"]
    return _refused(refused) if refused else None


def _not_asked(examination: Examination, items: Sequence[OpenItem], error: ModelError) -> Verdict:
    """The work waits: for a person, or where asking again later could help for as long as the run says."""
    reason = clipped(str(error)) or "the judging model gave no answer"
    if isinstance(error, GivenUpError) and error.stop_reason not in ("blocked", "error"):
        return Verdict(action="stop", hook="evidence", reason=reason, stop_reason=error.stop_reason, counts=False)
    return _needs_approval(examination, items, reason)


def _needs_approval(examination: Examination, items: Sequence[OpenItem], why: str) -> Verdict:
    _record(examination, tuple(AskedItem(item=str(item)) for item in items), "")
    examination.verifiers.say_once(why)
    first, *more = dict.fromkeys(item.what for item in items)
    others = f" (and {counted(len(more), 'further question')})" if more else ""
    return awaiting_approval("evidence", f"{first}{others}", why)


def _refused(refused: Sequence[AskedItem]) -> Verdict:
    lines = []
    for each in refused:
        place = f" ({each.file}{f':{each.line}' if each.line else ''})" if each.file else ""
        lines.append(f"- {each.item}\n  No{place}: {each.reason}")
    return again(
        "evidence",
        clipped(f"the judging model says no: {refused[0].reason or refused[0].item}"),
        "What tests could not decide was asked of a model, which said no. Mend it, or undo what the task does not ask "
        "for:\n" + "\n".join(lines),
    )


def _record(examination: Examination, asked: tuple[AskedItem, ...], by: str) -> None:
    known = examination.evidence or Evidence()
    examination.evidence = replace(known, asked=(*known.asked, *asked), judged_by=by)
