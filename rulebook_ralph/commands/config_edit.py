"""`ralph config edit`: a config file in the person's own editor, looked at afterwards."""

import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

import click

from rulebook_ralph import config
from rulebook_ralph.app import App
from rulebook_ralph.commands.config_file import ConfigFile, file_of, is_run, replace, require_person, write_schema
from rulebook_ralph.errors import ExitCode, RalphError

_SHOWN = 10


@click.command("edit", short_help="The file in your editor, looked at afterwards")
@click.option("--user", is_flag=True, help="Your own file, for all projects, not the project's.")
@click.pass_obj
def edit_command(app: App, /, *, user: bool) -> int:
    """Open the project's config.yaml in $VISUAL or $EDITOR, and look at it afterwards.

    What you wrote stays, also when something is wrong in it; then each problem is told with its line, and on a
    terminal you may edit again. Ends with 2 as long as something is wrong.
    """
    file = file_of(app, user=user)
    require_person(app)
    editor = _editor(app)
    before = file.read()
    if not file.is_users and is_run(app, file):
        return _beside(app, file, editor, before)
    if before is None:
        replace(app, file, None, config.commented_config(()).encode("utf-8"))
        write_schema(file.path.parent)
    code = _until_right(app, file, editor, file.path)
    if code != ExitCode.OK:
        app.error(f"nothing was taken back; mend {file.shown} before the next run: ralph config edit")
    return code


def _beside(app: App, file: ConfigFile, editor: list[str], before: bytes | None) -> int:
    """During a run what is written in the file itself is put back: a copy is edited, and the run takes it over."""
    content = config.commented_config(()).encode("utf-8") if before is None else before
    with tempfile.NamedTemporaryFile("wb", prefix="ralph-config-", suffix=".yaml", delete=False) as copy:
        copy.write(content)
    path = Path(copy.name)
    code = _until_right(app, file, editor, path)
    if code == ExitCode.OK:
        try:
            when = replace(app, file, before, path.read_bytes())
        except RalphError as error:
            raise RalphError(f"{error}; your edit is kept in {path}") from None
        path.unlink()
        with app.console() as console:
            console.line(f"{file.shown}: {when or 'nothing changed'}")
    else:
        app.error(f"your edit is kept in {path}, and {file.shown} is as it was")
    return code


def _until_right(app: App, file: ConfigFile, editor: list[str], path: Path) -> ExitCode:
    """Have the person edit what stands at `path`, again while something is wrong in it and they want to."""
    while True:
        ended = subprocess.run([*editor, str(path)], cwd=app.cwd, env=app.environment, check=False)
        if ended.returncode != 0:
            raise RalphError(f"the editor ended with {ended.returncode}; see what stands in {path}")
        problems = _problems(app, file, path)
        with app.console() as console:
            for problem in problems[:_SHOWN]:
                console.error(problem)
            if not problems and path == file.path:
                console.line(f"{file.shown}: no problems")
        if not problems:
            return ExitCode.OK
        if not _wants_again(app):
            return ExitCode.INVALID


def _editor(app: App) -> list[str]:
    """Raises RalphError where there is none."""
    given = app.environment.get("VISUAL") or app.environment.get("EDITOR") or ("vi" if app.stdout.isatty() else "")
    try:
        words = shlex.split(given)
    except ValueError as error:
        raise RalphError(f"EDITOR ({given}) cannot be split into words: {error}") from None
    if not words or shutil.which(words[0], path=app.environment.get("PATH")) is None:
        told = f"there is no editor '{words[0]}'" if words else "no editor is set"
        raise RalphError(f"{told}; set EDITOR, or change single values: ralph config set KEY VALUE")
    return words


def _problems(app: App, file: ConfigFile, path: Path) -> tuple[str, ...]:
    """All that is wrong in what stands at `path`, else what is wrong with it and the other files together."""
    if found := config.problems_of(path, file.shown if path == file.path else str(path)):
        return tuple(map(str, found))
    try:
        content = path.read_bytes()
        config.load_with_origins(file.root, environment=app.environment, home=app.home, instead={file.path: content})
    except OSError as error:
        return (f"{path}: cannot be read: {error.strerror}",)
    except RalphError as error:
        return (str(error),)
    return ()


def _wants_again(app: App) -> bool:
    return app.has_person and click.confirm("Edit it again?", default=True)
