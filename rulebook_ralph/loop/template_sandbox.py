"""Rendering templates that may have come with a clone: they see what they are given, open no file and come to an end.

Covered: attributes and calls that lead out of the given values; the number of turns of loops, calls and includes and
the time they take together; the length of what comes out. Not covered: how much memory and time a single filter or
expression takes, such as a text that is doubled in each of a few dozen turns.
"""

import functools
from collections.abc import Iterable, Iterator, Mapping
from time import thread_time
from types import TracebackType
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.compiler import CodeGenerator, Frame
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context, LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rulebook_ralph.core.problem import LONGEST_MESSAGE, Problem, escaped
from rulebook_ralph.errors import RalphError
from rulebook_ralph.loop.templates import BUILT_IN, SHOWN_FOLDER, Templates

MOST_STEPS = 100_000
"""Turns of loops, calls and includes of one prompt; it takes some tens."""
MOST_SECONDS = 5.0
"""Of a processor's time for one prompt; it takes a ten-thousandth of that."""
LONGEST = 8 * 1024 * 1024
"""Characters of a prompt."""
_LARGEST_PRODUCT = 1_000_000
_HIGHEST_POWER = 100


class BrokenTemplateError(RalphError):
    """A template that no prompt can be made of, with its file and line."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem}; mend it, or remove the file to have the built-in prompt back")
        self.problem = problem


def rendered(templates: Templates, name: str, values: Mapping[str, object]) -> str:
    """The text that a template gives. Raises BrokenTemplateError whatever goes wrong in it."""
    try:
        environment = _environment(templates)
        environment.begin()
        return _bounded(environment.get_template(name).generate(values))
    except Exception as error:
        raise BrokenTemplateError(_problem(error, name, values)) from error


def referenced(templates: Templates) -> frozenset[str]:
    """The names that a person's own templates extend, include or import, as far as they say so outright.

    Raises BrokenTemplateError for one that cannot be parsed.
    """
    from jinja2 import meta  # noqa: PLC0415 - only for a check

    environment, found = _environment(templates), set[str]()
    for name, text in templates.own:
        try:
            found |= {each for each in meta.find_referenced_templates(environment.parse(text, name)) if each}
        except jinja2.TemplateError as error:
            raise BrokenTemplateError(_problem(error, name, {})) from error
    return frozenset(found)


def _bounded(pieces: Iterable[str]) -> str:
    whole, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > LONGEST:
            raise SecurityError(f"the prompt is longer than {LONGEST} characters")
        whole.append(piece)
    return "".join(whole)


class _CountingCode(CodeGenerator):
    """Has the turns of every loop counted."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 - jinja2's name
        node.iter = nodes.Call(nodes.EnvironmentAttribute("counted"), [node.iter], [], None, None)
        super().visit_For(node, frame)


class _Sandbox(ImmutableSandboxedEnvironment):
    """For the templates of one moment. Renders one prompt at a time."""

    code_generator_class = _CountingCode
    intercepted_binops = frozenset(("*", "**"))

    def __init__(self, templates: Templates) -> None:
        super().__init__(
            loader=_Loader(templates),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
        )
        del self.globals["lipsum"]
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self._steps, self._end = 0, thread_time() + MOST_SECONDS

    def counted(self, items: Iterable[Any]) -> Iterator[Any]:
        """The items, each a step."""
        for item in items:
            self._step()
            yield item

    def call(self, context: Context, obj: Any, /, *args: Any, **kwargs: Any) -> Any:
        """A call in a template, a step; that of a recursive loop has its turns counted too."""
        self._step()
        if isinstance(obj, LoopContext) and args:
            args = (self.counted(args[0]), *args[1:])
        return super().call(context, obj, *args, **kwargs)

    def join_path(self, template: str, parent: str) -> str:
        """The name that an extends, include or import means, a step."""
        self._step()
        return super().join_path(template, parent)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """A product or power, of a size that a prompt may need."""
        sizes = [abs(side) if isinstance(side, (int, float)) else len(side) for side in (left, right)]
        if max(sizes) > _HIGHEST_POWER if operator == "**" else sizes[0] * sizes[1] > _LARGEST_PRODUCT:
            raise SecurityError(f"a result of {operator} would be too large")
        return super().call_binop(context, operator, left, right)

    def _step(self) -> None:
        self._steps += 1
        if self._steps > MOST_STEPS:
            raise SecurityError(f"takes more than {MOST_STEPS} turns of loops, calls and includes")
        if thread_time() > self._end:
            raise SecurityError(f"takes more than {MOST_SECONDS:g} s")


class _Loader(jinja2.BaseLoader):
    def __init__(self, templates: Templates) -> None:
        self._templates = templates

    def get_source(self, environment: jinja2.Environment, template: str) -> tuple[str, str, Any]:  # noqa: ARG002
        found = self._templates.found(template)
        if found is None:
            raise jinja2.TemplateNotFound(template)
        return *found, lambda: True


@functools.lru_cache(maxsize=8)
def _environment(templates: Templates) -> _Sandbox:
    return _Sandbox(templates)


def _problem(error: Exception, name: str, values: Mapping[str, object]) -> Problem:
    """What went wrong, at the innermost line of a template."""
    file, line = _place(error.__traceback__)
    if isinstance(error, jinja2.TemplateSyntaxError):
        file, line = error.filename or file, error.lineno
    return Problem(file or f"{SHOWN_FOLDER}/{name}", line, "", escaped(_message(error, values), LONGEST_MESSAGE))


def _message(error: Exception, values: Mapping[str, object]) -> str:
    match error:
        case RecursionError():
            return f"templates extend or include each other without end; the built-in one of a name is {BUILT_IN}NAME"
        case jinja2.UndefinedError():
            import difflib  # noqa: PLC0415 - only for a misspelt name

            told = str(error)
            near = difflib.get_close_matches(told.split("'")[1] if "'" in told else told, values, n=1)
            return f"{told}; " + (f"did you mean {near[0]}?" if near else "see what there is: ralph templates list")
        case jinja2.TemplateNotFound():
            return f"there is no template {error.name!r}; the built-in ones are {BUILT_IN}NAME (ralph templates list)"
        case jinja2.TemplateError() | OverflowError():
            return error.args[0] if error.args else type(error).__name__
    return f"{type(error).__name__}: {error}"


def _place(trace: TracebackType | None) -> tuple[str, int | None]:
    file, line = "", None
    while trace is not None:
        where = trace.tb_frame.f_code.co_filename
        if where.startswith((BUILT_IN, SHOWN_FOLDER)):
            file, line = where, trace.tb_lineno
        trace = trace.tb_next
    return file, line
