"""The live part of a terminal: what is known of a run, and the lines of text that show it, cut to the terminal's width.

Cheap to change, as an agent may report 10,000 times a second. No effects; imports rich.
"""

from collections import deque
from dataclasses import dataclass, field
from datetime import datetime
from itertools import zip_longest

from rich import get_console
from rich.text import Text

from rulebook_ralph.report import events, words
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import clipped, counted, cut, duration, printable_block, some, span

_KEPT_ACTIVITIES = 200
_KEPT_CHARACTERS = 2_000
_WIDEST_BAR = 30
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 4
_MOST_DOINGS = 4
_HEADING = 2
_SILENCE_WORTH_SAYING = 10.0
_WIDE = 110
_LIST_COLUMNS = 36
_LEAST_LISTED = 8
_LOW = 8
"""On a lower terminal there is no foot."""
_NEXT = 3
_KEYS = {
    "p": "pause: the run ends after this iteration; again: go on after all",
    "o": "the agent's output, in all the room there is; again: less",
    "s": "stop an attempt: its work is kept, and the next attempt goes on from it",
    "q": "quit: the run ends now, its attempt is saved and not counted (as ^C)",
    "?": "this help",
}


@dataclass(slots=True)
class Gate:
    """A gate or a review of an iteration; `result` is None while it runs."""

    step: str
    command: str
    started: datetime
    result: CheckResult | None = None


@dataclass(slots=True)
class Lane:
    """What goes on in one open iteration; without `opened`, what belongs to none, such as gates on the base."""

    opened: events.IterationOpened | None = None
    since: datetime | None = None
    last_sign: datetime | None = None
    activity: deque[events.AgentActivity] = field(default_factory=lambda: deque(maxlen=_KEPT_ACTIVITIES))
    gates: dict[str, Gate] = field(default_factory=dict)
    waiting: events.Waiting | None = None

    def apply(self, event: events.Event, now: datetime) -> None:
        match event:
            case events.AgentActivity(kind, text, detail):
                self.last_sign = now
                self.activity.append(events.AgentActivity(kind, text[:_KEPT_CHARACTERS], detail[:_KEPT_CHARACTERS]))
            case events.GateStarted():
                step = _named(event.step, event.about)
                self.gates[step] = Gate(step, event.command, now)
            case events.ReviewStarted():
                step = words.review_step(event.tier, event.reviewer)
                self.gates[step] = Gate(step, "", now)
            case events.GateEnded() if event.on_base or event.about:
                self.gates.pop(_named(event.result.step, event.about), None)
            case events.GateEnded():
                self._end(event.result, now)
            case events.ReviewEnded():
                self._end(words.review_ending(event), now)
            case events.Waiting():
                self.waiting = event if event.seconds > 0 else None

    def _end(self, result: CheckResult, now: datetime) -> None:
        self.gates.setdefault(result.step, Gate(result.step, result.command, now)).result = result


@dataclass(slots=True)
class Scene:
    """A run: `lanes` by the number of their iteration, in the order they were opened. `progress` told last how many
    tasks are completed, `settled` what the run has cost; `waiting` holds the whole run.

    `whole_output` and `help` are what a person chose to see; `keys` says that keys are read, `question` what is asked.
    """

    plan: events.RunPlanned | None = None
    progress: events.RunPlanned | events.IterationOpened | events.IterationSettled | None = None
    settled: events.IterationSettled | None = None
    started: datetime | None = None
    lanes: dict[int, Lane] = field(default_factory=dict)
    outside: Lane = field(default_factory=Lane)
    index: int = 0
    waiting: events.Waiting | None = None
    ended: bool = False
    listed: events.TasksListed = field(default_factory=lambda: events.TasksListed(()))
    keys: bool = False
    whole_output: bool = False
    help: bool = False
    question: str = ""

    def apply(self, event: events.Event, now: datetime) -> None:
        if self.started is None:
            self.started = now
        match event:
            case events.Waiting():
                self.waiting = event if event.seconds > 0 else None
            case events.IterationOpened():
                self.lanes[event.iteration_number] = Lane(event, now, now)
                self.waiting, self.index, self.progress, self.outside = None, event.index, event, Lane()
            case events.IterationSettled():
                self.lanes.pop(event.iteration_number, None)
                self.settled, self.progress, self.outside = event, event, Lane()
            case events.RunPlanned():
                self.plan, self.progress, self.settled = event, event, None
                self.started, self.index, self.ended = now, 0, False
                self.lanes.clear()
            case events.TasksListed():
                self.listed = event
            case events.RunEnded():
                self.ended = True
            case events.WithinIteration():
                if lane := self.lanes.get(event.iteration_number):  # else it has been settled meanwhile
                    lane.apply(event.event, now)
            case _:
                self.lane_of(event).apply(event, now)

    def lane_of(self, event: events.Event) -> Lane:
        """Where `event` happens: in its own iteration, in the only one there is, else in none."""
        if isinstance(event, events.WithinIteration | events.IterationSettled):
            return self.lanes.get(event.iteration_number, self.outside)
        return next(iter(self.lanes.values())) if len(self.lanes) == 1 else self.outside


