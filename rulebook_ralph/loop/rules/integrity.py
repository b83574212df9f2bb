"""What an attempt may not leave behind, nor do to the checks that judge it."""

from collections.abc import Iterable, Iterator, Sequence

from rulebook_ralph.checks.integrity.inspection import Inspection
from rulebook_ralph.checks.integrity.links_out import links_out
from rulebook_ralph.checks.integrity.machine_paths import machine_paths
from rulebook_ralph.checks.integrity.objection import UNDO, Objection, listed
from rulebook_ralph.checks.integrity.protected import protected_files
from rulebook_ralph.checks.integrity.secrets import own_secrets_in, secrets_in
from rulebook_ralph.core.enumeration import counted
from rulebook_ralph.core.evidence import SKIP, Verdict
from rulebook_ralph.core.printable import clipped
from rulebook_ralph.loop.evidence import Evidence

_PROTECTED = "No task may change these files (`protect` in .rulebook-ralph/config.yaml). Put them back as they were:"
_SECRETS = (
    "Secrets must not get into the repository. Take these out (read them from the environment); an example should be "
    "plainly none, and a person can name the file in integrity.allow:"
)
_CUT = (
    "These files are too large to be inspected: split them, have git ignore them, or a person allows them in "
    "integrity.allow:"
)
_LINKS = (
    "Links must lead to files that are committed with them. Put the files there instead; a person can name the link in "
    "the task, or in integrity.allow:"
)
_FOLDERS = (
    "Code must not name folders of this machine. Use paths that are relative to the file or to the project; a person "
    "can name the file in the task, or in integrity.allow:"
)
_WEAKENED = f"You changed the checks that judge the work. {UNDO}"


class Integrity:
    """Repositories inside, protected files, secrets, and whatever weakens the checks: all of it in one feedback."""

    name, priority = "integrity", 20

    def should_run(self, evidence: Evidence) -> bool:
        return bool(evidence.changes)

    def run(self, evidence: Evidence) -> Verdict:
        inspection = inspection_of(evidence)
        protected = list(protected_files(inspection.diff, evidence.protect))
        secrets = list(_secrets(evidence, inspection))
        cut = list(_cut(inspection))
        enabled = evidence.integrity.enabled
        links = list(links_out(inspection.diff, evidence.links_out, inspection.excuses)) if enabled else []
        folders = list(_machine_paths(evidence, inspection)) if enabled else []
        weakened = list(_weakened(inspection, protected)) if enabled else []
        parts = [
            *_repositories_inside(evidence),
            *_told(_PROTECTED, protected),
            *_told(_SECRETS, secrets),
            *_told(_CUT, cut),
            *_told(_LINKS, links),
            *_told(_FOLDERS, folders),
            *_told(_WEAKENED, weakened),
        ]
        if not parts:
            return SKIP
        found = [*protected, *secrets, *cut, *links, *folders, *weakened]
        return Verdict(action="continue", reason=_reason(evidence, found), feedback="\n\n".join(parts))


def inspection_of(evidence: Evidence) -> Inspection:
    """The attempt as the checks of integrity look at it."""
    return Inspection(
        task=evidence.task,
        diff=evidence.diff(),
        versions=evidence.versions,
        folders=evidence.folders,
        steps=(*evidence.steps, *evidence.judging),
        red=_all_red(evidence),
        allow=evidence.integrity.allow,
        files=evidence.files,
    )


def _all_red(evidence: Evidence) -> frozenset[str]:
    """Steps that were red on the base, without those of which some tests passed there: they were found and run."""
    passed, failing = evidence.tests_on_base, evidence.failing_on_base
    return frozenset(step for step in evidence.excused if passed.get(step, 0) <= failing.get(step, 0))


def _secrets(evidence: Evidence, inspection: Inspection) -> Iterator[Objection]:
    """Naming a file excuses what looks like a secret in it, never a private key or a secret of this environment; those
    are left to `integrity.allow`.
    """
    real = own_secrets_in(inspection.diff, lambda text: evidence.has_own_secret(text) and evidence.has_secret(text))
    own = [each for each in real if not inspection.allows(each.path)]
    yield from own
    told = {each.path for each in own}
    found = [
        each
        for each in secrets_in(inspection.diff, evidence.has_secret)
        if each.path not in told and not inspection.allows(each.path)
    ]
    keys = {each.path for each in secrets_in(inspection.diff, lambda _: False)} if found else set[str]()
    yield from (each for each in found if each.path in keys or not inspection.excuses(each.path))


def _cut(inspection: Inspection) -> Iterator[Objection]:
    """Texts of which nobody saw what was added."""
    for file in inspection.diff:
        if file.cut and not inspection.allows(file.path):
            yield Objection(file.path, None, "is too large to be inspected")


def _machine_paths(evidence: Evidence, inspection: Inspection) -> Iterator[Objection]:
    return machine_paths(inspection.diff, evidence.own_folders, evidence.versions, inspection.excuses)


def _weakened(inspection: Inspection, protected: Iterable[Objection]) -> Iterator[Objection]:
    told = {objection.path for objection in protected}
    for objection in (*inspection.of_tests(), *inspection.of_gates()):
        if objection.path not in told:
            yield objection


def _repositories_inside(evidence: Evidence) -> Iterator[str]:
    paths = ", ".join(_gitlinks(evidence))
    if paths:
        yield (
            f"You left a git repository inside the repository, or a changed submodule: {paths}. "
            "Its content cannot be committed here. Remove its .git folder, or put the submodule back."
        )


def _gitlinks(evidence: Evidence) -> list[str]:
    return [change.path for change in evidence.changes if change.is_gitlink]


def _told(head: str, objections: Sequence[Objection]) -> Iterator[str]:
    if objections:
        yield f"{head}\n{listed(objections)}"


def _reason(evidence: Evidence, found: Sequence[Objection]) -> str:
    if links := _gitlinks(evidence):
        return f"a repository inside the repository: {', '.join(links)}"
    more = f" (and {counted(len(found) - 1, 'more finding')})" if len(found) > 1 else ""
    return clipped(f"integrity: {found[0]}{more}")
