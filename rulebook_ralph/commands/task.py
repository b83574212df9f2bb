"""`ralph task`: the task list from the command line, also while a run goes on."""

import importlib

import click

_COMMANDS = {
    "add": ("task_add", "A new task, with what completes it"),
    "edit": ("task_edit", "Other words for a task; without options, in an editor"),
    "note": ("task_moves", "Tell whoever works on a task something more"),
    "list": ("task_list", "The tasks and where they stand"),
    "show": ("task_show", "One task, whole"),
    "unblock": ("task_moves", "A blocked task is pending again, with its attempts anew"),
    "reopen": ("task_moves", "A completed task is pending again"),
    "done": ("task_moves", "The work was there already: completed without an agent"),
    "remove": ("task_moves", "Take a task off the list"),
}


class _Commands(click.Group):
    """Lists commands without importing them."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _COMMANDS:
            import difflib  # noqa: PLC0415 - only for a misspelt command

            near = difflib.get_close_matches(cmd_name, _COMMANDS, n=1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            ctx.fail(f"no such command '{cmd_name}'{hint}")
        module = importlib.import_module(f"rulebook_ralph.commands.{_COMMANDS[cmd_name][0]}")
        command: click.Command = getattr(module, f"{cmd_name}_command")
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's signature
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in _COMMANDS.items()])


@click.group(cls=_Commands, epilog="'ralph task COMMAND --help' says more of each.")
def command() -> None:
    """Add, change and look at tasks.

    These commands change .rulebook-ralph/prd.json as an editor would, checked before anything is written. While a run
    goes on it takes the change over at once; agents cannot use them.
    """
