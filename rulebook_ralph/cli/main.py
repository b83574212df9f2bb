"""The command line: which commands there are, and the one boundary where errors become a line and an exit code.

The module of a command is imported when the command is called.
"""

import importlib
import os
import sys
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn, TextIO

import click

from rulebook_ralph import __version__
from rulebook_ralph.cli.app import App
from rulebook_ralph.clock import Clock
from rulebook_ralph.errors import ExitCode, RalphError

GROUPS = {
    "demo init": "See it work, with no key; begin: find tasks and gates",
    "run resume": "Work until all is proven or a limit ends it; go on",
    "pause cancel events": "End the run soon, or now; follow it by program",
    "plan task": "Plan, add, change tasks",
    "approve land": "Agree to work that waits; have the branch follow",
    "verify trust": "Run gates and criteria; agree to a clone's commands",
    "status graph": "Where the tasks stand; dependencies as Mermaid",
    "history show logs": "The iterations; one of them; what its agent did",
    "summary review": "What was done, and a review of it, for a pull request",
    "restore prune": "Bring back an attempt; remove old ones",
    "doctor validate": "Whether a run could start; what is wrong in the files",
    "config templates": "See and change settings, and what prompts are made of",
    "agents completion": "The agents and what each supports; shell completion",
    "plugin hook": "Ralph inside Claude Code: its plugin; what that calls",
}
"""The commands that share a line of the help, which is to fit a screen."""
_SHARED = {
    "run": "resume",
    "status": "history",
    "show": "logs",
    "verify": "review",
    "summary": "graph",
    "approve": "land",
    "control": "pause cancel events",
    "attempts": "restore prune",
    "main": "completion",
}
"""Module -> commands that have none of their own name."""
_MODULES = {name: module for module, names in _SHARED.items() for name in names.split()}
COMMANDS = {name: f"{_MODULES.get(name, name)}:{name}_command" for names in GROUPS for name in names.split()}
"""Command -> where it is: a module of `rulebook_ralph.cli`, a colon, a name in it."""
FORMER_NAMES = {"task-create": "task add", "task-edit": "task edit", "task-list": "task list", "task-show": "task show"}
"""What the specifications call them, and what they are today; `ralph-status` is `status`."""
SHELLS = {
    "bash": 'eval "$(ralph completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(ralph completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "ralph completion fish | source     # in ~/.config/fish/config.fish",
}
"""Where the script that completes commands and options belongs."""


class CommandGroup(click.Group):
    """A group that lists its commands without importing them. `places` are as in COMMANDS."""

    def __init__(self, *arguments: object, places: dict[str, str] | None = None, **settings: object) -> None:
        super().__init__(*arguments, **settings)  # type: ignore[arg-type]  # click's own
        self.places = COMMANDS if places is None else places

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.places)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's signature
        if cmd_name not in self.places:
            return None
        module, _, name = self.places[cmd_name].partition(":")
        command: click.Command = getattr(importlib.import_module(f"rulebook_ralph.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in self.places and not args[0].startswith("-"):
            import difflib  # noqa: PLC0415 - only for a misspelt command

            name = args[0].removeprefix("ralph-")
            near = [name] if name in self.places else difflib.get_close_matches(args[0], self.places, n=1)
            meant = FORMER_NAMES.get(name) or "".join(near)
            ctx.fail(f"no such command '{args[0]}'" + (f"; did you mean '{meant}'?" if meant else ""))
        return super().resolve_command(ctx, args)


class _Root(CommandGroup):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands ('ralph COMMAND --help' says more of each; start with: ralph demo)"):
            formatter.write_dl([(names.replace(" ", ", "), told) for names, told in GROUPS.items()])


@click.group(cls=_Root, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, prog_name="ralph")
def root() -> None:
    """Ralph gives a repository's tasks to a coding agent, one at a time with fresh context, checks each result itself,
    and commits what holds.
    """


@click.command(epilog="\b\n" + "\n".join(SHELLS.values()))
@click.argument("shell", type=click.Choice(tuple(SHELLS)))
@click.pass_obj
def completion_command(app: App, shell: str) -> None:
    """Print the completion script for a shell."""
    from click import shell_completion  # noqa: PLC0415 - only here

    kind = getattr(shell_completion, f"{shell.title()}Complete")
    with app.console() as console:
        console.verbatim(kind(root, {}, "ralph", "_RALPH_COMPLETE").source())


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """The console script; ends the process with one of the exit codes of errors.py."""
    app = App(
        environment=dict(os.environ),
        cwd=_cwd(),
        home=Path(os.environ.get("HOME") or "~").expanduser(),
        stdout=sys.stdout or _nowhere(),
        stderr=sys.stderr or _nowhere(),
        clock=Clock(now=lambda: datetime.now(UTC).astimezone(), monotonic=time.monotonic),
    )
    sys.exit(run(app, arguments))


def run(app: App, arguments: Sequence[str] | None = None) -> ExitCode:
    """Run a command in the given surroundings; returns the exit code."""
    try:
        result = root.main(args=arguments, prog_name="ralph", standalone_mode=False, obj=app)
    except click.ClickException as error:
        error.show(app.stderr)
        return ExitCode.INVALID
    except RalphError as error:
        app.error(str(error))
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        return ExitCode.INTERRUPTED
    except Exception as error:  # noqa: BLE001 - the boundary: a traceback belongs in a file, not on the screen
        from rulebook_ralph.verify.workspace import Cancelled  # noqa: PLC0415 - only where something failed

        if isinstance(error, Cancelled):
            return ExitCode.INTERRUPTED
        app.error(_unexpected(app, error))
        return ExitCode.UNEXPECTED
    return ExitCode(result) if isinstance(result, int) else ExitCode.OK


def _unexpected(app: App, error: Exception) -> str:
    from rulebook_ralph.git.repository import GitError  # noqa: PLC0415 - only where something failed

    if isinstance(error, GitError):
        return f"{error} (in {app.cwd}); mend the repository, then give the command again"
    from rulebook_ralph.tasks import disk  # noqa: PLC0415
    from rulebook_ralph.verify.redaction import Redactor  # noqa: PLC0415

    if isinstance(error, OSError) and (explained := disk.explained(error, of=app.cwd)):
        return str(explained)
    told = _logged(error, Redactor(app.environment).clean)
    return f"unexpected error ({type(error).__name__}: {str(error)[:200]}); the state is safe; {told}"


def _logged(error: Exception, clean: Callable[[str], str]) -> str:
    """Where the details are: in a file, or following where none can be written."""
    import tempfile  # noqa: PLC0415 - only for a fault of Ralph's own
    import traceback  # noqa: PLC0415

    text = clean("".join(traceback.format_exception(error)))
    try:
        with tempfile.NamedTemporaryFile(
            "w", prefix="ralph-", suffix=".log", delete=False, encoding="utf-8", errors="backslashreplace"
        ) as file:
            file.write(text)
    except OSError:
        return text
    return f"details: {file.name}"


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
