"""What the live display looks like: lines of text with styles, cut to the terminal's width. Pure; imports rich."""

from collections.abc import Iterable
from datetime import datetime

from rich.text import Text

from rulebook_ralph.report import words
from rulebook_ralph.report.events import AgentActivity, IterationOpened
from rulebook_ralph.report.scene import Gate, Lane, Scene
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import clipped, cut, display_width, duration, fold, money, printable_block, tokens

_WIDEST_BAR = 30
_BLOCK_ROWS = 4
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 4
_ACTIVITY_ROWS = 4
_ROWS_OF_A_WHOLE_BLOCK = 3
_SILENCE_WORTH_SAYING = 30.0


def frame(scene: Scene, now: datetime, *, width: int, height: int) -> list[Text]:
    """The lines at the bottom of the screen: at most `height` of them, none wider than `width` columns."""
    if scene.ended or scene.started is None:
        return []
    head = [*_head(scene, now, width), *_sums(scene, now, width)]
    room = max(height - len(head), 0)
    body = _blocks(scene, now, width, room) if len(scene.lanes) > 1 else doings(scene.only, now, width)
    if len(head) + len(body) < height:
        head.insert(0, Text(""))
    rows = [*head, *(body[-room:] if room else [])][: max(height, 0)]
    for row in rows:
        row.truncate(max(width, 1), overflow="ellipsis")
    return rows


def _head(scene: Scene, now: datetime, width: int) -> list[Text]:
    if scene.waiting is not None:
        return [Text(f"◷ {words.waiting(scene.waiting)}", "bold yellow")]
    if len(scene.lanes) > 1:
        return [Text(f"▸ {words.count(len(scene.lanes), 'task')} at work", "bold cyan")]
    lane = scene.only
    if lane.iteration is None:
        return [Text("▸ checking the project as it is", "bold cyan")] if lane.gates else []
    place = f"{words.place(lane.iteration)} · {timer(now, lane.opened or now)}"
    return heading(lane.iteration, place, width)


