"""Reading real rulebook task folders (tests/data/rulebook, from a public project) and folders made here."""

import re
from pathlib import Path

import pytest

from rulebook_ralph.errors import RalphError
from rulebook_ralph.tasks.importers import rulebook
from rulebook_ralph.tasks.importers.source import SourceReading
from rulebook_ralph.tasks.model import Task
from tests.cases import each_of

DATA = Path(__file__).parents[2] / "data" / "rulebook"
BACKLOG = DATA / "backlog_b4e7892"
ACTIVE = DATA / "tasks_head" / "active"
ARCHIVE = DATA / "tasks_head" / "archive"
PLACES = (BACKLOG / ".rulebook" / "tasks", ACTIVE, ARCHIVE)
FOLDERS = sorted(folder for place in PLACES for folder in place.iterdir() if folder.is_dir())


def read(folder: Path, root: Path | None = None) -> SourceReading:
    return rulebook.read_all([folder], root=root or folder.parents[1])


def real(task_id: str) -> Task:
    folder = next(folder for folder in FOLDERS if folder.name == task_id)
    reading = read(folder)
    assert reading.problems == ()
    return reading.tasks[0]


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return folder


def project(tmp_path: Path, tasks: dict[str, dict[str, str]]) -> Path:
    for name, files in tasks.items():
        write(tmp_path / ".rulebook" / "tasks" / name, files)
    return tmp_path


def one_line(text: str) -> str:
    return " ".join(text.split())


def test_all_real_folders_are_read_without_problems() -> None:
    assert len(FOLDERS) == 20
    for place, count in zip(PLACES, (5, 1, 14), strict=True):
        reading = read(place)
        assert reading.problems == ()
        assert [task.id for task in reading.tasks] == sorted(
            folder.name for folder in FOLDERS if folder.parent == place
        )
        assert len(reading.tasks) == count


REAL = {
    # id: title, status, complexity, number of criteria from tasks.md
    "phase4_prune-skill-and-agent-library": ("Prune skill and agent library", "pending", "high", 11),
    "2025-10-30-test-task-implementation": ("Test Task Implementation", "completed", "low", 1),
    "2025-11-18-simplified-watcher-ui": ("Simplified Progress-Focused Watcher UI", "pending", "very-high", 77),
    "2025-11-18-test-archive-task": ("Test archive task", "pending", "medium", 6),
    "2026-03-19-v5-multi-tool-ai-framework": ("V5 multi tool ai framework", "completed", "very-high", 69),
    "2026-04-20-phase0_terse-foundations": ("Terse foundations", "completed", "very-high", 8),
}


@each_of("task_id", REAL)
def test_real_titles_statuses_and_sizes(task_id: str) -> None:
    title, status, complexity, items = REAL[task_id]
    task = real(task_id)
    assert (task.title, task.status, task.estimated_complexity) == (title, status, complexity)
    from_specs = [line for line in task.acceptance_criteria if re.search("SHALL|MUST", line) or "Removed" in line]
    assert len(task.acceptance_criteria) - len(from_specs) == items
    assert task.metadata.get("imported") == ("completed" if status == "completed" else None)
    assert "status" not in task.metadata


@each_of("folder", FOLDERS)
def test_no_checkbox_line_of_the_real_folders_is_lost(folder: Path) -> None:
    criteria = [one_line(line) for line in real(folder.name).acceptance_criteria]
    assert len(criteria) == len(set(criteria))
    for line in (folder / "tasks.md").read_text().splitlines():
        item = re.fullmatch(r" *- \[[ x]\] (?:\d+\.\d+ )?(.*?)(?: <!-- [\w-]+ -->)?", line)
        if item:
            words = one_line(re.sub(r"^\*\*(.+?)\*\*", r"\1", item[1])).rstrip(":")
            assert any(words in criterion for criterion in criteria), line


@each_of("folder", FOLDERS)
def test_no_demand_of_the_real_specs_is_lost_or_cut(folder: Path) -> None:
    criteria = [one_line(line) for line in real(folder.name).acceptance_criteria]
    for spec in folder.glob("specs/**/spec.md"):
        text = spec.read_text()
        for line in text.splitlines():
            if re.search(r"\b(?:SHALL|MUST)\b", line):
                words = re.sub(r"^(?:- )?(?:And )?", "", one_line(line))
                assert any(words in criterion for criterion in criteria), line
        for paragraph in re.split(r"\n\s*\n|\n(?=#)|\n(?=(?:Given|When|Then|And|-) )|(?<=:)\n", text):
            if paragraph.startswith("The ") and re.search(r"\b(?:SHALL|MUST)\b", paragraph):
                assert any(one_line(paragraph) in criterion for criterion in criteria), paragraph


