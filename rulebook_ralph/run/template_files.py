"""A project's templates while a run goes on: read again when a person has edited one."""

from collections.abc import Callable
from pathlib import Path

from rulebook_ralph.clock import Clock
from rulebook_ralph.run import prompt, templates
from rulebook_ralph.run.prompt import Prompt, Situation
from rulebook_ralph.run.template_sandbox import BrokenTemplateError
from rulebook_ralph.run.templates import BUILT_IN_ALONE, Templates
from rulebook_ralph.tasks import disk


class TemplateFiles:
    """Makes the prompts of a run. `say` is told once of each edit: that it holds now, or why the last one goes on."""

    def __init__(self, folder: Path, say: Callable[[str, str], None], *, clock: Clock) -> None:
        self._folder = folder
        self._say = say
        self._clock = clock
        self._seen = templates.fingerprints(folder)
        self._good = _read(folder)[0]

    def prompt(self, situation: Situation) -> Prompt:
        """The prompt by the templates as they stand now; by the last good ones where these are broken, and where no
        others were good, by the built-in ones: an agent that can work is not kept from it.
        """
        if (text := self._by_edited(situation)) is not None:
            return text
        try:
            return prompt.render(situation, self._good)
        except BrokenTemplateError as error:
            self._say("warning", f"{error}; this prompt is the built-in one")
            return prompt.render(situation, BUILT_IN_ALONE)

    def _by_edited(self, situation: Situation) -> Prompt | None:
        """The prompt by templates that were changed; None where they were not, or where none can be made by them."""
        now = templates.fingerprints(self._folder)
        if now == self._seen:
            return None
        read, problem = _read(self._folder)
        text = None
        if not problem and read != self._good:
            try:
                text = prompt.render(situation, read)
            except BrokenTemplateError as error:
                problem = str(error)
        if problem and any(disk.is_being_saved(self._folder / name, self._clock.now()) for name in now):
            return None
        self._seen = now
        if problem:
            self._say("warning", f"{problem}; going on with the templates as they were")
        elif text is not None:
            self._good = read
            self._say("info", "the templates were edited: going on with them")
        return text


def _read(folder: Path) -> tuple[Templates, str]:
    read, problems = templates.read(folder)
    return read, str(problems[0]) if problems else ""
