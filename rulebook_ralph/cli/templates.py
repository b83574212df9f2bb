"""`ralph templates`: what prompts are made of, and how to have them otherwise."""

import click

from rulebook_ralph.cli.app import App, json_object
from rulebook_ralph.cli.places import refuse_agents, state_folder
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run import templates
from rulebook_ralph.run.templates import BUILT_IN, PLAN, PLAN_VARIABLES, PURPOSES, SUFFIX, VARIABLES, Templates
from rulebook_ralph.tasks import disk
from rulebook_ralph.tasks.disk import StateFolder, find_root
from rulebook_ralph.tasks.text import escaped, nearest


@click.group()
def templates_command() -> None:
    """The templates that prompts are made of (Jinja). Yours in .rulebook-ralph/templates/ take the place of the
    built-in ones of the same name, and may extend or include these as builtin/NAME.

    An edit counts from the next prompt on. `ralph validate` says what is wrong, with file and line.
    """


@templates_command.command("list", short_help="The templates, and what stands in which variable")
@json_object
@click.pass_obj
def list_command(app: App, /, *, json: bool) -> None:
    """List the templates, built in or overridden, what each is for, and the variables that they can use."""
    own = _own(app).names
    purposes = {**PURPOSES, **dict.fromkeys(sorted(own - PURPOSES.keys()), "included by others")}
    with app.console(json=json) as console:
        if json:
            listed = [
                {"name": name, "builtIn": name in PURPOSES, "overridden": name in own, "purpose": what}
                for name, what in purposes.items()
            ]
            variables = {"variables": dict(VARIABLES), "planVariables": dict(PLAN_VARIABLES)}
            console.json({"templates": listed, **variables})
            return
        which = {(True, True): "overridden", (True, False): "built in", (False, True): "your own"}
        rows = ((name, which[name in PURPOSES, name in own], what) for name, what in purposes.items())
        console.table(("template", "which", "what it is for"), rows)
        for heading, known in (("variable", VARIABLES), (f"in {PLAN}", PLAN_VARIABLES)):
            console.line("")
            console.table((heading, "what stands in it"), known.items())
        console.line("")
        console.line("to change one: ralph templates copy NAME")


@templates_command.command("show", short_help="The text of one, as it holds here")
@click.argument("name")
@click.option("--built-in", "built_in", is_flag=True, help="The built-in one, also where yours takes its place.")
@click.pass_obj
def show_command(app: App, /, *, name: str, built_in: bool) -> None:
    """Print the template NAME, as `coder` or `coder.md.j2`: yours where there is one, else the built-in one."""
    own = _own(app)
    known = _known(name, own)
    found = own.found(f"{BUILT_IN}{known}" if built_in else known)
    if found is None:
        raise RalphError(f"{known} is your own; there is no built-in one of that name")
    with app.console() as console:
        console.verbatim(found[0])


@templates_command.command("copy", short_help="Put a built-in one into your folder, to be edited")
@click.argument("name")
@click.option("--force", is_flag=True, help="Replace yours, if there is one.")
@click.pass_obj
def copy_command(app: App, /, *, name: str, force: bool) -> None:
    """Write the built-in template NAME to .rulebook-ralph/templates/, where it holds from the next prompt on."""
    known = _known(name, Templates())
    folder = state_folder(app)
    refuse_agents(app, "the templates may not be changed")
    file = folder.templates / known
    for path in (folder.path, folder.templates, file):
        if path.is_symlink():
            raise RalphError(f"{path} {disk.IS_LINK}")
    if file.exists() and not force:
        raise RalphError(
            f"{templates.shown(known)} is there already; to replace it: ralph templates copy {known} --force"
        )
    disk.make_folder(folder.templates)
    disk.replace_file(file, templates.built_in(known).encode("utf-8"))
    look = "whether it will do: ralph validate" if known == PLAN else "the prompt that comes of it: ralph run --dry-run"
    with app.console() as console:
        console.line(f"{templates.shown(known)}: edit it; to see {look}")


def _own(app: App) -> Templates:
    """The project's own templates; none outside of any. Raises RalphError where the folder cannot be read."""
    root = find_root(app.cwd)
    if root is None:
        return Templates()
    return templates.read(StateFolder(root).templates)[0]


def _known(name: str, own: Templates) -> str:
    """The name of a template that there is, given with or without its ending. Raises RalphError."""
    whole = name if "." in name else f"{name}{SUFFIX}"
    known = [*PURPOSES, *sorted(own.names)]
    if whole in known:
        return whole
    near = nearest(whole, known)
    told = f"did you mean {near}?" if near else "see: ralph templates list"
    raise RalphError(f"there is no template '{escaped(name)}'; {told}")
