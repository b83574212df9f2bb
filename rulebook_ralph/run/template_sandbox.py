"""Rendering templates that may have come with a clone: they see what they are given, and open no file.

What comes out is bounded, and so are ranges, products and powers. That a template takes long is its owner's to see.
"""

import functools
from collections.abc import Collection, Iterable, Mapping
from types import TracebackType
from typing import Any

import jinja2
from jinja2.exceptions import SecurityError
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment

from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.templates import BUILT_IN, SHOWN_FOLDER, Templates
from rulebook_ralph.tasks.text import LONGEST_MESSAGE, Problem, escaped, nearest

LONGEST = 8 * 1024 * 1024
"""Characters of a prompt."""
_LARGEST = {"*": 1_000_000, "**": 10_000}
"""The most that the sides of an operation may come to when they are multiplied."""


class BrokenTemplateError(RalphError):
    """A template that no prompt can be made of, with its file and line."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(f"{problem}; mend it, or remove the file to have the built-in prompt back")
        self.problem = problem


def rendered(templates: Templates, name: str, values: Mapping[str, object]) -> str:
    """The text that a template gives. Raises BrokenTemplateError whatever goes wrong in it."""
    try:
        return _bounded(_environment(templates).get_template(name).generate(values))
    except Exception as error:
        raise BrokenTemplateError(_problem(error, name, values)) from error


def _bounded(pieces: Iterable[str]) -> str:
    whole, length = [], 0
    for piece in pieces:
        length += len(piece)
        if length > LONGEST:
            raise SecurityError(f"the prompt is longer than {LONGEST} characters")
        whole.append(piece)
    return "".join(whole)


class _Sandbox(ImmutableSandboxedEnvironment):
    intercepted_binops = frozenset(_LARGEST)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        sizes = [abs(side) if isinstance(side, (int, float)) else len(side) for side in (left, right)]
        if sizes[0] * sizes[1] > _LARGEST[operator]:
            raise SecurityError(f"a result of {operator} would be too large")
        return super().call_binop(context, operator, left, right)


@functools.lru_cache(maxsize=8)
def _environment(templates: Templates) -> _Sandbox:
    def load(name: str) -> tuple[str, str, Any] | None:
        found = templates.found(name)
        return found and (*found, None)

    environment = _Sandbox(
        loader=jinja2.FunctionLoader(load),
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,
        optimized=False,  # else constants are worked out where nothing is intercepted
    )
    del environment.globals["lipsum"]
    return environment


def _problem(error: Exception, name: str, values: Mapping[str, object]) -> Problem:
    """What went wrong, at the innermost line of a template."""
    file, line = _place(error.__traceback__)
    if isinstance(error, jinja2.TemplateSyntaxError):
        file, line = error.filename or file, error.lineno
    return Problem(file or f"{SHOWN_FOLDER}/{name}", line, "", escaped(_message(error, values), LONGEST_MESSAGE))


def _message(error: Exception, known: Collection[str]) -> str:
    match error:
        case RecursionError():
            return f"templates extend or include each other without end; the built-in one of a name is {BUILT_IN}NAME"
        case jinja2.UndefinedError():
            told = str(error)
            near = nearest(told.split("'")[1] if "'" in told else told, known)
            return f"{told}; " + (f"did you mean {near}?" if near else "see what there is: ralph templates list")
        case jinja2.TemplateNotFound():
            return f"there is no template {error.name!r}; the built-in ones are {BUILT_IN}NAME (ralph templates list)"
        case jinja2.TemplateError() | OverflowError():
            return str(error.args[0]) if error.args else type(error).__name__
    return f"{type(error).__name__}: {error}"


def _place(trace: TracebackType | None) -> tuple[str, int | None]:
    file, line = "", None
    while trace is not None:
        where = trace.tb_frame.f_code.co_filename
        if where.startswith((BUILT_IN, SHOWN_FOLDER)):
            file, line = where, trace.tb_lineno
        trace = trace.tb_next
    return file, line