def _blocks(scene: Scene, now: datetime, width: int, room: int) -> list[Text]:
    """As many lines for each lane as there are for all; where not even one, the first lanes and how many more."""
    open_lanes = [(lane, lane.iteration) for lane in scene.lanes.values() if lane.iteration is not None]
    shown = open_lanes if len(open_lanes) <= room else open_lanes[: max(room - 1, 0)]
    each = min(max(room // len(open_lanes), 1), _BLOCK_ROWS)
    rows = [row for lane, opened in shown for row in block(lane, opened, now, width=width, rows=each)]
    left_out = len(open_lanes) - len(shown)
    return [*rows, Text(f"  … and {left_out:,} more", "dim")] if left_out else rows


def _sums(scene: Scene, now: datetime, width: int) -> list[Text]:
    """The bar over tasks, and time, cost and tokens so far; on one line where there is room."""
    sums = " · ".join([timer(now, scene.started or now), money(scene.cost_usd), tokens(scene.tokens)])
    if not scene.total:
        return [Text("  " + sums, "dim")]
    label = f" {scene.completed:,} of {words.count(scene.total, 'task')}"
    room = max(min(_WIDEST_BAR, width - 2 - len(label)), 1)
    full = min(room * scene.completed // scene.total, room)
    bar = Text.assemble("  ", ("━" * full, "green"), ("─" * (room - full), "dim"), label)
    if bar.cell_len + 3 + len(sums) <= width:
        return [bar.append(" · " + sums, "dim")]
    return [bar, Text("  " + sums, "dim")]


def heading(iteration: IterationOpened, place: str, width: int) -> list[Text]:
    """The task, its title (on a line of its own where it is long), and `place`."""
    task, title = clipped(iteration.task_id), clipped(iteration.title)
    first = _task(task)
    second = Text(f"  {place}", "dim")
    if not title or title == task:
        return [first, second]
    if first.cell_len + 2 + display_width(title) <= width:
        return [first.append("  ").append(title), second]
    return [first, Text("  " + title), second]


def doings(lane: Lane, now: datetime, width: int) -> list[Text]:
    """What goes on in `lane`, the newest last: a wait, else its gates, else what its agent does."""
    if lane.waiting is not None:
        return [Text(f"  ◷ {words.waiting(lane.waiting)}", "yellow")]
    return _gate_rows(lane.gates.values(), now) if lane.gates else _activity(lane, now, width)


def block(lane: Lane, iteration: IterationOpened, now: datetime, *, width: int, rows: int) -> list[Text]:
    """A lane among others, in at most `rows` lines, at least one: the fewer, the more each tells."""
    first = _task(cut(clipped(iteration.task_id), max(width // 2, 1)))
    place = f"  {words.attempt(iteration)} · {timer(now, lane.opened or now)} · {_agent(iteration)}"
    last = _last_doings(lane, now, width, max(rows - _ROWS_OF_A_WHOLE_BLOCK + 1, 1))
    second = Text(place, "dim")
    if rows == 1:
        return [first.append_text(second).append_text(last[-1])]
    title = clipped(iteration.title)
    if title and title != clipped(iteration.task_id):
        first.append("  ").append(title)
    return [first, second, *last] if rows >= _ROWS_OF_A_WHOLE_BLOCK else [first, second.append_text(last[-1])]


def timer(now: datetime, since: datetime) -> str:
    seconds = max(int((now - since).total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"


def gate_mark(result: CheckResult) -> Text:
    if result.skipped:
        return Text("-", "dim")
    return Text("✔", "green") if result.passed else Text("✘", "bold red" if result.required else "yellow")


def _task(task: str) -> Text:
    return Text.assemble(("▸ ", "bold cyan"), (task, "bold"))


def _last_doings(lane: Lane, now: datetime, width: int, room: int) -> list[Text]:
    """The last `room` doings: gates that run come last, and share a row where they are more than that."""
    running = lane.running_gates
    if lane.waiting is not None or not running:
        return doings(lane, now, width)[-room:]
    if len(running) > room:
        names = ", ".join(clipped(gate.step) for gate in running)
        return [_running_row(names, min(gate.started for gate in running), now)]
    return _gate_rows(sorted(lane.gates.values(), key=lambda gate: gate.result is None), now)[-room:]


def _agent(iteration: IterationOpened) -> str:
    return clipped(iteration.agent) or "the agent"


def _activity(lane: Lane, now: datetime, width: int) -> list[Text]:
    if lane.iteration is None:
        return []
    rows = [row for event in lane.activity for row in _activity_rows(event, width)][-_ACTIVITY_ROWS:]
    silence = (now - lane.last_sign).total_seconds() if lane.last_sign else 0.0
    if silence >= _SILENCE_WORTH_SAYING:
        rows = [
            *rows[1 - _ACTIVITY_ROWS :],
            Text(f"  … {_agent(lane.iteration)}: no sign for {duration(silence)}", "yellow"),
        ]
    elif not rows:
        rows = [Text(f"  … {_agent(lane.iteration)} is at work", "dim")]
    return rows


def _activity_rows(event: AgentActivity, width: int) -> list[Text]:
    if event.kind == "retry":
        return [Text("  ↻ " + words.activity(event), "yellow")]
    if event.kind == "tool":
        name, detail = clipped(event.text), clipped(event.detail)
        return [Text.assemble(("  ● ", "cyan"), (name, "cyan"), ("  " + detail if detail else ""))]
    lines = [line for line in printable_block(event.text).split("\n") if line.strip()]
    folded = [part for line in lines[-_ACTIVITY_ROWS:] for part in fold(line, width - 4)]
    return [Text("  │ " + part, "dim") for part in folded[-_ACTIVITY_ROWS:]]


def _gate_rows(gates: Iterable[Gate], now: datetime) -> list[Text]:
    return [_gate_row(gate, now) for gate in gates]


def _gate_row(gate: Gate, now: datetime) -> Text:
    step, result = clipped(gate.step), gate.result
    if result is None:
        return _running_row(step, gate.started, now).append("  " + clipped(gate.command), "dim")
    row = Text.assemble("  ", gate_mark(result), f" {step}")
    if result.skipped:
        return row.append("  " + words.gate_failure(result), "dim")
    row.append(f"  {duration(result.duration_ms / 1000)}", "dim")
    if result.passed:
        return row.append(words.flakiness(result), "yellow")
    return row.append("  " + words.gate_failure(result), "red" if result.required else "yellow")


def _running_row(names: str, since: datetime, now: datetime) -> Text:
    spinner = _SPINNER[int(now.timestamp() * _FRAMES_A_SECOND) % len(_SPINNER)]
    return Text.assemble("  ", (spinner, "cyan"), f" {names}  {timer(now, since)}")
