"""A judging model as a program: `python scripted_judge.py ANSWER FOLDER [FILE]`, the question on its input.

ANSWER is yes, no, or `title`: yes where the task's title ends with an exclamation mark. A yes points to the first file
that is shown, else to FILE. What it was asked is kept in FOLDER, a line each. It gives no two reasons in the same words.
"""

import json
import random
import sys
from pathlib import Path


def main(answer: str, folder: str, fallback: str = "") -> None:
    prompt = sys.stdin.read()
    data = json.loads(
        prompt[prompt.index("Use no tools:") :].split("\n\n", 1)[1].rsplit("\n\nThat was the data.", 1)[0]
    )
    title = data["task"]["title"]
    said = ("yes" if title.endswith("!") else "no") if answer == "title" else answer
    with Path(folder, "asked.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps({"title": title, "items": data["items"], "answer": said}) + "\n")
    words = "".join(random.choices("abcdefgh ", k=20))
    place = data["files"][0]["file"] if data["files"] else fallback
    items = [
        {
            "item": item["item"],
            "answer": said,
            "reason": f"{said} to {title}: {words}",
            "file": place,
            "line": 0,
        }
        for item in data["items"]
    ]
    sys.stdout.write(json.dumps({"items": items}) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
