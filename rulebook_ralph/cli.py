"""The command line: which commands there are, and the one boundary where errors become a line and an exit code.

Each command is a module of `rulebook_ralph.commands`, imported when it is called.
"""

import importlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TextIO

import click

from rulebook_ralph import __version__
from rulebook_ralph.app import App
from rulebook_ralph.clock import Clock
from rulebook_ralph.core.redaction import Redactor
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.workspace.git import GitError

COMMANDS: dict[str, str] = {
    "demo": "See it work: a scripted agent, no key, no network",
    "init": "Turn a task folder into .rulebook-ralph/, find the gates",
    "run": "Work until all is proven or a limit ends it; go on after",
    "resume": "Work until all is proven or a limit ends it; go on after",
    "pause": "End the run after this iteration, or now",
    "cancel": "End the run after this iteration, or now",
    "plan": "Plan, add, change tasks; apply edits that were held",
    "task": "Plan, add, change tasks; apply edits that were held",
    "accept": "Plan, add, change tasks; apply edits that were held",
    "verify": "Run gates and criteria; agree to a clone's commands",
    "trust": "Run gates and criteria; agree to a clone's commands",
    "status": "Where the tasks stand; what depends on what, as Mermaid",
    "graph": "Where the tasks stand; what depends on what, as Mermaid",
    "history": "The iterations so far; one with prompt, output and diff",
    "show": "The iterations so far; one with prompt, output and diff",
    "summary": "What was done, and a review of it, for a pull request",
    "review": "What was done, and a review of it, for a pull request",
    "restore": "Bring back an attempt from its snapshot; remove old ones",
    "prune": "Bring back an attempt from its snapshot; remove old ones",
    "doctor": "Whether a run could start; what is wrong with the files",
    "validate": "Whether a run could start; what is wrong with the files",
    "config": "See and change settings, and what prompts are made of",
    "templates": "See and change settings, and what prompts are made of",
    "agents": "The agents and what each supports; shell completion",
    "completion": "The agents and what each supports; shell completion",
    "plugin": "Ralph inside Claude Code: its plugin; what that calls",
    "hook": "Ralph inside Claude Code: its plugin; what that calls",
}
"""Commands that follow each other with the same words share a line of the help, which is to fit a screen."""


class Commands(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"rulebook_ralph.commands.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in COMMANDS and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - only for a misspelt command

            near = difflib.get_close_matches(args[0], COMMANDS, n=1)
            ctx.fail(f"no such command '{args[0]}'" + (f"; did you mean '{near[0]}'?" if near else ""))
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands ('ralph COMMAND --help' says more of each; start with: ralph demo)"):
            groups = itertools.groupby(COMMANDS, key=COMMANDS.__getitem__)
            formatter.write_dl([(", ".join(names), words) for words, names in groups])


@click.group(
    cls=Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.version_option(__version__, prog_name="ralph")
def root() -> None:
    """Ralph gives a repository's tasks to a coding agent, one at a time with fresh context, checks each result itself,
    and commits what holds.
    """


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script; ends the process with the exit code of DESIGN.md."""
    app = App(
        environment=dict(os.environ),
        cwd=_cwd(),
        home=Path(os.environ.get("HOME") or "~").expanduser(),
        stdout=sys.stdout or _nowhere(),
        stderr=sys.stderr or _nowhere(),
        clock=Clock(now=lambda: datetime.now(UTC).astimezone(), monotonic=time.monotonic),
    )
    sys.exit(run(app, arguments))


def run(app: App, arguments: Sequence[str] | None = None) -> int:
    """Run a command in the given surroundings; returns the exit code."""
    try:
        result = root.main(args=arguments, prog_name="ralph", standalone_mode=False, obj=app)
    except click.ClickException as error:
        error.show(app.stderr)
        return ExitCode.INVALID
    except RalphError as error:
        app.error(str(error))
        return error.exit_code
    except GitError as error:
        app.error(f"{error}; mend the repository, then give the command again")
        return ExitCode.UNEXPECTED
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the boundary: a traceback belongs in a file, not on the screen
        app.error(_unexpected(error, Redactor(app.environment).clean))
        return ExitCode.UNEXPECTED
    return int(result) if isinstance(result, int) else ExitCode.OK


def _unexpected(error: Exception, clean: Callable[[str], str]) -> str:
    import tempfile  # noqa: PLC0415 - only for a fault of Ralph's own
    import traceback  # noqa: PLC0415

    text = clean("".join(traceback.format_exception(error)))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="ralph-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
        where = f"details: {file.name}"
    except OSError:
        where = text
    return f"unexpected error ({type(error).__name__}: {str(error)[:200]}); the state is safe; {where}"


def _nowhere() -> TextIO:
    """For a standard stream that was closed before the start."""
    return Path(os.devnull).open("w", encoding="utf-8")


def _cwd() -> Path:
    try:
        return Path.cwd()
    except OSError:  # the folder was deleted
        return Path("/")


if __name__ == "__main__":
    main()
