"""`ralph doctor`: whether a run could start here, and what to do where it could not."""

import platform
import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import click

from rulebook_ralph import __version__
from rulebook_ralph.cli.app import App, interruptible, json_object, trust_commands
from rulebook_ralph.cli.diagnosis import Diagnosis, of_agents, ok, refused, warning, wrong
from rulebook_ralph.cli.places import OpenedProject, open_project, open_root, private_folder, project_root
from rulebook_ralph.cli.trust import require_agreed
from rulebook_ralph.cli.validate import all_problems
from rulebook_ralph.config import requirements
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import ExitCode, RalphError
from rulebook_ralph.git.cache import cache_root
from rulebook_ralph.git.landing import require_committer
from rulebook_ralph.git.repository import GitError, Repository, unsupported
from rulebook_ralph.process.box import NoBox, probe_box
from rulebook_ralph.process.cancellation import Cancellation
from rulebook_ralph.report import notify
from rulebook_ralph.run import lock, preflight, verifying
from rulebook_ralph.run.branch import branch_with_list
from rulebook_ralph.tasks import history, prd_file
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import Prd
from rulebook_ralph.tasks.results import CheckResult
from rulebook_ralph.tasks.text import counted, duration, printable, some

_OUTPUT_LINES = 4
_LEAST_FREE = 1024**3
_NOT_FOUND = 127
_SETUP_FAILED = "not run: workspace.setup failed"
_HOOKS = ("pre-commit", "commit-msg")
_UNUSABLE = Diagnosis("unknown", "not looked at: the project or its configuration cannot be used")


@click.command()
@click.option("--no-gates", is_flag=True, help="Do not run the gates.")
@trust_commands
@json_object
@click.pass_obj
def doctor_command(app: App, *, no_gates: bool, trust_commands: bool, json: bool) -> ExitCode:
    """Look at all that a run needs: git, the state, the agents and their logins, the lock, the sandbox, the disk; run
    the gates once, in a clone. Changes nothing of yours.

    Each line is ok, a warning, an error (a run would not start, or complete nothing), or ? where it cannot be told.
    Ends with 0 without errors, else with the exit code that a run would have: 2, 3 for the gates, 5 for an agent.
    """
    found: list[tuple[str, Diagnosis]] = []
    with app.console(json=json) as console, interruptible() as cancelled:

        def tell(line: str) -> None:
            if not json:
                console.line(printable(line))

        for group, look in _looks(app, gates=not no_gates, trusted=trust_commands, cancelled=cancelled):
            tell(group)
            for each in _safely(look):
                if each.state == "error" and any(each == other for _, other in found):
                    tell("  error    as above")
                    continue
                found.append((group, each))
                tell(f"  {'?' if each.state == 'unknown' else each.state:<8} {each}")
                for line in each.output.splitlines():
                    tell(f"           | {line}")
        codes = {each.exit_code for _, each in found if each.state == "error"} or {ExitCode.OK}
        code = codes.pop() if len(codes) == 1 else ExitCode.INVALID
        states = [each.state for _, each in found]
        tell(
            ", ".join(counted(states.count(each), each) for each in ("error", "warning") if each in states)
            or "no problems"
        )
        if json:
            diagnoses = [
                {"group": group, "state": each.state, "text": each.text, "advice": each.advice, "output": each.output}
                for group, each in found
            ]
            console.json({"success": code == ExitCode.OK, "exitCode": int(code), "diagnoses": diagnoses})
    return code


def _looks(
    app: App, *, gates: bool, trusted: bool, cancelled: Cancellation
) -> Iterator[tuple[str, Callable[[], Iterable[Diagnosis]]]]:
    """What is looked at, in groups, each to be read to its end before the next."""
    opened: OpenedProject | None = None
    problem: RalphError | None = None
    try:  # nothing is run that nobody agreed to
        found = open_project(app)
        require_agreed(app, found, trusted=trusted, asks=False)
        opened = found
    except RalphError as error:
        problem = error
    prd: Prd | None = None
    with suppress(RalphError):  # what is wrong with it is said of the files
        prd = prd_file.read_prd(StateFolder(project_root(app)).prd)
    yield "git", lambda: _git(app, prd)
    yield "Ralph", lambda: _ralph(app, opened, problem, prd)
    yield "agents", lambda: of_agents(app, opened, prd) if opened else [_UNUSABLE]
    yield "lock", lambda: _lock(app, prd)
    yield "system", lambda: _system(app, opened)
    yield "gates", lambda: _gates(opened, prd, run=gates, cancelled=cancelled) if opened else [_UNUSABLE]


