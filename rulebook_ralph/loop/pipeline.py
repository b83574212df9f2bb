"""How an attempt is judged: completion hooks in ascending priority; the first that does not skip wins.

A hook says `continue` (another attempt, with feedback), `stop` (end the task or the run) or `skip`. Only the pipeline's
end, everything skipped, completes.
"""

from collections.abc import Sequence
from typing import Protocol

from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.evidence import CheckResult, Verdict, feedback_excerpt
from rulebook_ralph.loop.evidence import Evidence, Gates, Judgement, is_held

SKIP = Verdict(action="skip")

_CANNOT_HEAL = {"authentication", "billing", "not-installed"}
_LIMITED = {"usage-limit"}
_LONGEST_REASON = 300


class CompletionHook(Protocol):
    """One rule of the judge. Lower priority is asked earlier."""

    name: str
    priority: int

    def should_run(self, evidence: Evidence) -> bool:
        """Whether the hook has anything to say of this attempt."""
        ...

    def run(self, evidence: Evidence) -> Verdict:
        """Its verdict: continue, stop or skip."""
        ...


class AgentEnd:
    """The agent itself failed, was killed, was cut off or hit a limit: whatever it printed, nothing is completed."""

    name, priority = "agent", 10

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.result.status != "finished"

    def run(self, evidence: Evidence) -> Verdict:
        result = evidence.result
        if result.killed_by == "interrupted":
            return Verdict(action="stop", reason="interrupted", stop_reason="interrupted", counts=False)
        fault = result.fault
        if fault is not None and fault.kind in _CANNOT_HEAL:
            reason = f"the agent cannot work ({fault.kind}): {fault.message}"
            return Verdict(action="stop", reason=reason, stop_reason="error", counts=False)
        if fault is not None and fault.kind in _LIMITED:
            until = f", until {fault.resets_at}" if fault.resets_at else ""
            reason = f"the agent's usage limit is reached{until}: {fault.message}"
            return Verdict(action="stop", reason=reason, stop_reason="rate-limited", counts=False)
        if result.killed_by == "wall-time" and evidence.run_limited:
            reason = "the run's time limit ended the agent"
            return Verdict(action="stop", reason=reason, stop_reason="max-wall-time", counts=False)
        if result.killed_by is not None:
            what = "took longer than" if result.killed_by == "wall-time" else "printed nothing for"
            reason = f"the agent {what} the limit and was ended by Ralph"
            return Verdict(action="continue", reason=reason, feedback=f"{_capital(reason)}. Work in smaller steps.")
        if result.status == "truncated":
            reason = "the agent's output ended without its end event: it was cut off"
        else:
            reason = fault.message if fault else f"the agent ended with exit code {result.exit_code}"
            reason = f"the agent failed: {reason}"
        return Verdict(action="continue", reason=reason, feedback=f"{_capital(reason)}")


class Integrity:
    """What an attempt may not leave behind."""

    name, priority = "integrity", 20

    def should_run(self, evidence: Evidence) -> bool:
        return any(change.is_gitlink for change in evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        paths = ", ".join(change.path for change in evidence.changes if change.is_gitlink)
        return Verdict(
            action="continue",
            reason=f"a repository inside the repository: {paths}",
            feedback=f"You left a git repository inside the repository, or a changed submodule: {paths}. "
            "Its content cannot be committed here. Remove its .git folder, or put the submodule back.",
        )


class Blocked:
    """The agent says that it cannot go on without a person."""

    name, priority = "blocked", 40

    def should_run(self, evidence: Evidence) -> bool:
        return evidence.parsed.blocked_reason is not None

    def run(self, evidence: Evidence) -> Verdict:
        reason = f"the agent is blocked: {evidence.parsed.blocked_reason}"
        return Verdict(action="stop", reason=reason, stop_reason="blocked", feedback=reason)


class WorkDone:
    """An attempt that changed nothing never completes an implementing stage."""

    name, priority = "work", 45

    def should_run(self, evidence: Evidence) -> bool:
        return not evidence.changes

    def run(self, evidence: Evidence) -> Verdict:
        claims = evidence.parsed.status == "completed"
        empty = "" if evidence.result.final_text.strip() else " and the final message was empty"
        return Verdict(
            action="continue",
            reason=f"the agent {'said it was done, but ' if claims else ''}changed nothing{empty}",
            feedback=f"{'You said it was done, but no' if claims else 'No'} file differs from the base commit{empty}. "
            "Do the work in the files of the repository. (Ignored files, files that were untracked before, and "
            ".rulebook-ralph/ do not count.)",
        )


class GatesPass:
    """The project's own gates, run by Ralph on the tree that would be committed."""

    name, priority = "gates", 50

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.steps)

    def run(self, evidence: Evidence) -> Verdict:
        gates = evidence.run_gates()
        held = [result for result in gates.results if is_held(result, evidence.excused)]
        if held:
            return _gates_failed(held)
        if gates.changed:
            names = ", ".join(gates.changed[:20])
            return Verdict(
                action="continue",
                reason=f"the gates change the tree each time they run: {names}",
                feedback=f"Running the gates twice changed files both times: {names}. Make the result stable, or "
                "have git ignore what is generated.",
            )
        if not any(result.passed and result.required for result in gates.results) and not evidence.trust_agent:
            return _nothing_passed(gates)
        return SKIP


