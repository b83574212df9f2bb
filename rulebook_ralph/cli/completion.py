"""`ralph completion`: the script that completes commands and options in a shell."""

import click

from rulebook_ralph.cli.app import App
from rulebook_ralph.errors import RalphError

_HOW = {
    "bash": 'eval "$(ralph completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(ralph completion zsh)"    # in ~/.zshrc, after compinit',
    "fish": "ralph completion fish | source     # in ~/.config/fish/config.fish",
}


@click.command(epilog="\b\n" + "\n".join(_HOW.values()))
@click.argument("shell", type=click.Choice(sorted(_HOW)))
@click.pass_obj
def command(app: App, shell: str) -> int:
    """Print the completion script for a shell."""
    from click.shell_completion import get_completion_class  # noqa: PLC0415 - only here

    kind = get_completion_class(shell)
    if kind is None:
        raise RalphError(f"click knows no completion for {shell}")
    with app.console() as console:
        console.verbatim(kind(click.get_current_context().find_root().command, {}, "ralph", "_RALPH_COMPLETE").source())
    return 0