@each_of("folder", FOLDERS)
def test_no_description_of_the_real_proposals_collapses(folder: Path) -> None:
    proposal = folder / "proposal.md"
    lines = proposal.read_text().splitlines() if proposal.exists() else []
    description = real(folder.name).description.splitlines()
    body = [line for line in lines if not line.startswith("# ")]
    assert "\n".join(description).startswith("\n".join(body).strip())


@each_of(
    ("task_id", "words"),
    [
        ("2026-03-01-health-scorer-v2", "`measureReadmeQuality(readmePath)`: Count sections (## headings)"),
        ("2025-11-18-simplified-watcher-ui", "when agent starts — Implemented: Called in startAgent() before workflow"),
        ("2025-11-18-simplified-watcher-ui", "before workflow loop; Location: src/core/agent-manager.ts:94"),
        ("2026-07-14-phase8_tail-waiver", "records <!-- tail-waiver --> in archived tasks.md"),
        ("2025-10-30-rulebook-v0.10.0-features", 'Removed requirement "Classic ANSI Watcher": Reason: Replaced by'),
    ],
)
def test_real_criteria(task_id: str, words: str) -> None:
    assert any(words in criterion for criterion in real(task_id).acceptance_criteria)


def test_relevant_files_are_files_that_are_named_and_there(tmp_path: Path) -> None:
    proposal = "# A\nIn `src/a.py:140` and `./b.md`, not `gone.py`, `src`, `/etc/passwd` or `../x`. `src/a.py`\n"
    root = project(tmp_path, {"a": {"proposal.md": proposal, "specs/x/spec.md": "It MUST be."}})
    write(tmp_path, {"src/a.py": "", "b.md": ""})
    write(tmp_path / ".rulebook/tasks/a", {"design.md": ""})
    (task,) = rulebook.read_all([root], root=root).tasks
    assert task.relevant_files == (
        *(f".rulebook/tasks/a/{name}" for name in ("design.md", "specs/x/spec.md")),
        *("src/a.py", "b.md"),
    )


def test_priority_is_the_phase_and_tasks_without_one_come_last(tmp_path: Path) -> None:
    names = ("phase0_a", "phase-2-b", "phase10_c", "2026-01-02-phase1_d", "plain", "phases_e")
    root = project(tmp_path, {name: {"tasks.md": "- [ ] work"} for name in names})
    found = {task.id: task.priority for task in rulebook.read_all([root], root=root).tasks}
    assert found == {
        "phase0_a": 1, "phase-2-b": 3, "phase10_c": 11, "2026-01-02-phase1_d": 2, "plain": 12, "phases_e": 12,
    }  # fmt: skip
    single = read(root / ".rulebook/tasks/plain").tasks[0]
    assert single.priority == 1


@each_of(
    ("task_id", "heading", "title"),
    [
        ("phase1_fix-it", "# Proposal: Fix it all", "Fix it all"),
        ("phase1_fix-it", "# Change Proposal - Fix it all", "Fix it all"),
        ("phase1_fix-it", "# Proposal: phase1_fix-it", "Fix it"),
        ("phase-12-fix-it", "# fix-it", "Fix it"),
        ("2026-01-02-fix-it", "# Proposal: fix-it", "Fix it"),
        ("fix", "# fix", "Fix"),
        ("fix-it", "# Proposal", "Fix it"),
        ("fix-it", "# Fix", "Fix"),
        ("phase3", "", "Phase3"),
        ("fix-it", "\ufeff# Proposal: Fix `a#b` ##", "Fix `a#b`"),
        ("fix-it", "```\n# no title\n```\n# A title", "A title"),
    ],
)
def test_titles(tmp_path: Path, task_id: str, heading: str, title: str) -> None:
    root = project(tmp_path, {task_id: {"proposal.md": heading + "\n\n## Why\nBecause\n"}})
    assert read(root / ".rulebook" / "tasks").tasks[0].title == title


