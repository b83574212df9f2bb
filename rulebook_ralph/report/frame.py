"""What the live display looks like: lines of text with styles, cut to the terminal's width. Pure; imports rich."""

from datetime import datetime

from rich.text import Text

from rulebook_ralph.report import words
from rulebook_ralph.report.events import AgentActivity, IterationOpened
from rulebook_ralph.report.scene import Gate, Lane, Scene
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import clipped, cut, duration, fold, money, printable_block, tokens

_WIDEST_BAR = 30
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 4
_MOST_DOINGS = 4
_HEAD_OF_A_BLOCK = 2
_SILENCE_WORTH_SAYING = 30.0


def frame(scene: Scene, now: datetime, *, width: int, height: int) -> list[Text]:
    """The lines at the bottom of the screen: at most `height` of them, none wider than `width` columns."""
    if scene.ended or scene.started is None:
        return []
    rows = _sums(scene, now, width)
    if scene.waiting is not None:
        rows.insert(0, Text(f"◷ {words.waiting(scene.waiting)}", "bold yellow"))
    elif not scene.lanes and scene.outside.gates:
        rows.insert(0, Text("▸ checking the project as it is", "bold cyan"))
    if room := max(height - len(rows), 0):
        rows += _blocks(scene, now, width, room) if scene.lanes else _doings(scene.outside, now, width, room)
    if len(rows) < height:
        rows.insert(0, Text(""))
    rows = rows[: max(height, 0)]
    for row in rows:
        row.truncate(max(width, 1), overflow="ellipsis")
    return rows


def _sums(scene: Scene, now: datetime, width: int) -> list[Text]:
    """The bar over tasks, and iterations, time, cost and tokens of this run; on one line where there is room."""
    sums = " · ".join([_timer(now, scene.started or now), money(scene.cost_usd), tokens(scene.tokens)])
    if scene.plan is not None and scene.index:
        sums = f"{scene.index:,} of at most {words.count(scene.plan.max_iterations, 'iteration')} · {sums}"
    if not scene.total:
        return [Text("  " + sums, "dim")]
    label = f" {scene.completed:,} of {words.count(scene.total, 'task')}"
    room = max(min(_WIDEST_BAR, width - 2 - len(label)), 1)
    full = min(room * scene.completed // scene.total, room)
    bar = Text.assemble("  ", ("━" * full, "green"), ("─" * (room - full), "dim"), label)
    if bar.cell_len + 3 + len(sums) <= width:
        return [bar.append(" · " + sums, "dim")]
    return [bar, Text("  " + sums, "dim")]


def _blocks(scene: Scene, now: datetime, width: int, room: int) -> list[Text]:
    """As many lines for each lane as there are for all; where not even one, the first lanes and how many more."""
    lanes = [(lane, lane.opened) for lane in scene.lanes.values() if lane.opened is not None]
    shown = lanes if len(lanes) <= room else lanes[: max(room - 1, 0)]
    each = max(room // len(lanes), 1)
    rows = [row for lane, opened in shown for row in _block(lane, opened, now, width, each)]
    left_out = len(lanes) - len(shown)
    return [*rows, Text(f"  … and {left_out:,} more", "dim")] if left_out else rows


def _block(lane: Lane, opened: IterationOpened, now: datetime, width: int, rows: int) -> list[Text]:
    """A lane in at most `rows` lines, at least one: the fewer, the more each tells."""
    place = f"  {words.attempt(opened)} · {_timer(now, lane.since or now)}"
    doings = _doings(lane, now, width, max(rows - _HEAD_OF_A_BLOCK, 1))
    task, title = clipped(opened.task_id), clipped(opened.title)
    first = Text.assemble(("▸ ", "bold cyan"), (cut(task, max(width // 2, 1)), "bold"))
    second = Text(place, "dim")
    if rows == 1:
        return [first.append_text(second).append_text(doings[-1])]
    if title and title != task:
        first.append("  ").append(title)
    return [first, second, *doings] if rows > _HEAD_OF_A_BLOCK else [first, second.append_text(doings[-1])]


def _doings(lane: Lane, now: datetime, width: int, room: int) -> list[Text]:
    """What goes on in `lane`, the newest last: a wait, else its gates, else what its agent does."""
    if lane.waiting is not None:
        return [Text(f"  ◷ {words.waiting(lane.waiting)}", "yellow")]
    running = lane.running_gates
    if len(running) > room:
        names = ", ".join(clipped(gate.step) for gate in running)
        return [_running_row(names, min(gate.started for gate in running), now)]
    if lane.gates:
        return [_gate_row(gate, now) for gate in sorted(lane.gates.values(), key=lambda gate: gate.result is None)][
            -room:
        ]
    return _activity(lane, now, width, min(room, _MOST_DOINGS))


def _activity(lane: Lane, now: datetime, width: int, room: int) -> list[Text]:
    if lane.opened is None:
        return []
    agent = clipped(lane.opened.agent) or "the agent"
    rows = [row for event in lane.activity for row in _activity_rows(event, width)][-room:]
    silence = (now - lane.last_sign).total_seconds() if lane.last_sign else 0.0
    if silence >= _SILENCE_WORTH_SAYING:
        return [*rows[max(1 - room, 0) :][: room - 1], Text(f"  … {agent}: no sign for {duration(silence)}", "yellow")]
    return rows or [Text(f"  … {agent} is at work", "dim")]


def _activity_rows(event: AgentActivity, width: int) -> list[Text]:
    if event.kind == "retry":
        return [Text("  ↻ " + words.activity(event), "yellow")]
    if event.kind == "tool":
        name, detail = clipped(event.text), clipped(event.detail)
        return [Text.assemble(("  ● ", "cyan"), (name, "cyan"), ("  " + detail if detail else ""))]
    lines = [line for line in printable_block(event.text).split("\n") if line.strip()]
    return [Text("  │ " + part, "dim") for line in lines[-_MOST_DOINGS:] for part in fold(line, width - 4)]


def _gate_row(gate: Gate, now: datetime) -> Text:
    step, result = clipped(gate.step), gate.result
    if result is None:
        return _running_row(step, gate.started, now).append("  " + clipped(gate.command), "dim")
    mark, style = _gate_mark(result)
    row = Text.assemble("  ", (mark, style), f" {step}")
    if result.skipped:
        return row.append("  " + words.gate_failure(result), "dim")
    row.append(f"  {duration(result.duration_ms / 1000)}", "dim")
    if result.passed:
        return row.append(words.flakiness(result), "yellow")
    return row.append("  " + words.gate_failure(result), "red" if result.required else "yellow")


def _gate_mark(result: CheckResult) -> tuple[str, str]:
    if result.skipped:
        return "-", "dim"
    return ("✔", "green") if result.passed else ("✘", "bold red" if result.required else "yellow")


def _running_row(names: str, since: datetime, now: datetime) -> Text:
    spinner = _SPINNER[int(now.timestamp() * _FRAMES_A_SECOND) % len(_SPINNER)]
    return Text.assemble("  ", (spinner, "cyan"), f" {names}  {_timer(now, since)}")


def _timer(now: datetime, since: datetime) -> str:
    seconds = max(int((now - since).total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"
