"""A small model's words on a completed task, in place of those of the agent that did it (`defaults.summarizer`).

They are no more than a claim, as the agent's own are: `completion_summary` leaves out what git denies, and git and
syntax tell all facts.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from secrets import token_hex

from msgspec.structs import replace

from rulebook_ralph.checks.data_block import RULE_OF_DATA, Token, data, fresh_words, indented
from rulebook_ralph.checks.model_answer import UnusableAnswerError, decoded
from rulebook_ralph.core.diff import FileDiff
from rulebook_ralph.core.evidence import ParsedIteration
from rulebook_ralph.core.model import CompletionSummary, Task
from rulebook_ralph.core.question import Ask, ModelError, Question
from rulebook_ralph.loop.token_budget import cut

_SCHEMA = {
    "type": "object",
    "properties": {
        "summary": {"type": "string"},
        "verificationSteps": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["summary", "verificationSteps"],
    "additionalProperties": False,
}
_LONGEST_MESSAGE = 8_000
"""Tokens of the agent's final message that the model is shown."""
_MOST_FILES = 200

_INSTRUCTIONS = """\
A coding agent has completed a task. Others will build on it. Tell them what there is now that was not before.

{rule}
2. Answer with one JSON object and nothing else: `summary`, two or three sentences on what was brought about, naming
   what others can use, without praise and without how it was done; `verificationSteps`, a list of short steps by which
   one sees that it works, empty where the data tells none.
3. Say only what the data says. Name a file only where it is listed as changed.

The task: {title}
{description}"""


@dataclass(frozen=True, slots=True)
class Summarizer:
    """Without `ask` there are the agent's own words. `warn` is told when the model could not be asked or understood."""

    ask: Ask | None
    warn: Callable[[str], None]
    clean: Callable[[str], str]
    token: Token = token_hex

    def reworded(
        self, parsed: ParsedIteration, task: Task, final_text: str, diff: Sequence[FileDiff]
    ) -> ParsedIteration:
        """What the agent claims, with the model's summary and verification steps."""
        if self.ask is None:
            return parsed
        try:
            told = _read(self.ask(_question(task, final_text, diff, self.token)))
        except (ModelError, UnusableAnswerError) as error:
            self.warn(f"the summary of {task.id} is in the agent's words: {error}")
            return parsed
        steps = tuple(map(self.clean, told.verification_steps))
        return replace(parsed, summary=self.clean(told.summary), verification_steps=steps)


def _question(task: Task, final_text: str, diff: Sequence[FileDiff], token: Token) -> Question:
    message = cut(final_text, _LONGEST_MESSAGE)
    changed = [f"{file.kind} {file.path}" for file in diff[:_MOST_FILES]]
    more = [f"and {len(diff) - _MOST_FILES} more"] if len(diff) > _MOST_FILES else []
    others = ["Files changed:", *changed, *more, "What the agent said at the end:", *message.splitlines()]
    nonce = next(fresh_words(token, "\n".join(others)))
    instructions = _INSTRUCTIONS.format(
        rule=RULE_OF_DATA.format(nonce=nonce),
        title=" ".join(task.title.split()),
        description=indented(task.description),
    )
    return Question(instructions=instructions, data=data([], others, nonce), schema=_SCHEMA)


def _read(answer: str) -> CompletionSummary:
    """Also out of a code fence or between words. Raises UnusableAnswerError."""
    told = decoded(answer[answer.find("{") : answer.rfind("}") + 1], CompletionSummary)
    if not told.summary.strip():
        raise UnusableAnswerError("it tells no summary")
    return told