def _safely(look: Callable[[], Iterable[Diagnosis]]) -> Iterator[Diagnosis]:
    """What is found there; whatever breaks off the looking becomes a line of it."""
    try:
        yield from look()
    except RalphError as error:
        yield refused(str(error), error.exit_code)
    except GitError as error:
        yield wrong(str(error), "see what git says there: git status")
    except OSError as error:
        yield wrong(f"cannot look further: {error.strerror or error}{f': {error.filename}' if error.filename else ''}")


def _git(app: App, prd: Prd | None) -> Iterator[Diagnosis]:
    program = shutil.which("git", path=app.environment.get("PATH"))
    if program is None:
        yield wrong("git is not installed or not on PATH", "install git")
        return
    _, repository = open_root(app)
    if problem := unsupported(repository):
        yield refused(problem)
    yield ok(f"{repository.text('version')} ({program})")
    yield ok(f"repository {repository.root}, on {repository.branch() or 'no branch'} at {repository.head()[:8]}")
    is_signed = require_committer(repository)
    yield ok("commits have an author: " + repository.text("var", "GIT_AUTHOR_IDENT").partition(">")[0] + ">")
    if is_signed:
        told = "commits are signed, which works now; a key that asks for a passphrase may not at night"
        yield Diagnosis("unknown", told, "git config commit.gpgSign false")
    if prd is not None:
        yield _branch(repository, prd)
    modified = some(repository.modified())
    told = f"uncommitted changes stay as they are, and are no part of the work: {modified}"
    yield ok(told if modified else "no tracked file is modified")
    if there := [name for name in _HOOKS if (repository.hooks_folder() / name).is_file()]:
        yield ok(f"commit hooks: {some(there)}; each commit must pass them, and they can ask nobody")


def _branch(repository: Repository, prd: Prd) -> Diagnosis:
    wanted = prd.work_branch
    if repository.branch() == wanted:
        return ok(f"on branch {wanted}, where the work happens")
    if not repository.can_name_branch(wanted):
        return wrong(f"'{wanted}' is no name for a branch", "set branch in .rulebook-ralph/prd.json")
    if elsewhere := repository.elsewhere(wanted):
        return wrong(f"branch {wanted} is checked out in {elsewhere}", "run ralph there, or give --branch another")
    return ok(f"the run {'switches to' if repository.tip(wanted) else 'creates'} branch {wanted}")


def _ralph(app: App, opened: OpenedProject | None, problem: RalphError | None, prd: Prd | None) -> Iterator[Diagnosis]:
    yield ok(f"ralph {__version__}, Python {platform.python_version()}")
    if problem is not None:
        yield refused(str(problem), problem.exit_code)
    if opened is not None:
        files = [str(file) for file in opened.loaded.files]
        yield ok(f"configuration: {', '.join(files) if files else 'built-in values alone'}")
    folder = StateFolder(project_root(app))
    if not folder.path.is_dir():
        branch = branch_with_list(opened.project.repository) if opened is not None else ""
        there = f"the task list is on branch {branch}; ralph run switches to it"
        none = 'no task list yet; begin with ralph run -p "what you want", ralph init or ralph plan'
        yield ok(there if branch else none)
        return
    if opened is not None:
        preflight.require_writable(opened.project)
    if problems := all_problems(app, folder):
        more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
        yield wrong(f"{problems[0]}{more}", "mend it; see all: ralph validate")
    elif prd is not None:
        still_open = sum(task.status != "completed" for task in prd.tasks)
        iterations = counted(len(history.numbers(folder)), "iteration")
        yield ok(f"prd.json: {counted(len(prd.tasks), 'task')}, {still_open} to be completed; {iterations}")
    if prd is not None and (bare := [task.id for task in requirements.tasks_without_criteria(prd)]):
        yield warning(
            f"without criteria of their own, so that the gates and the promise decide: {some(bare)}",
            f"say what done means: ralph task edit {bare[0]} --acceptance …",
        )
    if opened is not None and (urls := opened.project.config.notify.urls):
        found = notify.problems(opened.project.config.notify, app.environment)
        yield from (warning(text) for text in found)
        if not found:
            yield ok(f"notifications: {counted(len(urls), 'address', 'addresses')}")


def _lock(app: App, prd: Prd | None) -> Iterator[Diagnosis]:
    _, repository = open_root(app)
    folder = StateFolder(project_root(app))
    path = private_folder(folder) / lock.LOCK
    holder = lock.holder(path)
    if holder is not None and holder.pid:
        yield warning(f"a run is at work: {holder.told()}", "wait for it, or end it: ralph cancel")
        return
    if holder is not None:
        yield wrong(f"something holds {path}, and no living process is named there", f"find it: fuser {path}")
        return
    if path.is_file() and path.stat().st_size:
        yield warning("the last run died", "the next start takes over: ralph resume")
    else:
        yield ok("the lock is free")
    if numbers := history.unsettled_numbers(folder):
        left = some([f"#{number}" for number in numbers])
        yield warning(f"a dead run left unfinished: {left}", "the next start settles it: ralph resume")
    if prd is not None and repository.commit_of(f"refs/ralph/{prd.project}/tip"):
        yield warning(f"work waits to be brought into {prd.work_branch}", "bring it in: ralph land")
    if (repository.git_dir / "index.lock").exists():
        where = repository.git_dir / "index.lock"
        yield warning(f"{where} is there: git is at work, or died", f"if no git runs: rm {where}")


