"""What a prompt is made of, for tests of prompts: one task, the stage coder, nothing behind it."""

from typing import Any

from rulebook_ralph.config.settings import StopCriteria, VerificationStep
from rulebook_ralph.run import prompt
from rulebook_ralph.tasks import progress
from rulebook_ralph.tasks.criteria import Criteria
from rulebook_ralph.tasks.model import Prd, Task


def situation(**values: Any) -> prompt.Situation:
    task = Task(id="one", title="Do one", description="All of it.", acceptance_criteria=("It works.",))
    defaults: dict[str, Any] = {
        "prd": Prd(version=1, project="toy", tasks=(task,)),
        "task": task,
        "stage": "coder",
        "progress": progress.header("toy", created_at="2026-01-01T00:00:00.000Z", task_count=1),
        "commits": ("abc1234 first",),
        "rules": ("Write tests.",),
        "steps": (VerificationStep(name="tests", command="make test"),),
        "criteria": Criteria(promise="IMPLEMENTATION_COMPLETE"),
        "stop_criteria": StopCriteria(),
        "base": "0123456789abcdef",
        "changed": (),
        "feedback": "",
        "iteration": 1,
        "max_iterations": 9,
        "attempt": 1,
        "max_attempts": 3,
        "prompt_tokens": 50_000,
    }
    return prompt.Situation(**(defaults | values))
