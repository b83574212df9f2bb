"""Where the values of a YAML text stand in it, as offsets: what of it a change may replace."""

from typing import TYPE_CHECKING

from rulebook_ralph.core.problem import JsonPath, dotted
from rulebook_ralph.errors import RalphError

if TYPE_CHECKING:
    from ruamel.yaml.nodes import Node

_NULL = "tag:yaml.org,2002:null"
_BLOCK_SCALARS = ("|", ">")


class Places:
    """The places in one text. `path` is what is to be changed, for the RalphError of a text too unusual for that."""

    def __init__(self, text: str, path: JsonPath) -> None:
        self._text = text
        self._path = path

    def child(self, node: "Node | None", step: str | int) -> "tuple[Node | None, Node] | None":
        """The key, of a section, and the value that a step leads to; None where there is none yet."""
        from ruamel.yaml.nodes import MappingNode, SequenceNode  # noqa: PLC0415 - loaded already

        if isinstance(node, MappingNode) and isinstance(step, str):
            for key, value in node.value:
                if key.value == step:
                    if value.start_mark.index < key.end_mark.index:  # an alias: its text stands elsewhere
                        raise unusual(self._path)
                    return key, value
            return None
        if isinstance(node, SequenceNode) and isinstance(step, int):
            return (None, node.value[step]) if step < len(node.value) else None
        raise unusual(self._path)

    def spans(self, holder: "Node") -> list[tuple[int, int]]:
        """Start and end of each entry: from its key, or from the dash of an item, to the end of its value."""
        from ruamel.yaml.nodes import MappingNode, SequenceNode  # noqa: PLC0415 - loaded already

        column = holder.start_mark.column
        if isinstance(holder, MappingNode):
            return [
                (key.start_mark.index, self.after_colon(key) if is_nothing(value) else self.end(value, column))
                for key, value in holder.value
            ]
        if isinstance(holder, SequenceNode):
            spans = [(item.start_mark.index, self.end(item, column)) for item in holder.value]
            return spans if is_flow(holder) else [(self._dash(start), end) for start, end in spans]
        raise unusual(self._path)

    def index(self, holder: "Node", step: str | int) -> int:
        """Which of the spans a step leads to, which must be there."""
        if isinstance(step, int):
            return step
        return next(index for index, (key, _) in enumerate(holder.value) if key.value == step)

    def end(self, node: "Node", column: int) -> int:
        """Where the text of a value ends; `column` is that of the section or list that holds it."""
        if is_collection(node) and not is_flow(node) and node.value:
            return self.spans(node)[-1][1]
        if getattr(node, "style", None) in _BLOCK_SCALARS:
            return self.section_end(self.line_end(node.start_mark.index), column, comments=True)
        end: int = node.end_mark.index
        return end

    def section_end(self, start: int, column: int, *, comments: bool = False) -> int:
        """Where the last line ends that is indented more than `column`, from the end of a line on; blank lines between
        are passed, and with `comments` less indented comments end it as well.
        """
        end = position = start
        while position < len(self._text):
            following = self.line_end(position + 1)
            line = self._text[position + 1 : following]
            indent = len(line) - len(line.lstrip(" "))
            is_comment = line.lstrip(" ").startswith("#") and not comments
            if line.strip() and indent <= column and not is_comment:
                break
            if line.strip():
                end = following
            position = following
        return end

    def after_colon(self, key: "Node") -> int:
        return self._text.index(":", key.end_mark.index) + 1

    def line_start(self, position: int) -> int:
        return self._text.rfind("\n", 0, position) + 1

    def line_end(self, position: int) -> int:
        """Before the line feed."""
        end = self._text.find("\n", position)
        return len(self._text) if end < 0 else end

    def _dash(self, start: int) -> int:
        dash = self._text.rfind("-", self.line_start(start), start)
        if dash < 0:
            raise unusual(self._path)
        return dash


def is_flow(node: "Node | None") -> bool:
    return bool(getattr(node, "flow_style", False))


def is_collection(node: "Node") -> bool:
    return isinstance(node.value, list)


def is_nothing(node: "Node") -> bool:
    """Whether it has no text of its own; ruamel places such a value where the next one begins."""
    return is_empty(node) and not node.value


def is_empty(node: "Node") -> bool:
    return node.tag == _NULL


def unusual(path: JsonPath) -> RalphError:
    shown = dotted("", path).lstrip(".")
    return RalphError(f"{shown}: the file is written in a way that cannot be changed from here; use: ralph config edit")