@pytest.mark.parametrize("newline", ["\n", "\r\n", "\r"])
def test_line_ends_make_no_difference(tmp_path: Path, newline: str) -> None:
    text = newline.join(["- [ ] a", "lazy", "- [x] b", "  ```", "  one", "  two", "  ```"])
    root = project(tmp_path, {"a": {}})
    (root / ".rulebook/tasks/a").mkdir(parents=True)
    (root / ".rulebook/tasks/a/tasks.md").write_bytes(text.encode())
    criteria = read(root / ".rulebook" / "tasks").tasks[0].acceptance_criteria
    assert criteria == ("a lazy", "b\n```\none\ntwo\n```")


def test_a_title_comes_from_the_checklist_where_there_is_no_proposal(tmp_path: Path) -> None:
    text = "# Tasks: Mend the roof\n\nBefore the rain.\n\n- [ ] a\n\n## Order\n- roof first\n"
    root = project(tmp_path, {"roof": {"tasks.md": text}})
    task = read(root / ".rulebook" / "tasks").tasks[0]
    assert task.title == "Mend the roof"
    assert task.relevant_files == (".rulebook/tasks/roof/tasks.md",)
    assert task.acceptance_criteria == ("a",)


def test_metadata_gives_dependencies_and_its_status_is_not_believed(tmp_path: Path) -> None:
    root = project(
        tmp_path,
        {
            "a": {
                "tasks.md": "- [ ] x",
                ".metadata.json": '{"status": "completed", "blocks": ["c", "known"], "team": "x"}',
            },
            "b": {"tasks.md": "- [X] x", ".metadata.json": '{"blockedBy": ["a", "known"], "createdAt": "2026-01-01"}'},
            "c": {"tasks.md": "- [ ] x", ".metadata.json": '\ufeff{"blockedBy": ["b", "old", "2020-01-01-old"]}'},
            "archive/2020-01-01-old": {"tasks.md": "- [x] x"},
        },
    )
    reading = rulebook.read_all([root], root=root)
    assert reading.problems == ()
    assert [(task.id, task.status, task.dependencies) for task in reading.tasks] == [
        ("a", "pending", ()),
        ("b", "completed", ("a", "known")),
        ("c", "pending", ("b", "a")),
    ]
    assert [task.metadata for task in reading.tasks] == [
        {"team": "x"},
        {"createdAt": "2026-01-01", "imported": "completed"},
        {},
    ]


def test_a_path_may_be_a_project_a_tasks_folder_a_task_or_its_file(tmp_path: Path) -> None:
    tasks = project(tmp_path, {"a": {"tasks.md": "- [ ] x"}, "archive/b": {"tasks.md": "- [ ] x"}}) / ".rulebook/tasks"
    assert rulebook.places(tmp_path) == (tasks,)
    assert rulebook.places(tasks) == ()

    def whole(path: Path) -> tuple[list[str], tuple[str, ...]]:
        reading = rulebook.read_all([path], root=tmp_path)
        return [task.id for task in reading.tasks], reading.folders

    for path in (tmp_path, tmp_path / ".rulebook", tasks):
        assert whole(path) == (["a"], (".rulebook/tasks",))
    for path in (tasks / "a", tasks / "a" / "tasks.md"):
        assert whole(path) == (["a"], ())
    assert whole(tasks / "archive") == (["b"], (".rulebook/tasks/archive",))
    reading = rulebook.read_all([tasks / "a", tmp_path, tasks / "archive" / "b"], root=tmp_path)
    assert [task.id for task in reading.tasks] == ["a", "b"]
    assert reading.tasks[1].source == ".rulebook/tasks/archive/b"
    assert reading.folders == (".rulebook/tasks",)
    write(tmp_path / "rulebook/tasks/c", {"proposal.md": "# C"})
    assert whole(tmp_path) == (["a", "c"], (".rulebook/tasks", "rulebook/tasks"))


@pytest.mark.parametrize(("made", "words"), [(None, "does not exist"), ("x/y/", "no rulebook tasks"), ("x/f", "not a")])
def test_a_path_without_tasks_is_refused(tmp_path: Path, made: str | None, words: str) -> None:
    if made is not None:
        (tmp_path / made).parent.mkdir(parents=True)
        (tmp_path / made).touch() if not made.endswith("/") else (tmp_path / made).mkdir()
    path = tmp_path / "x" / "f" if made == "x/f" else tmp_path / "x"
    with pytest.raises(RalphError, match=words):
        rulebook.read_all([path], root=tmp_path)
