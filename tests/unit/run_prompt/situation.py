"""What a prompt is made of, for tests of prompts: one task, the stage coder, nothing behind it."""

from collections.abc import Sequence
from typing import Any

from msgspec.structs import replace

from rulebook_ralph.config.settings import Config, Limits, VerificationStep
from rulebook_ralph.run import prompt
from rulebook_ralph.tasks import progress
from rulebook_ralph.tasks.model import Prd, Task

STEPS = (VerificationStep(name="tests", command="make test"),)


def situation(
    *,
    rules: Sequence[str] = ("Write tests.",),
    steps: Sequence[VerificationStep] = STEPS,
    prompt_tokens: int = 50_000,
    config: Config | None = None,
    **values: Any,
) -> prompt.Situation:
    """`rules`, `steps` and `prompt_tokens` are those of the configuration, where none is given."""
    task = Task(id="one", title="Do one", description="All of it.", acceptance_criteria=("It works.",))
    common = Config()
    defaults: dict[str, Any] = {
        "config": config
        or replace(
            common,
            rules=tuple(rules),
            verification=replace(common.verification, steps=tuple(steps)),
            limits=Limits(prompt_tokens=prompt_tokens),
        ),
        "prd": Prd(version=1, project="toy", tasks=(task,)),
        "task": task,
        "stage": "coder",
        "progress": progress.header("toy", created_at="2026-01-01T00:00:00.000Z", task_count=1),
        "commits": ("abc1234 first",),
        "base": "0123456789abcdef",
        "iteration": 1,
        "max_iterations": 9,
        "attempt": 1,
    }
    return prompt.Situation(**(defaults | values))
