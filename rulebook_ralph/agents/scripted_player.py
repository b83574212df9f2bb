"""The program behind the `scripted` agent: plays one attempt from a script, as a real process with real effects.

It is started by its path in an isolated interpreter, so it imports nothing of the package and starts at once. Which
attempt it plays is told by RALPH_TASK and RALPH_ATTEMPT, the token of its promise by RALPH_PROMISE. A script:

    {"tasks": {"<task id>": [attempt, …]}, "default": attempt}

Beyond the last attempt of a task, the last is played again. An attempt, all of it optional: `steps` (each `say`,
`wait` or one of TOOLS, its first key), `final` (text of the final message), `report` (its ralph-report block),
`promise` (true, false or a token), `exit` (code), `cost` (dollars), `tokens`, `crash` (true: ends without a terminal
event).
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False  # `typing` would take as long to import as all the rest
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    Table = dict[str, Any]

_OUTPUT = 20_000


def main(script: str) -> int:
    sys.stdin.buffer.read()
    with open(script, encoding="utf-8") as file:  # noqa: PTH123 - pathlib would double the time to start
        played = json.load(file)
    attempts = played.get("tasks", {}).get(os.environ.get("RALPH_TASK")) or [played.get("default", {})]
    attempt = attempts[min(int(os.environ.get("RALPH_ATTEMPT", "1")), len(attempts)) - 1]
    for step in attempt.get("steps", []):
        play(step)
    if not attempt.get("crash"):
        tokens = int(attempt.get("tokens", 0))
        emit(
            "result",
            success=True,
            final_text=final_text(attempt, os.environ.get("RALPH_PROMISE", "")),
            usage={"input_tokens": tokens - tokens // 10, "output_tokens": tokens // 10},
            cost=attempt.get("cost"),
        )
    return int(attempt.get("exit", 0))


def final_text(attempt: Table, token: str) -> str:
    parts = [attempt.get("final", "")]
    if "report" in attempt:
        parts.append(f"```ralph-report\n{json.dumps(attempt['report'], indent=2, ensure_ascii=False)}\n```")
    promise = attempt.get("promise", False)
    token = promise if isinstance(promise, str) else token
    if promise and token:
        parts.append(f"<promise>{token}</promise>")
    return "\n\n".join(filter(None, parts))


def emit(kind: str, **fields: object) -> None:
    print(json.dumps({"type": kind, **fields}), flush=True)  # noqa: T201 - a program of its own


def play(step: Table) -> None:
    if "say" in step:
        emit("text", text=step["say"])
    elif "wait" in step:
        time.sleep(step["wait"])
    else:
        key = next(iter(step))
        name, work = TOOLS[key]
        emit("tool", name=name, detail=str(step[key]))
        try:
            output, success = work(step), True
        except (OSError, ValueError) as error:
            output, success = str(error), False
        emit("tool_result", name=name, success=success, output=output[-_OUTPUT:])


def write(step: Table) -> str:
    path = step["write"]
    os.makedirs(os.path.dirname(path) or ".", exist_ok=True)  # noqa: PTH103, PTH120
    with open(path, "w", encoding="utf-8", newline="") as file:  # noqa: PTH123
        file.write(step.get("content", ""))
    return f"wrote {path}"


def replace(step: Table) -> str:
    path, old = step["replace"], step["old"]
    with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123
        text = file.read()
    if old not in text:
        raise ValueError(f"{path} does not contain {old!r}")
    return write({"write": path, "content": text.replace(old, step["new"], 1)})


def run(step: Table) -> str:
    import subprocess  # noqa: PLC0415 - takes as long to import as all the rest

    done = subprocess.run(  # noqa: S602 - the script's own command
        step["run"], shell=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False
    )
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        raise ValueError(f"{output}exit code {done.returncode}")
    return output


TOOLS: dict[str, tuple[str, Callable[[Table], str]]] = {
    "write": ("Write", write),
    "replace": ("Edit", replace),
    "run": ("Bash", run),
}
"""Each returns its output, or raises OSError or ValueError where it fails."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