def _named(step: str, about: str) -> str:
    """A gate that is run on something else runs beside the one of that name."""
    return f"{step} ({about})" if about else step


def frame(scene: Scene, now: datetime, *, width: int, height: int) -> list[Text]:
    """The lines at the bottom of the screen: at most `height` of them, none wider than `width` columns."""
    if scene.ended or scene.started is None:
        return []
    beside = width >= _WIDE and bool(scene.listed.tasks)
    column = width - _LIST_COLUMNS - 3 if beside else width
    foot = _foot(scene, listed=beside) if height >= _LOW else []
    rows = _sums(scene, now, column)
    if scene.waiting is not None:
        rows.insert(0, Text(f"◷ {words.waiting(scene.waiting)}", "bold yellow"))
    elif not scene.lanes and scene.outside.gates:
        rows.insert(0, Text("▸ checking the project as it is", "bold cyan"))
    if room := max(height - len(rows) - len(foot), 0):
        rows += _blocks(scene, now, column, room) if scene.lanes else _doings(scene, scene.outside, now, column, room)
    rows += foot
    if beside:
        rows = _side_by_side(rows, _listed(scene, min(max(len(rows), _LEAST_LISTED), height)), column)
    if len(rows) < height:
        rows.insert(0, Text(""))
    rows = rows[: max(height, 0)]
    for row in rows:
        row.truncate(max(width, 1), overflow="ellipsis")
    return rows


def _foot(scene: Scene, *, listed: bool) -> list[Text]:
    """The next tasks where there is no room for a list of them, and the keys."""
    rows = []
    following = [each for each in scene.listed.tasks if each.status == "pending"]
    if following and not listed:
        names = some([clipped(each.task_id) for each in following], _NEXT)
        rows.append(Text(f"  next: {names}", "dim"))
    if scene.question:
        rows.append(Text(f"  {scene.question}", "bold yellow"))
    elif scene.help:
        rows += [Text(f"  {key}  {meaning}", "cyan") for key, meaning in _KEYS.items()]
    elif scene.keys:
        rows.append(Text("  p pause · o output · s stop · q quit · ? help", "dim"))
    return rows


def _listed(scene: Scene, rows: int) -> list[Text]:
    """The open tasks, in at most that many rows; the last says how many more there are."""
    tasks = scene.listed.tasks
    shown = tasks if len(tasks) + (scene.listed.more > 0) < rows else tasks[: max(rows - 2, 0)]
    marks = {"in_iteration": ("▸ ", "bold cyan"), "blocked": ("■ ", "red")}
    lines = [Text("open tasks", "bold")]
    for each in shown:
        mark, style = marks.get(each.status, ("○ ", "dim"))
        task, title = clipped(each.task_id), clipped(each.title)
        lines.append(Text.assemble((mark, style), task, ("" if title == task else f"  {title}", "dim")))
    more = len(tasks) - len(shown) + scene.listed.more
    return [*lines, Text(f"  … and {more:,} more", "dim")] if more else lines


def _side_by_side(left: list[Text], right: list[Text], column: int) -> list[Text]:
    rows = []
    for row, beside in zip_longest(left, right, fillvalue=Text("")):
        row.truncate(column, overflow="ellipsis", pad=True)
        rows.append(Text.assemble(row, (" │ ", "dim"), beside))
    return rows


