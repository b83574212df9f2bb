"""`ralph config`: the settings that hold here, where each comes from, and changing them."""

import click

from rulebook_ralph.commands.config_change import set_command, unset_command
from rulebook_ralph.commands.config_edit import edit_command
from rulebook_ralph.commands.config_show import get_command, path_command, show_command


class _Commands(click.Group):
    """Lists commands in the order in which they are of use."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(self.commands)


@click.group(cls=_Commands)
def command() -> None:
    """See and change settings: built-in values, then your own file (--user), the project's, RALPH_* variables and
    flags; what comes later wins.

    Maps are merged, a list replaces the one before it, and one under a key with a `+` (`+rules`) is added to it.
    KEY is as in limits.maxCostUsd, verification.steps.0.timeout or tools.executors.claude.model.
    """


for each in (show_command, get_command, set_command, unset_command, edit_command, path_command):
    command.add_command(each)