class Promise:
    """The stage's promise, alone on its line in the final message."""

    name, priority = "promise", 55

    def should_run(self, evidence: Evidence) -> bool:  # noqa: ARG002 - a rule that always holds
        return True

    def run(self, evidence: Evidence) -> Verdict:
        wanted = " ".join(evidence.promise.split())
        if wanted in evidence.parsed.promises:
            return SKIP
        if evidence.parsed.promises:
            reason = f"another promise than {wanted} was given: {evidence.parsed.promises[-1]}"
        else:
            reason = f"the promise {wanted} was not given"
        return Verdict(
            action="continue",
            reason=reason,
            feedback=f"{_capital(reason)}. If the task is truly done, end your final message with the promise tag "
            f"around {wanted}, alone on its own line; if not, go on.",
        )


class CommitHooks:
    """The repository's own commit hooks and signing, on the candidate commit."""

    name, priority = "commit", 80

    def should_run(self, evidence: Evidence) -> bool:  # noqa: ARG002 - a rule that always holds
        return True

    def run(self, evidence: Evidence) -> Verdict:
        problem = evidence.try_commit()
        if problem is None:
            return SKIP
        first = problem.strip().partition("\n")[0][:_LONGEST_REASON] or "no reason was given"
        return Verdict(
            action="continue",
            reason=f"the commit was refused: {first}",
            feedback=f"The repository's own hooks refused the commit:\n{feedback_excerpt(problem)}",
        )


def built_in_hooks() -> tuple[CompletionHook, ...]:
    """The rules that always hold."""
    return (AgentEnd(), Integrity(), Blocked(), WorkDone(), GatesPass(), Promise(), CommitHooks())


def judge(evidence: Evidence, hooks: Sequence[CompletionHook]) -> Judgement:
    """Ask the hooks in order; what the agent must hear anyway is added to the feedback."""
    verdict = Verdict(action="complete", hook="pipeline", reason="everything that is configured holds")
    for hook in sorted(hooks, key=lambda hook: hook.priority):
        if not hook.should_run(evidence):
            continue
        answer = hook.run(evidence)
        if answer.action in ("continue", "stop"):  # no hook can complete
            verdict = _with_facts(answer, hook.name, evidence)
            break
    gates = evidence.run_gates() if _gates_due(evidence, verdict) else Gates()
    return Judgement(verdict, gates)


def _gates_due(evidence: Evidence, verdict: Verdict) -> bool:
    """Gates are run whenever the tree changed and the agent came to its end; they are not paid for otherwise."""
    return bool(evidence.steps and evidence.changes) and verdict.hook not in ("agent", "integrity", "blocked")


def _with_facts(verdict: Verdict, hook: str, evidence: Evidence) -> Verdict:
    parts = [verdict.feedback, *evidence.told(), *_denials(evidence), *_contradictions(evidence, hook)]
    feedback = "\n\n".join(part for part in parts if part)
    return Verdict(
        action=verdict.action,
        hook=hook,
        reason=verdict.reason,
        feedback=feedback,
        stop_reason=verdict.stop_reason,
        counts=verdict.counts,
    )


def _denials(evidence: Evidence) -> list[str]:
    """Tools that the agent was refused, with the setting that would allow them."""
    denied = evidence.result.permission_denials
    if not denied:
        return []
    where = "permissions of this agent in tools.executors of .rulebook-ralph/config.yaml"
    return [f"You were not allowed to use: {some(denied)}. Do without it; a person can allow it ({where})."]


_CLAIMS = {"tests": "test", "lint": "lint", "typecheck": "typecheck"}


def _contradictions(evidence: Evidence, hook: str) -> list[str]:
    """Claims of the agent that a gate, run by Ralph, denies."""
    if hook != "gates":
        return []
    kinds = {_CLAIMS[name] for name, claimed in evidence.parsed.quality_claims.items() if claimed}
    denied = [
        result.step
        for result in evidence.run_gates().results
        if result.kind in kinds and is_held(result, evidence.excused)
    ]
    return [f"You claimed that these pass; they failed when Ralph ran them: {', '.join(denied)}."] if denied else []


def _gates_failed(held: Sequence[CheckResult]) -> Verdict:
    names = ", ".join(f"{result.step} ({result.reason or 'failed'})" for result in held)
    parts = [
        f"The gate '{result.step}' failed.\nCommand: {result.command}\nResult: {result.reason}\nOutput:\n"
        f"{feedback_excerpt(result.output)}"
        for result in held
    ]
    return Verdict(action="continue", reason=f"gate failed: {names}", feedback="\n\n".join(parts))


def _nothing_passed(gates: Gates) -> Verdict:
    names = ", ".join(result.step for result in gates.results)
    return Verdict(
        action="continue",
        reason=f"no gate passed, so there is no evidence: {names}",
        feedback=f"Every gate is red ({names}), as it was before you began, so nothing proves the work. "
        "Bring at least one of them to pass.",
    )


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
