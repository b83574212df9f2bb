"""What a person does while an agent works: a sh script, run in the user's tree at that moment."""

import subprocess
import threading
import time

from tests.harness import PROMISE, Project, Ran, wait_for

WAIT = 'touch "$BESIDE/now"; while ! test -e "$BESIDE/done"; do sleep 0.02; done\n'
"""For an agent's script: until the person has done it."""
WAITS = (
    'mkdir -p work; echo "$RALPH_TASK" > "work/$RALPH_TASK.txt"\n'
    f'if test "$RALPH_TASK" = two; then {WAIT}fi\n' + PROMISE
)
"""An agent that waits at its second task."""


def during(project: Project, script: str, *, then: float = 0.0) -> Ran:
    """Run, and run the script while the agent waits, which goes on as many seconds later."""
    for name in ("now", "done"):
        (project.beside / name).unlink(missing_ok=True)
    (project.beside / "script").write_text(script)
    failures: list[str] = []

    def meanwhile() -> None:
        try:
            wait_for((project.beside / "now").exists, "an agent that waits")
            words = ["sh", "-e", str(project.beside / "script")]
            done = subprocess.run(words, cwd=project.root, check=False, capture_output=True, text=True)
            failures.extend([done.stderr] if done.returncode else [])
            time.sleep(then)
        finally:
            (project.beside / "done").touch()

    person = threading.Thread(target=meanwhile)
    person.start()
    ran = project.ralph("run")
    person.join()
    assert failures == [], (failures, ran.out)
    return ran
