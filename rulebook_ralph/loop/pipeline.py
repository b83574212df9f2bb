"""How an attempt is judged: completion hooks in ascending priority; the first that does not skip wins.

A hook says `continue` (another attempt, with feedback), `stop` (end the task or the run) or `skip`. Only the pipeline's
end, everything skipped, completes. The rules that always hold are in loop/rules.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, Protocol

import msgspec

from rulebook_ralph.checks.hook_command import HookFailed
from rulebook_ralph.checks.shell import Cancelled
from rulebook_ralph.core.enumeration import some
from rulebook_ralph.core.events import Notice
from rulebook_ralph.core.evidence import SKIP, CheckResult, Verdict, Verified
from rulebook_ralph.core.printable import capital, clipped
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.evidence import Evidence, Gates, Judgement
from rulebook_ralph.loop.rules.contradictions import contradicted_claims
from rulebook_ralph.state.disk import is_of_surroundings
from rulebook_ralph.workspace.git import GitError

Report = Callable[[Notice], None]


class CompletionHook(Protocol):
    """One rule of the judge. Lower priority is asked earlier; equal ones in the order in which they were given.

    An attribute `required` says what an error in it means: False, that it is left out (a user's hook, unless its
    configuration says otherwise); True, or no such attribute, that nothing can be completed (Ralph's own rules).
    """

    name: str
    priority: int

    def should_run(self, evidence: Evidence) -> bool:
        """Whether the hook has anything to say of this attempt."""
        ...

    def run(self, evidence: Evidence) -> Verdict:
        """Its verdict: continue, stop or skip. The reason of a skip is logged."""
        ...


def judge(evidence: Evidence, hooks: Sequence[CompletionHook], *, report: Report = lambda _: None) -> Judgement:
    """Ask the hooks in order; what the agent must hear anyway is added to the feedback.

    What goes wrong in a hook is logged and told to `report`. Raises Cancelled; for what ends the run RalphError,
    GitError, and OSError of Ralph's own rules: that the repository or the disk fails is held against no attempt.
    """
    judging = _Judging(evidence, report)
    verdict = Verdict(action="complete", hook="pipeline", reason="everything that is configured holds")
    for hook in sorted(hooks, key=lambda hook: hook.priority):
        answer = judging.ask(hook)
        if answer.action in ("continue", "stop"):  # no hook can complete
            verdict = judging.with_facts(answer, hook)
            judging.tell_denials()
            break
    return judging.concluded(verdict)


class _Judging:
    """One attempt before the judge: which of its checks were run, and what went wrong with hooks."""

    def __init__(self, evidence: Evidence, report: Report) -> None:
        self.evidence = replace(evidence, run_gates=self._run_gates, run_criteria=self._run_criteria)
        self._given = evidence
        self._report = report
        self._log: list[str] = []
        self._hook_checks: list[CheckResult] = []
        self._gates: Gates | None = None
        self._gates_tried = False
        self._verified: Verified | None = None

    def ask(self, hook: CompletionHook) -> Verdict:
        """The hook's answer; what goes wrong in it is one, too."""
        try:
            answer = hook.run(self.evidence) if hook.should_run(self.evidence) else None
        except (Cancelled, RalphError, GitError):
            raise
        except Exception as error:
            if _shown_as(hook) is None and is_of_surroundings(error):
                raise
            return self._failed(hook, error)
        if answer is None:
            return SKIP
        if answer.action == "skip" and answer.reason:
            self._note("info", f"{hook.name}: {answer.reason}")
        self._keep(hook, answer.action in ("skip", "complete"), answer.reason)
        return answer

    def with_facts(self, verdict: Verdict, hook: CompletionHook) -> Verdict:
        """The verdict as the hook's, with what the agent must hear whatever the verdict is."""
        claims = contradicted_claims(self.evidence) if self._gates else []
        parts = [verdict.feedback, *self.evidence.told(), *_denials(self.evidence), *claims]
        feedback = "\n\n".join(part for part in parts if part)
        return msgspec.structs.replace(verdict, hook=hook.name, feedback=feedback)

    def tell_denials(self) -> None:
        """A person must know what the agent was refused, for only a person can allow it."""
        result = self.evidence.result
        if result.permission_denials and result.allowed_by:
            self._note(
                "warning", f"the agent was refused: {some(result.permission_denials)}; to allow it: {result.allowed_by}"
            )

    def concluded(self, verdict: Verdict) -> Judgement:
        """The judgement, with the gates run where they are due."""
        if self._gates_due(verdict):
            try:
                self._run_gates()
                verdict = self._with_claims(verdict)
            except (Cancelled, RalphError, GitError):
                raise
            except Exception as error:
                if is_of_surroundings(error):
                    raise
                self._note("warning", f"the gates could not be run: {self._words(error)}")
        gates = self._given.run_gates() if self._gates else Gates()  # commit hooks may have had them run again
        criteria = self._verified.results if self._verified else ()
        return Judgement(verdict, gates, (*criteria, *self._hook_checks), tuple(self._log))

    def _with_claims(self, verdict: Verdict) -> Verdict:
        """What gates that were run after the verdict say of the agent's claims is feedback, too."""
        feedback = "\n\n".join(filter(None, [verdict.feedback, *contradicted_claims(self.evidence)]))
        return msgspec.structs.replace(verdict, feedback=feedback) if verdict.action == "continue" else verdict

    def _gates_due(self, verdict: Verdict) -> bool:
        """Gates are run whenever the tree changed and the agent came to its end; they are not paid for otherwise."""
        evidence = self.evidence
        worth_it = evidence.result.status == "finished" and verdict.action != "stop" and verdict.hook != "integrity"
        return worth_it and bool(evidence.steps and evidence.changes) and not self._gates_tried

    def _run_gates(self) -> Gates:
        self._gates_tried = True
        self._gates = self._given.run_gates()
        return self._gates

    def _run_criteria(self) -> Verified:
        verified = self._given.run_criteria()
        if verified is not self._verified:  # known already, unless the tree is another by now
            for warning in verified.warnings:
                self._note("warning", warning)
        self._verified = verified
        return verified

    def _failed(self, hook: CompletionHook, error: Exception) -> Verdict:
        required = getattr(hook, "required", True)
        problem = f"the {'required ' if required else ''}hook '{hook.name}' failed: {self._words(error)}"
        self._note("warning", problem)
        self._keep(hook, False, problem)
        if not required:
            return SKIP
        told = f"{capital(problem)}.\nNothing can be completed before it works."
        return Verdict(action="continue", reason=problem, feedback=told)

    def _note(self, level: Literal["info", "warning"], text: str) -> None:
        self._log.append(text)
        self._report(Notice(level, text))

    def _words(self, error: Exception) -> str:
        words = clipped(str(error))
        if self.evidence.has_secret(words):
            words = "(its words hold a secret)"
        return words if isinstance(error, HookFailed) else f"{type(error).__name__}: {words}".rstrip(": ")

    def _keep(self, hook: CompletionHook, passed: bool, reason: str) -> None:
        """What a hook of the user's said is kept with the checks; it is known by what it is shown as."""
        shown_as = _shown_as(hook)
        if shown_as is None:
            return
        required = bool(getattr(hook, "required", False))
        self._hook_checks.append(
            CheckResult(
                step=hook.name, method="hook", command=shown_as, passed=passed, required=required, reason=reason
            )
        )


def _shown_as(hook: CompletionHook) -> str | None:
    """What a hook of the user's is shown as; None for Ralph's own rules."""
    return getattr(hook, "shown_as", None)


def _denials(evidence: Evidence) -> list[str]:
    """Tools that the agent was refused, with the setting that would allow them."""
    denied = evidence.result.permission_denials
    if not denied:
        return []
    where = evidence.result.allowed_by or "permissions of this agent in tools.executors of .rulebook-ralph/config.yaml"
    return [f"You were not allowed to use: {some(denied)}. Do without it; a person can allow it ({where})."]
