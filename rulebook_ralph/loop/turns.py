"""Opens iterations and settles them, for one run or one session: the only writer of its state, whoever works.

`open` is step 1 of the order of writing (DESIGN.md), `settle` steps 2 and 3. In between somebody works on what `open`
gave, with the tools for it, and makes an `Outcome` of it (iteration.attempt), in this thread or in another.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from threading import Event

import msgspec

from rulebook_ralph.checks.reviewed_change import ReviewedChange
from rulebook_ralph.checks.shell import ResultCache
from rulebook_ralph.clock import Clock
from rulebook_ralph.core import events, policy, requirements, selection, settling
from rulebook_ralph.core.faults import Response
from rulebook_ralph.core.model import Task
from rulebook_ralph.core.question import Ask
from rulebook_ralph.core.review import Review, Tier
from rulebook_ralph.core.settings import Config, Limits
from rulebook_ralph.loop import leftovers, record, summary
from rulebook_ralph.loop.assigner import Now, Pass
from rulebook_ralph.loop.gatekeeper import Base
from rulebook_ralph.loop.iteration import Assignment, Outcome, Tools
from rulebook_ralph.loop.landing import Kept
from rulebook_ralph.loop.onto_branch import brought_onto, merging_failed
from rulebook_ralph.loop.opened import ALONE, Beside, Opened
from rulebook_ralph.loop.orders import Orders
from rulebook_ralph.loop.patience import Patience
from rulebook_ralph.loop.preflight import Ready
from rulebook_ralph.loop.settler import Settler
from rulebook_ralph.loop.worker import Worker, restore_beside
from rulebook_ralph.workspace.snapshot import Opening


class Turns:
    """`tally` is what was used so far, also of time, `max_iterations` the limit; both change as iterations are settled.
    `base` is what the gates say of the branch. `reopen` are blocked tasks that are still to be tried once more,
    `not_merged` those whose work could not be brought onto the branch the last time; `spent` is how long each task was
    worked on, in seconds.
    """

    def __init__(
        self,
        settler: Settler,
        ready: Ready,
        orders: Orders,
        patience: Patience,
        *,
        clock: Clock,
        cancelled: Event,
        tally: policy.RunTally,
        max_iterations: int,
        reopen: set[str],
    ) -> None:
        self._settler = settler
        self._ready = ready
        self._orders = orders
        self._patience = patience
        self._clock = clock
        self._cancelled = cancelled
        self._started = clock.monotonic() - tally.elapsed
        self.tally = tally
        self.max_iterations = max_iterations
        self.reopen = reopen
        self.base = Base()
        self.spent: dict[str, float] = {}
        self.stuck: set[str] = set()
        self.touched: dict[str, str | None] = {}
        self.not_merged: set[str] = set()

    @property
    def duration(self) -> float:
        """Seconds since the beginning."""
        return self._clock.monotonic() - self._started

    # Write order, step 1

    def open(self, task: Task, worker: Worker, *, others: Sequence[Task] = (), beside: Beside = ALONE) -> Opened:
        """Write the iteration file and prd.json, and save the state. `others` are worked on with the task, `beside` are
        iterations that go on already.

        Raises RalphError, GitError, UnusableError.
        """
        self.reopen.discard(task.id)
        kept = worker.unfinished(task)
        opening = worker.open(kept)
        gear = worker.gear
        gear.gatekeeper.remember(self.base)
        number, at = self._settler.take_number(), self._clock.iso()
        worker.begins(number)
        stage = gear.assigner.stage(task, kept)
        task, *more = (settling.opened(each, stage=stage, number=number, at=at) for each in (task, *others))
        executor = gear.crew.acting(gear.assigner.executor(task, stage), self._clock.now())
        this = Pass(number, task, stage, gear.crew.member(executor), tuple(more))
        guarded = worker.guard((*gear.gatekeeper.steps, *gear.assigner.judging(this)), opening)
        index = self.tally.iterations + beside.opened + 1
        now = self._now(this, opening, worker, kept, index=index)
        text = gear.assigner.brief(this, now, opening)
        opened = record.opened(
            task,
            text,
            others=more,
            number=number,
            stage=stage,
            attempt=this.attempt,
            agent=this.member.agent.name,
            at=at,
            opening=opening,
            base=self.base,
            isolated=bool(worker.place),
            clean=gear.redactor.clean,
        )
        self._settler.open(opened, now.prd, opening, guarded, place=worker.place)
        self._orders.report(
            summary.opened_event(
                opened,
                self._settler.prd,
                title=task.title,
                index=index,
                max_iterations=self.max_iterations,
                max_attempts=gear.assigner.max_attempts(task, stage),
                agent=gear.crew.name_of(this.member.agent.name),
            )
        )
        wall_time, run_limited = self._time_left(worker, task)
        assignment = gear.assigner.assignment(
            this,
            opening,
            self.base,
            project=now.prd.project,
            prompt=text.prompt,
            wall_time=wall_time,
            money_left=self._money_left(gear.config, task, beside),
            run_limited=run_limited,
            seconds=self._clock.seconds(),
        )
        return Opened(assignment, opened, executor, this.member.agent, guarded, worker)

    def tools(self, opened: Opened) -> Tools:
        """What the iteration is worked on and judged with."""
        results, worker, gear = ResultCache(), opened.worker, opened.worker.gear
        assignment = opened.assignment
        return Tools(
            agent=opened.agent,
            priced=lambda result: gear.crew.completed(result, opened.executor),
            workspace=worker.workspace,
            who=self._ready.who,
            hooks=lambda put_back: gear.hooks(self._cancelled, put_back),
            run_gates=lambda tree: gear.gatekeeper.run_for(assignment, tree, results),
            tree_after_gates=lambda tree: gear.gatekeeper.tree_after(assignment.opening, tree),
            stand=lambda tree: gear.gatekeeper.stand(assignment.opening, tree),
            results=results,
            ask=gear.model.ask,
            no_model=gear.model.missing,
            review=lambda task, tier, change: self._review(worker, task, tier, change),
            summarizer=gear.summarizer,
            run_commit_hooks=gear.gatekeeper.commit_hooks(),
            guarded=opened.guarded,
            to_be_done=lambda: selection.open_tasks(self._settler.prd),
            own_commits=worker.own_commits,
            saved_state=lambda: self._settler.landing.saved_state,
            restore_state=lambda: restore_beside(worker),
            keep_aside=lambda files: leftovers.keep_aside(gear.project, assignment.number, files),
            redactor=gear.redactor,
            sign=self._ready.sign,
            cancelled=self._cancelled,
            report=worker.report,
        )

    # Write order, steps 2 and 3

    def onto_branch(self, opened: Opened, outcome: Outcome) -> tuple[Opened, Outcome]:
        """What an isolated iteration completes, on top of what landed since it was opened, and judged there."""
        if not opened.worker.place or outcome.verdict.action != "complete" or outcome.commit is None:
            return opened, outcome
        while (tip := self._tip_at_rest()) != opened.assignment.opening.commit:  # a person may commit meanwhile, too
            assignment, outcome = brought_onto(
                tip,
                opened.assignment,
                outcome,
                worker=opened.worker,
                base=self.base,
                tools_of=partial(self._tools_for, opened),
            )
            at_base = msgspec.structs.replace(opened.record, base_commit=assignment.opening.commit)
            opened = replace(opened, assignment=assignment, record=at_base)
            if outcome.verdict.action != "complete":
                break
        return opened, outcome

    def _tip_at_rest(self) -> str:
        """The branch's last commit, no other one being written."""
        self._settler.landing.wait_for_index()
        return self._settler.tip()

    def _tools_for(self, opened: Opened, assignment: Assignment) -> Tools:
        return self.tools(replace(opened, assignment=assignment))

    def settle(self, opened: Opened, outcome: Outcome) -> policy.Stop | None:
        """The judged record, then commit, prd.json, progress, record, state commit; why the run ends, if it does."""
        gear = opened.worker.gear
        gates = [result for result in outcome.checks if result.method == "gate"]
        self.base = replace(self.base, red=self.base.red - {result.step for result in gates if result.passed})
        judged = record.judged(opened.record, outcome, base=self.base, at=self._clock.iso(), clean=gear.redactor.clean)
        judged = record.with_judging(judged, *gear.judging.take())
        judged = self._orders.judged(judged)
        response = self._patience.look_at(judged, opened.executor)
        if response is not None and response.remedy == "give-up-task":
            judged = record.given_up(judged, response.reason)
        for name in judged.tasks:
            self.spent[name] = self.spent.get(name, 0.0) + judged.duration_ms / 1000
        time_left = gear.config.limits.max_wall_time - self.spent[judged.task_id]
        final, settlement = self._settler.settle(judged, opened.assignment.opening, time_left=time_left)
        self.tally = policy.RunTally(
            iterations=self.tally.iterations + 1,
            elapsed=self.duration,
            cost_usd=self.tally.cost_usd + final.spent_usd,
            tokens=self.tally.tokens + final.spent_tokens,
        )
        completes = settlement.trigger == "complete"
        if completes:
            self.base = self.base.after(gates)
        if settlement.stop_reason == "stuck":
            self.stuck.update(final.tasks)
        self.touched |= dict.fromkeys(final.tasks, final.commit if completes else None)
        self._orders.report(summary.settled_event(final, settlement, self._settler.prd, self.tally))
        if merging_failed(outcome):
            self.not_merged.add(final.task_id)
        else:
            self.not_merged.discard(final.task_id)
        if gear.config.limits.max_iterations is None and (response is not None or merging_failed(outcome)):
            self.max_iterations += 1  # an iteration that does not count takes none away
        return _stop(settlement, response)

    def limit_reached(self, limits: Limits, *, beside: Beside = ALONE) -> policy.Stop | None:
        """Why no further iteration begins beside those."""
        tally = self.tally
        tally = replace(tally, iterations=tally.iterations + beside.opened, cost_usd=tally.cost_usd + beside.cost_usd)
        return policy.limit_reached(limits, tally, max_iterations=self.max_iterations)

    def finish(self, stop: policy.Stop, *, again: str = "ralph resume") -> events.RunEnded:
        """The end, for that reason: all is written, committed, saved and told. `again` is the command that goes on."""
        settler = self._settler
        if stop.stop_reason == "cancelled":
            settler.landing.put_away_work_of_others("")
        settler.finish()
        ended = summary.run_ended(
            stop,
            settler.prd,
            touched=self.touched,
            tally=self.tally,
            duration=self.duration,
            branch=settler.branch,
            held=settler.watch.held,
            again=again,
        )
        self._orders.report(ended)
        return ended

    # Parts

    def _now(self, this: Pass, opening: Opening, worker: Worker, kept: Kept | None, *, index: int) -> Now:
        prd = self._settler.prd
        for task in (this.task, *this.others):
            prd = prd.replacing(task)
        return Now(
            prd=prd,
            progress=self._settler.progress_text(),
            commits=self._settler.landing.recent_commits(opening.commit),
            feedback=self._settler.past.feedback_for(this.task),
            changed=worker.workspace.changes(opening.tree, kept.tree) if kept else (),
            iteration=index,
            max_iterations=self.max_iterations,
        )

    def _money_left(self, config: Config, task: Task, beside: Beside) -> float | None:
        """Of what nobody may spend yet, the agent has its share: those that can begin beside it want theirs."""
        share = 1 / max(1, config.parallel.workers - beside.running)
        return requirements.money_left(config.limits, task, spent=self.tally.cost_usd + beside.cost_usd, share=share)

    def _time_left(self, worker: Worker, task: Task) -> tuple[float, bool]:
        """How long the agent may take, in seconds, and whether it is the run's limit that says so."""
        limits = worker.gear.config.limits
        own = min(limits.iteration_timeout, limits.max_wall_time - self.spent.get(task.id, 0.0))
        of_run = self.time_left(limits)
        return (max(1.0, own), False) if of_run is None else (max(1.0, min(own, of_run)), of_run <= own)

    def time_left(self, limits: Limits) -> float | None:
        """What the run's own limit leaves, in seconds; None without one."""
        return None if limits.max_run_wall_time is None else limits.max_run_wall_time - self.duration

    def _review(self, worker: Worker, task: Task, tier: Tier, change: ReviewedChange) -> Review | None:
        def left() -> float | None:
            return self.time_left(worker.gear.config.limits)

        def patiently(ask: Ask, reviewer: str) -> Ask:
            return self._patience.patiently(ask, reviewer, task, seconds_left=left, report=worker.report)

        return worker.gear.reviewing.in_loop(task, tier, change, patiently=patiently)


def _stop(settlement: policy.Settlement, response: Response | None) -> policy.Stop | None:
    """Why the run ends after an iteration, if it does: an agent's failure is looked upon with patience."""
    if response is None:
        return settlement.stop
    if response.remedy != "stop":
        return None
    return policy.Stop("rate-limited" if response.limited else "error", response.reason)
