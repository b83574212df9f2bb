"""What the live display looks like: lines of text with styles, cut to the terminal's width. Pure; imports rich."""

from datetime import datetime

from rich.text import Text

from rulebook_ralph import console_words as words
from rulebook_ralph.console_scene import Gate, Scene
from rulebook_ralph.core.amounts import duration, money, tokens
from rulebook_ralph.core.events import AgentActivity
from rulebook_ralph.core.evidence import CheckResult
from rulebook_ralph.core.printable import clipped, display_width, fold, printable_block

_SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
_FRAMES_A_SECOND = 4
_ACTIVITY_ROWS = 4
_WIDEST_BAR = 30
_SILENCE_WORTH_SAYING = 30.0


def frame(scene: Scene, now: datetime, *, width: int, height: int) -> list[Text]:
    """The lines at the bottom of the screen: at most `height` of them, none wider than `width` columns."""
    if scene.ended or scene.started is None:
        return []
    head = [*_head(scene, now, width), *_sums(scene, now, width)]
    body = _gates(scene, now) if scene.gates else _activity(scene, now, width)
    if len(head) + len(body) < height:
        head.insert(0, Text(""))
    room = max(height - len(head), 0)
    rows = [*head, *(body[-room:] if room else [])][: max(height, 0)]
    for row in rows:
        row.truncate(max(width, 1), overflow="ellipsis")
    return rows


def spinner(now: datetime) -> str:
    return _SPINNER[int(now.timestamp() * _FRAMES_A_SECOND) % len(_SPINNER)]


def gate_mark(result: CheckResult) -> Text:
    if result.skipped:
        return Text("-", "dim")
    return Text("✔", "green") if result.passed else Text("✘", "bold red" if result.required else "yellow")


def _head(scene: Scene, now: datetime, width: int) -> list[Text]:
    iteration = scene.iteration
    if scene.waiting is not None:
        return [Text(f"◷ {words.waiting(scene.waiting)}", "bold yellow")]
    if iteration is None or scene.opened is None:
        return [Text("▸ checking the project as it is", "bold cyan")] if scene.gates else []
    task, title = clipped(iteration.task_id), clipped(iteration.title)
    first = Text.assemble(("▸ ", "bold cyan"), (task, "bold"))
    place = Text(f"  {words.place(iteration)} · {_timer(now, scene.opened)}", "dim")
    if not title or title == task:
        return [first, place]
    if first.cell_len + 2 + display_width(title) <= width:
        return [first.append("  ").append(title), place]
    return [first, Text("  " + title), place]


def _activity(scene: Scene, now: datetime, width: int) -> list[Text]:
    if scene.iteration is None:
        return []
    rows = [row for event in scene.activity for row in _activity_rows(event, width)][-_ACTIVITY_ROWS:]
    silence = (now - scene.last_sign).total_seconds() if scene.last_sign else 0.0
    agent = clipped(scene.plan.agent) if scene.plan else "the agent"
    if silence >= _SILENCE_WORTH_SAYING:
        rows = [*rows[1 - _ACTIVITY_ROWS :], Text(f"  … {agent}: no sign for {duration(silence)}", "yellow")]
    elif not rows:
        rows = [Text(f"  … {agent} is at work", "dim")]
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


def _gates(scene: Scene, now: datetime) -> list[Text]:
    return [_gate_row(gate, now) for gate in scene.gates.values()]


def _gate_row(gate: Gate, now: datetime) -> Text:
    step, result = clipped(gate.step), gate.result
    if result is None:
        command = ("  " + clipped(gate.command), "dim")
        return Text.assemble("  ", (spinner(now), "cyan"), f" {step}  {_timer(now, gate.started)}", command)
    row = Text.assemble("  ", gate_mark(result), f" {step}")
    if result.skipped:
        return row.append("  " + words.gate_failure(result), "dim")
    row.append(f"  {duration(result.duration_ms / 1000)}", "dim")
    if result.passed:
        return row.append(words.flakiness(result), "yellow")
    return row.append("  " + words.gate_failure(result), "red" if result.required else "yellow")


def _sums(scene: Scene, now: datetime, width: int) -> list[Text]:
    """The bar over tasks, and time, cost and tokens so far; on one line where there is room."""
    sums = " · ".join([_timer(now, scene.started or now), money(scene.cost_usd), tokens(scene.tokens)])
    if not scene.total:
        return [Text("  " + sums, "dim")]
    label = f" {scene.completed:,} of {words.count(scene.total, 'task')}"
    room = max(min(_WIDEST_BAR, width - 2 - len(label)), 1)
    full = min(room * scene.completed // scene.total, room)
    bar = Text.assemble("  ", ("━" * full, "green"), ("─" * (room - full), "dim"), label)
    if bar.cell_len + 3 + len(sums) <= width:
        return [bar.append(" · " + sums, "dim")]
    return [bar, Text("  " + sums, "dim")]


def _timer(now: datetime, since: datetime) -> str:
    seconds = max(int((now - since).total_seconds()), 0)
    hours, minutes = seconds // 3600, seconds // 60 % 60
    return f"{hours}:{minutes:02d}:{seconds % 60:02d}" if hours else f"{minutes}:{seconds % 60:02d}"