def _system(app: App, opened: OpenedProject | None) -> Iterator[Diagnosis]:
    if opened is not None and opened.project.config.sandbox.mode == "off":
        yield warning("the sandbox is switched off (sandbox: off): agents can reach the whole account")
    else:
        box = probe_box(app.environment)
        yield warning(box.reason) if isinstance(box, NoBox) else ok(f"the sandbox works ({box})")
    cache = cache_root(app.environment, app.home)
    yield ok(f"clones are in {cache}")
    root = opened.project.root if opened else app.cwd
    for path in {root: None, cache: None, Path(tempfile.gettempdir()): None}:
        there = next(each for each in (path, *path.parents) if each.exists())
        if (free := shutil.disk_usage(there).free) < _LEAST_FREE:
            yield warning(f"only {free / 1024**3:,.1f} GB free in {path}", "make room: a full disk ends a run")


def _gates(opened: OpenedProject, prd: Prd | None, *, run: bool, cancelled: Cancellation) -> Iterator[Diagnosis]:
    config, steps = opened.project.config, opened.project.config.verification.gates
    if opened.found is not None:
        found = "; ".join(f"{step.name}: {step.command}" for step in steps)
        yield ok(f"found in the project, as no gate is configured: {found}")
        yield from (warning(note) for note in opened.found.notes if "not on PATH" in note)
    if config.workspace.setup:
        yield ok(f"clones are set up by: {config.workspace.setup}")
    if config.workspace.link:
        yield ok(f"clones share what is installed: {some(config.workspace.link)}, read-only in the sandbox")
    if not any(step.required for step in steps):
        yield _nothing_required(config, prd)
    if not steps:
        return
    if not run or lock.holder(opened.project.private / lock.LOCK) is not None:
        why = "as a run is at work" if run else "as asked for"
        yield Diagnosis("unknown", f"not run, {why}: {some([step.name for step in steps])}")
        return
    with verifying.tools(opened.project, report=lambda _: None, cancelled=cancelled) as tools:
        tree = verifying.standing_tree(opened.project.repository)
        results = [gate.result for gate in tools.verifiers.gates.run(tree)]
    if results[0].reason.startswith(_SETUP_FAILED):
        text = f"workspace.setup failed: {config.workspace.setup}"
        advice = "mend it in .rulebook-ralph/config.yaml, or share what is installed: workspace: {link: [.venv]}"
        yield wrong(text, advice, ExitCode.BLOCKED, output=_tail(results[0].output))
        return
    yield from map(_gate, results)
    required = [result for result in results if result.required]
    if required and not any(result.passed for result in required):
        yield wrong("no required gate passes", "mend the tree or the gates", ExitCode.BLOCKED)


def _nothing_required(config: Config, prd: Prd | None) -> Diagnosis:
    """As a run sees it: where no gate is required, each open task needs criteria of its own that Ralph can run."""
    still_open = [task for task in prd.tasks if task.status != "completed"] if prd else []
    bare = [task.id for task in still_open if not requirements.is_verified_by_itself(config, task)]
    advice = "add one: ralph config set verification.steps '[{name: tests, command: \"make test\"}]'"
    if bare:
        return wrong(f"no required gate, and no criteria that Ralph can run: {some(bare)}", advice)
    if not still_open:
        return warning("no required gate is configured or found", f"{advice}, or give each task criteria of its own")
    return ok("no required gate; the criteria of each open task decide")


def _gate(result: CheckResult) -> Diagnosis:
    """Red on the base is held against no task, so it stops no run; a gate that cannot run never becomes green."""
    took, output = duration(result.duration_ms / 1000), _tail(result.output)
    if result.passed:
        return ok(f"{result.step}: {result.ending}, {took}")
    text = f"{result.step}: failed ({result.reason}), {took}"
    if not result.required:
        return warning(f"{text}; it is not required", output=output)
    if result.exit_code in (None, _NOT_FOUND):
        return wrong(text, "install what it needs, or change verification.steps", ExitCode.BLOCKED, output=output)
    return warning(text, "tasks may leave it as it is, and add nothing to it", output=output)


def _tail(output: str) -> str:
    """The last lines that say something."""
    return "\n".join([line[:200] for line in output.splitlines() if line.strip()][-_OUTPUT_LINES:])
