"""What the live display looks like: lines of text with styles, cut to the terminal's width. Pure; imports rich."""

from datetime import datetime

from rich.text import Text

from rulebook_ralph import console_words as words
from rulebook_ralph.console_lane import block, doings, heading, timer
from rulebook_ralph.console_scene import Scene
from rulebook_ralph.core.amounts import money, tokens

_WIDEST_BAR = 30
_BLOCK_ROWS = 4


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
