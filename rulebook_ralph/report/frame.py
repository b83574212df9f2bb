"""What the live display looks like: lines of text with styles, cut to the terminal's width. Pure; imports rich."""

from datetime import datetime

from rich.text import Text

from rulebook_ralph.report import words
from rulebook_ralph.report.events import AgentActivity
from rulebook_ralph.report.scene import Gate, Lane, Scene
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import clipped, cut, duration, fold, printable_block, some, span

_WIDEST_BAR = 30
_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 4
_MOST_DOINGS = 4
_HEAD_OF_A_BLOCK = 2
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
    for index in range(max(len(left), len(right))):
        row = left[index] if index < len(left) else Text("")
        row.truncate(column, overflow="ellipsis", pad=True)
        beside = right[index] if index < len(right) else Text("")
        rows.append(Text.assemble(row, (" │ ", "dim"), beside))
    return rows


def _sums(scene: Scene, now: datetime, width: int) -> list[Text]:
    """The bar over tasks, and iterations, time, cost and tokens of this run; on one line where there is room."""
    spent = words.spent(scene.cost_usd, scene.tokens, scene.index - len(scene.lanes))
    sums = " · ".join([_timer(now, scene.started or now), *spent])
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
    lanes = list(scene.lanes.values())
    shown = lanes if len(lanes) <= room else lanes[: max(room - 1, 0)]
    each = max(room // len(lanes), 1)
    rows = [row for lane in shown for row in _block(scene, lane, now, width, each)]
    left_out = len(lanes) - len(shown)
    return [*rows, Text(f"  … and {left_out:,} more", "dim")] if left_out else rows


def _block(scene: Scene, lane: Lane, now: datetime, width: int, rows: int) -> list[Text]:
    """A lane in at most `rows` lines, at least one: the fewer, the more each tells."""
    opened = lane.opened
    if opened is None:
        return []
    place = f"  {words.attempt(opened)} · {_timer(now, lane.since or now)}"
    doings = _doings(scene, lane, now, width, max(rows - _HEAD_OF_A_BLOCK, 1))
    task, title = clipped(opened.task_id), clipped(opened.title)
    first = Text.assemble(("▸ ", "bold cyan"), (cut(task, max(width // 2, 1)), "bold"))
    second = Text(place, "dim")
    if rows == 1:
        return [first.append_text(second).append_text(doings[-1])]
    if title and title != task:
        first.append("  ").append(title)
    return [first, second, *doings] if rows > _HEAD_OF_A_BLOCK else [first, second.append_text(doings[-1])]


def _doings(scene: Scene, lane: Lane, now: datetime, width: int, room: int) -> list[Text]:
    """What goes on in `lane`, the newest last: a wait, else its gates, else what its agent does."""
    if lane.waiting is not None:
        return [Text(f"  ◷ {words.waiting(lane.waiting)}", "yellow")]
    if scene.whole_output and lane.opened is not None:
        return _activity(lane, now, width, room)
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
    rows = [row for event in lane.activity for row in _activity_rows(event, width, room)][-room:]
    silence = int((now - lane.last_sign).total_seconds()) if lane.last_sign else 0
    if silence < _SILENCE_WORTH_SAYING:
        return rows or [Text(f"  … {agent} is at work", "dim")]
    limit = lane.opened.idle_timeout
    told = f"silent {span(silence)}" + (f" of {span(limit)}" if limit else "")
    return [*rows[max(len(rows) + 1 - room, 0) :], Text(f"  … {agent}: {told}", "yellow")]


def _activity_rows(event: AgentActivity, width: int, room: int) -> list[Text]:
    if event.kind == "retry":
        return [Text("  ↻ " + words.activity(event), "yellow")]
    if event.kind == "tool":
        name, detail = clipped(event.text), clipped(event.detail)
        return [Text.assemble(("  ● ", "cyan"), (name, "cyan"), ("  " + detail if detail else ""))]
    if event.kind == "failure":
        return [Text("    " + clipped(event.text), "red")]
    lines = [line for line in printable_block(event.detail or event.text).split("\n") if line.strip()]
    return [Text("  │ " + part, "dim") for line in lines[-room:] for part in fold(line, width - 4)]


def _gate_row(gate: Gate, now: datetime) -> Text:
    result = gate.result
    if result is None:
        return _running_row(clipped(gate.step), gate.started, now).append("  " + clipped(gate.command), "dim")
    mark, style = _gate_mark(result)
    row = Text.assemble("  ", (mark, style), f" {words.check_name(result)}")
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
