"""`ralph demo`: the genuine loop on a small project, with a scripted agent; no key, no network."""

import json
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

import click

from rulebook_ralph import resources
from rulebook_ralph.cli import init, run
from rulebook_ralph.cli.app import App
from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks import disk, prd_file
from rulebook_ralph.tasks.edits import TaskChange, apply

_SUFFIX = ".txt"
_ITERATIONS = 5
"""Of the script, where it is played to its end."""
_COMMAND = """python3 -c "from sundial.writing import write; assert write(1994) == 'MCMXCIV'\""""
_CRITERION = TaskChange(
    task_id="phase2_write-numerals",
    merge={
        "completion": {
            "coder": {
                "promise": "IMPLEMENTATION_COMPLETE",
                "verificationMethod": "external",
                "verificationConfig": {"command": _COMMAND},
            }
        }
    },
)
"""Shows without any model that the work said to be done is not there."""
_BEFORE = """\
A small project in {}: three tasks in rulebook/tasks/, tests in tests/.
The agent is scripted: it does the first task well, lies about the second ('done', nothing
changed), breaks a test, mends it with the feedback, and does the third. No model is asked.
"""
_AFTER = """
The project is in {0}; look at it:
  cd {0}
  git log --stat           one commit for each task, with trailers; the state once, at the end
{1}
  cat .rulebook-ralph/prd.json .rulebook-ralph/progress.txt"""
_AS_WRITTEN = """\
  ralph history            five iterations; the lie is number 2
  ralph show 3             the test that broke, and the feedback the agent got
  ralph show 4             the tests that were red on the code of before, and pass now"""
_OTHERWISE = "  ralph history            the iterations, and how each ended"
_IDENTITY = {
    "GIT_AUTHOR_NAME": "Ralph demo",
    "GIT_AUTHOR_EMAIL": "demo@ralph.invalid",
    "GIT_COMMITTER_NAME": "Ralph demo",
    "GIT_COMMITTER_EMAIL": "demo@ralph.invalid",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
}


@click.command()
@click.option("--dir", "folder", type=click.Path(path_type=Path), help="Make the project in this new or empty folder.")
@click.option("--keep/--no-keep", default=True, show_default=True, help="Keep the project afterwards.")
@click.pass_obj
def demo_command(app: App, *, folder: Path | None, keep: bool) -> int:
    """See it work: three tasks, real tests, real git, and an agent that lies about one of them."""
    target = (app.cwd / folder) if folder else Path(tempfile.mkdtemp(prefix="ralph-demo-")) / "sundial"
    there = replace(app, cwd=target, environment=_environment(app, target), home=target.parent / "no-home")
    try:
        _make_project(target, there.environment)
        with app.console() as console:
            console.line(_BEFORE.format(target))
        code = _init_and_run(there)
        if keep:
            with app.console() as console:
                console.line(_AFTER.format(target, _AS_WRITTEN if _went_as_written(target) else _OTHERWISE))
    finally:
        if not keep:
            shutil.rmtree(target if folder else target.parent, ignore_errors=True)
    return code


def _environment(app: App, target: Path) -> dict[str, str]:
    """The demo's own surroundings: no RALPH_* or git settings of the person's reach it."""
    kept = {name: value for name, value in app.environment.items() if not name.startswith(("RALPH_", "GIT_"))}
    cache = {"RALPH_CACHE_DIR": app.environment.get("RALPH_CACHE_DIR") or str(target.parent / "clones")}
    return kept | _IDENTITY | cache


def _make_project(target: Path, environment: dict[str, str] | object) -> None:
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise RalphError(f"{target} exists already; name an empty or new folder with --dir")
    source = resources.template_folder() / "demo" / "project"
    for path in sorted(source.rglob("*")):
        if path.is_file():
            name = path.relative_to(source).as_posix()
            copy = target / (name.removesuffix(_SUFFIX) if name.endswith(f".py{_SUFFIX}") else name)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(path.read_bytes())
    for arguments in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-q", "-m", "A sundial, to be finished")):
        try:
            subprocess.run(["git", *arguments], cwd=target, env=environment, check=True, capture_output=True)  # type: ignore[arg-type]
        except FileNotFoundError:
            raise RalphError("git is not installed or not on PATH; install git") from None
        except subprocess.CalledProcessError as error:
            problem = error.stderr.decode("utf-8", "replace").strip()
            raise RalphError(f"git {arguments[0]} failed in {target}: {problem}") from None


def _init_and_run(there: App) -> int:
    folder, result = init.make(there)
    disk.replace_file(folder.prd, prd_file.encode_prd(apply(result.prd, _CRITERION, at=there.clock.iso()).prd))
    script = resources.template_folder() / "demo" / "script.json"
    text = resources.template_text("demo/config.yaml")
    folder.config.write_text(text.replace("{script}", json.dumps(str(script))[1:-1]), "utf-8")
    return run.start(there, run.Flags(trust_commands=True), command="run")


def _went_as_written(target: Path) -> bool:
    """Whether nobody ended the run, or an attempt, before its time."""
    prd = prd_file.read_prd(disk.StateFolder(target).prd)
    return prd.totals.iterations == _ITERATIONS and all(task.status == "completed" for task in prd.tasks)