def _sums(scene: Scene, now: datetime, width: int) -> list[Text]:
    """The bar over tasks, and iterations, time, cost and tokens of this run; on one line where there is room."""
    sums = _timer(now, scene.started or now)
    if done := scene.settled:
        sums = " · ".join([sums, *words.spent(done.run_cost_usd, done.run_tokens, scene.index - len(scene.lanes))])
    if scene.plan is not None and scene.index:
        sums = f"{scene.index:,} of at most {counted(scene.plan.max_iterations, 'iteration')} · {sums}"
    if scene.progress is None or not scene.progress.total_tasks:
        return [Text("  " + sums, "dim")]
    completed, total = scene.progress.completed_tasks, scene.progress.total_tasks
    label = f" {completed:,} of {counted(total, 'task')}"
    room = max(min(_WIDEST_BAR, width - 2 - len(label)), 1)
    full = min(room * completed // total, room)
    bar = Text.assemble("  ", ("━" * full, "green"), ("─" * (room - full), "dim"), label)
    if bar.cell_len + 3 + len(sums) <= width:
        return [bar.append(" · " + sums, "dim")]
    return [bar, Text("  " + sums, "dim")]


def _blocks(scene: Scene, now: datetime, width: int, room: int) -> list[Text]:
    """As many lines for each lane as there are for all; where not even one, the first lanes and how many more."""
    lanes = list(scene.lanes.values())
    shown = lanes if len(lanes) <= room else lanes[: max(room - 1, 0)]
    each = max(room // len(lanes), 1)
    rows = [row for lane in shown for row in _block(scene, lane, now, width, each)]
    left_out = len(lanes) - len(shown)
    return [*rows, Text(f"  … and {left_out:,} more", "dim")] if left_out else rows


def _block(scene: Scene, lane: Lane, now: datetime, width: int, rows: int) -> list[Text]:
    """A lane in at most `rows` lines: a heading of two and what goes on, or all of it in one."""
    opened = lane.opened
    if opened is None:
        return []
    place = f"  {words.attempt(opened)} · {_timer(now, lane.since or now)}"
    doings = _doings(scene, lane, now, width, max(rows - _HEADING, 1))
    task, title = clipped(opened.task_id), clipped(opened.title)
    first = Text.assemble(("▸ ", "bold cyan"), (cut(task, max(width // 2, 1)), "bold"))
    if rows <= _HEADING:
        return [first.append(place, "dim").append_text(doings[-1])]
    if title and title != task:
        first.append("  ").append(title)
    return [first, Text(place, "dim"), *doings]


def _doings(scene: Scene, lane: Lane, now: datetime, width: int, room: int) -> list[Text]:
    """What goes on in `lane`, the newest last: a wait, else its gates, else what its agent does."""
    if lane.waiting is not None:
        return [Text(f"  ◷ {words.waiting(lane.waiting)}", "yellow")]
    if scene.whole_output and lane.opened is not None:
        return _activity(lane, now, width, room)
    running = [gate for gate in lane.gates.values() if gate.result is None]
    if len(running) > room:
        names = ", ".join(clipped(gate.step) for gate in running)
        return [_running_row(names, min(gate.started for gate in running), now)]
    if lane.gates:
        ended_first = sorted(lane.gates.values(), key=lambda gate: gate.result is None)
        return [_gate_row(gate, now) for gate in ended_first[-room:]]
    return _activity(lane, now, width, min(room, _MOST_DOINGS))


def _activity(lane: Lane, now: datetime, width: int, room: int) -> list[Text]:
    if lane.opened is None:
        return []
    agent = clipped(lane.opened.agent) or "the agent"
    rows = [row for event in lane.activity for row in _activity_rows(event, width, room)][-room:]
    silence = int((now - lane.last_sign).total_seconds()) if lane.last_sign else 0
    if silence < _SILENCE_WORTH_SAYING:
        return rows or [Text(f"  … {agent} is at work", "dim")]
    limit = lane.opened.idle_timeout
    told = f"silent {span(silence)}" + (f" of {span(limit)}" if limit else "")
    return [*rows[max(len(rows) + 1 - room, 0) :], Text(f"  … {agent}: {told}", "yellow")]


def _activity_rows(event: events.AgentActivity, width: int, room: int) -> list[Text]:
    if event.kind == "retry":
        return [Text("  ↻ " + words.activity(event), "yellow")]
    if event.kind == "tool":
        name, detail = clipped(event.text), clipped(event.detail)
        return [Text.assemble(("  ● ", "cyan"), (name, "cyan"), ("  " + detail if detail else ""))]
    if event.kind == "failure":
        return [Text("    " + clipped(event.text), "red")]
    lines = [line for line in printable_block(event.detail or event.text).split("\n") if line.strip()]
    parts = [part for line in lines[-room:] for part in Text(line.strip()).wrap(get_console(), max(width - 4, 2))]
    return [Text.assemble("  │ ", part, style="dim") for part in parts]


def _gate_row(gate: Gate, now: datetime) -> Text:
    result = gate.result
    if result is None:
        return _running_row(clipped(gate.step), gate.started, now).append("  " + clipped(gate.command), "dim")
    mark, style, told, colour = "✘", "bold red", "  " + words.gate_failure(result), "red"
    if result.skipped:
        mark, style, colour = "-", "dim", "dim"
    elif result.passed:
        mark, style, told, colour = "✔", "green", words.flakiness(result), "yellow"
    elif not result.required:
        style = colour = "yellow"
    took = "" if result.skipped else f"  {duration(result.duration_ms / 1000)}"
    return Text.assemble("  ", (mark, style), f" {words.check_name(result)}", (took, "dim"), (told, colour))


def _running_row(names: str, since: datetime, now: datetime) -> Text:
    spinner = _SPINNER[int(now.timestamp() * _FRAMES_A_SECOND) % len(_SPINNER)]
    return Text.assemble("  ", (spinner, "cyan"), f" {names}  {_timer(now, since)}")


def _timer(now: datetime, since: datetime) -> str:
    seconds = max(int((now - since).total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"
