"""A judging model as a program: `python scripted_judge.py ANSWER FOLDER [FILE]`, the question on its input.

ANSWER is yes, no, or `title`: yes where the task's title ends with an exclamation mark. A yes points to the first file
that is shown, else to FILE. What it was asked is kept in FOLDER, a line each. It gives no two reasons in the same words.
"""

import json
import random
import sys
from pathlib import Path
from typing import Any


def data_of(prompt: str) -> dict[str, Any]:
    """The data of a question that stands in one text."""
    after = prompt[prompt.index("Use no tools:") :].split("\n\n", 1)[1]
    data: dict[str, Any] = json.loads(after.rsplit("\n\nThat was the data.", 1)[0])
    return data


def answer_to(data: dict[str, Any], said: str, fallback: str = "") -> str:
    """The same answer to all items."""
    words = "".join(random.choices("abcdefgh ", k=20))
    place = data["files"][0]["file"] if data["files"] else fallback
    reason = f"{said} to {data['task']['title']}: {words}"
    items = [
        {"item": item["item"], "answer": said, "reason": reason, "file": place, "line": 0} for item in data["items"]
    ]
    return json.dumps({"items": items})


def main(answer: str, folder: str, fallback: str = "") -> None:
    data = data_of(sys.stdin.read())
    title = data["task"]["title"]
    said = ("yes" if title.endswith("!") else "no") if answer == "title" else answer
    with Path(folder, "asked.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"title": title, "items": data["items"], "answer": said}) + "\n")
    sys.stdout.write(answer_to(data, said, fallback) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
