"""Rendering templates that may have come with a clone: they see what they are given, open no file and come to an end.

Covered: attributes and calls that lead out of the given values; the number of turns of loops, calls and includes and
the time they take together; the length of what comes out and of all texts that are made on the way. Not covered: how
much memory and time a single filter takes for what it is given.
"""

import functools
import re
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

from rulebook_ralph.errors import RalphError
from rulebook_ralph.run.templates import BUILT_IN, SHOWN_FOLDER, Templates
from rulebook_ralph.tasks.text import LONGEST_MESSAGE, Problem, escaped

MOST_STEPS = 100_000
"""Turns of loops, calls and includes of one prompt; it takes some tens."""
MOST_SECONDS = 5.0
"""Of a processor's time for one prompt; it takes a ten-thousandth of that."""
LONGEST = 8 * 1024 * 1024
"""Characters of a prompt."""
MOST_MADE = 4 * LONGEST
"""Characters and items of all that is made on the way."""
_LARGEST_PRODUCT = 1_000_000
_LARGEST_NUMBER = 100_000
_WIDE = re.compile(r"\d{6}")
"""A width in a format."""
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
    """Has the turns of every loop counted, and what `~` joins."""

    def visit_For(self, node: nodes.For, frame: Frame) -> None:  # noqa: N802 - jinja2's name
        node.iter = nodes.Call(nodes.EnvironmentAttribute("counted"), [node.iter], [], None, None)
        super().visit_For(node, frame)

    def visit_Concat(self, node: nodes.Concat, frame: Frame) -> None:  # noqa: N802
        self.visit(nodes.Call(nodes.EnvironmentAttribute("joined"), node.nodes, [], None, None), frame)


class _Sandbox(ImmutableSandboxedEnvironment):
    """For the templates of one moment. Renders one prompt at a time."""

    code_generator_class = _CountingCode
    intercepted_binops = frozenset(("+", "*", "**", "%"))

    def __init__(self, templates: Templates) -> None:
        super().__init__(
            loader=_Loader(templates),
            undefined=jinja2.StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
            keep_trailing_newline=True,
            autoescape=False,
            optimized=False,
            finalize=self._made_of,  # which also keeps constants from being worked out before anything is counted
        )
        del self.globals["lipsum"]
        self.filters = {name: self._bounded(name, made) for name, made in self.filters.items()}
        self.concat = self.joined_up  # type: ignore[method-assign]
        self.begin()

    def begin(self) -> None:
        """Count anew."""
        self._steps, self._end, self._made = 0, thread_time() + MOST_SECONDS, 0

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
        text = getattr(getattr(obj, "__wrapped__", obj), "__self__", None)  # that of a format is wrapped
        if isinstance(text, str):
            args = self._looked_at(obj.__name__, text, args, kwargs)
        return self._made_of(super().call(context, obj, *args, **kwargs))

    def joined(self, *parts: Any) -> str:
        """What `~` makes of its sides."""
        return self.joined_up(map(str, parts))

    def joined_up(self, parts: Iterable[str]) -> str:
        """The parts as one text, measured before it is made."""
        pieces = list(parts)
        self._make(sum(map(len, pieces)))
        return "".join(pieces)

    def _bounded(self, name: str, made: Any) -> Any:
        """The filter, with what it is given looked at and what it makes measured."""
        first = 1 if hasattr(made, "jinja_pass_arg") else 0

        @functools.wraps(made)
        def bounded(*args: Any, **kwargs: Any) -> Any:
            before, (value, *rest) = args[:first], args[first:]
            if name == "join" and not isinstance(value, str):
                value = list(value)
                between = rest[0] if rest and isinstance(rest[0], str) else ""
                self._make(sum(len(each) + len(between) for each in value if isinstance(each, str)))
            return self._made_of(made(*before, value, *self._looked_at(name, value, tuple(rest), kwargs), **kwargs))

        return bounded

    def _looked_at(self, name: str, value: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[Any, ...]:
        """The arguments of a filter or a method of texts, where they cannot make a small value a huge one."""
        given = [*args, *kwargs.values()]
        if any(isinstance(each, int) and abs(each) > _LARGEST_NUMBER for each in given):
            raise SecurityError(f"a number given to {name} is larger than {_LARGEST_NUMBER}")
        if name == "wordwrap" and len(str(value)) > _LARGEST_NUMBER:
            raise SecurityError(f"a text given to {name} is longer than {_LARGEST_NUMBER} characters")
        if name.startswith("format") and _WIDE.search(str(value)):
            raise SecurityError("a width in a format is too large")
        if name == "replace" and len(given) > 1:
            self._make(str(value).count(str(given[0])) * len(str(given[1])))
        if name == "join" and isinstance(value, str) and args:
            args = (list(args[0]), *args[1:])
            self._make(sum(len(each) + len(value) for each in args[0] if isinstance(each, str)))
        return args

    def _made_of(self, value: Any) -> Any:
        if isinstance(value, (str, list, tuple)):
            self._make(len(value))
        return value

    def _make(self, length: int) -> None:
        self._made += length
        if self._made > MOST_MADE:
            raise SecurityError(f"makes more than {MOST_MADE} characters on the way")

    def join_path(self, template: str, parent: str) -> str:
        """The name that an extends, include or import means, a step."""
        self._step()
        return super().join_path(template, parent)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """A sum, product or power, of a size that a prompt may need."""
        if operator == "%" and isinstance(left, str):
            self._looked_at("format", left, right if isinstance(right, tuple) else (right,), {})
        if operator in "+%":
            return self._made_of(super().call_binop(context, operator, left, right))
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
