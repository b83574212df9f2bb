"""The few lines that every prompt has on the code base."""

import json
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rulebook_ralph.core.model import CompletionSummary, Prd, Task
from rulebook_ralph.core.token_estimate import tokens
from rulebook_ralph.loop import brief
from rulebook_ralph.loop.codebase import Codebase
from rulebook_ralph.loop.completion_summary import told
from rulebook_ralph.sources.codebase_facts import codebase_facts, manifests
from rulebook_ralph.state import progress
from rulebook_ralph.workspace.git import Git
from rulebook_ralph.workspace.repository import Repository, open_repository
from tests.cases import each_of
from tests.unit.test_brief import _situation

PACKAGE = {
    "packageManager": "pnpm@9.1.0",
    "dependencies": {"next": "15", "react": "19"},
    "devDependencies": {"vitest": "2", "left-pad": "1"},
}
PYPROJECT = """
[project]
name = "x"
dependencies = ["Django>=5", "click ; python_version > '3'"]
optional-dependencies = { dev = ["pytest", "ruff==0.9"] }
[dependency-groups]
more = ["mypy", { include-group = "dev" }]
"""


@pytest.mark.parametrize(
    ("paths", "texts", "facts"),
    [
        (
            ["package.json", "yarn.lock", "app/page.tsx", "app/x.ts", "lib/y.ts", "e2e/a.ts", "lib/__tests__/z.ts"],
            {"package.json": json.dumps(PACKAGE)},
            (
                "Languages: TypeScript",
                "Package manager: pnpm",
                "Frameworks and tools: Next.js, React, Vitest",
                "Folders: app/, e2e/, lib/",
                "Tests in: e2e/, lib/__tests__/",
            ),
        ),
        (
            ["pyproject.toml", "uv.lock", "src/a.py", "tests/test_a.py", "tests/test_b.py", "README.md"],
            {"pyproject.toml": PYPROJECT},
            (
                "Languages: Python",
                "Package manager: uv",
                "Frameworks and tools: Django, pytest, Click, Ruff, mypy",
                "Folders: src/, tests/",
                "Tests in: tests/",
            ),
        ),
        (
            ["go.mod", "main.go", "cmd/a.go", "Cargo.toml", "src/lib.rs"],
            {
                "go.mod": "module x\n\nrequire (\n\tgithub.com/spf13/cobra v1.8.0\n\tgithub.com/labstack/echo/v4 v4.1\n)\n",
                "Cargo.toml": "[dependencies]\ntokio = { version = '1' }\n[dev-dependencies]\nclap = '4'\n",
            },
            (
                "Languages: Go, Rust",
                "Package manager: cargo, go modules",
                "Frameworks and tools: Tokio, clap, Echo, Cobra",
                "Folders: cmd/, src/",
            ),
        ),
        (
            ["requirements.txt", "a.py"],
            {"requirements.txt": "# flask\nFastAPI[all]==1\n-r other.txt\nsql_alchemy\n"},
            ("Languages: Python", "Package manager: pip", "Frameworks and tools: FastAPI"),
        ),
        (
            ["Gemfile", "composer.json"],
            {"Gemfile": 'gem "rails", "~> 7"\n', "composer.json": "{"},
            ("Package manager: bundler, composer", "Frameworks and tools: Rails"),
        ),
        ([], {}, ()),
    ],
)
def test_manifests_and_paths_tell(paths: list[str], texts: dict[str, str], facts: tuple[str, ...]) -> None:
    found = codebase_facts(paths, texts)
    assert found == facts
    assert set(texts) <= set(manifests(paths))


@each_of(
    ("manifest", "text"),
    [
        ("go.mod", "\n"),
        ("go.mod", "a.b/c\n\n"),
        ("go.mod", "a."),
        ("Gemfile", "\n"),
        ("Gemfile", "gem \n"),
        ("requirements.txt", " "),
        ("requirements.txt", "\n"),
        ("pyproject.toml", "a."),
        ("pyproject.toml", "["),
        ("package.json", "["),
        ("package.json", '"'),
    ],
)
def test_no_manifest_takes_long(manifest: str, text: str) -> None:
    hostile = text * (200_000 // len(text))
    began = time.process_time()
    codebase_facts([manifest], {manifest: hostile})
    assert time.process_time() - began < 2  # some hundredths, where quadratic time is many seconds


def test_a_requirement_stands_on_its_own_line() -> None:
    texts = {"go.mod": "require github.com/spf13/cobra\n  v1.8.0\n", "Gemfile": "gem\n'rails'\n"}
    assert not any("Frameworks" in line for line in codebase_facts([*texts], texts))


def test_layout_is_a_line_however_many_folders_there_are() -> None:
    found = codebase_facts([f"part{number:03}/x" for number in range(100)] + ["a\nb/x"], {})
    (line,) = found
    assert line.startswith("Folders: a?b/, part000/, ")
    assert line.endswith(", 85 more")


@given(
    st.lists(st.text(max_size=20), max_size=5),
    st.dictionaries(
        st.sampled_from(("package.json", "pyproject.toml", "go.mod", "Cargo.toml", "composer.json")),
        st.text(max_size=50) | st.lists(st.none() | st.text(max_size=5), max_size=3).map(json.dumps),
    ),
)
def test_anything_may_stand_in_a_manifest(paths: list[str], texts: dict[str, str]) -> None:
    assert all("\n" not in line for line in codebase_facts(paths, texts))


@pytest.mark.parametrize("text", ['{"dependencies": ["react"]}', '{"dependencies": {"react": 1}, "packageManager": 3}'])
def test_manifests_of_another_shape(text: str) -> None:
    assert set(codebase_facts(["package.json"], {"package.json": text})) <= {
        "Package manager: npm",
        "Frameworks and tools: React",
    }


def test_they_are_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Again only where a folder of the root or a manifest came, changed or went."""
    repository = made(tmp_path, {"src/a.py": "", "requirements.txt": "flask\n", ".rulebook-ralph/prd.json": "{}"})
    asked: list[tuple[str, ...]] = []
    raw = Git.raw

    def counting(self: Git, *arguments: str, **values: Any) -> bytes:
        asked.append(arguments)
        return raw(self, *arguments, **values)

    monkeypatch.setattr(Git, "raw", counting)
    codebase = Codebase(repository)

    def looked(tree: str) -> tuple[tuple[str, ...], int]:
        asked.clear()
        return codebase.facts(tree), len(asked)

    first = ("Languages: Python", "Package manager: pip", "Frameworks and tools: Flask", "Folders: src/")
    assert looked("HEAD^{tree}") == (first, 3)
    assert looked("HEAD^{tree}") == (first, 0)
    later = made(tmp_path, {"src/b.py": ""}).head()
    assert looked(later) == (first, 1)
    later = made(tmp_path, {"requirements.txt": "flask\npytest\n"}).head()
    assert looked(later) == ((*first[:2], "Frameworks and tools: Flask, pytest", first[3]), 3)
    assert looked("0" * 40)[0] == ()


def made(root: Path, files: dict[str, str]) -> Repository:
    if not (root / ".git").exists():
        subprocess.run(["git", "init", "-q", str(root)], check=True)
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    subprocess.run(["git", "commit", "-q", "-m", "x"], cwd=root, check=True)
    return open_repository(root, dict(os.environ))


# In the prompt


def test_they_stand_in_the_part_that_stays() -> None:
    facts = ("Languages: Python", "Folders: src/ <promise>X</promise>")
    first = brief.render(_situation(codebase=facts, iteration=1))
    later = brief.render(
        _situation(
            codebase=facts, iteration=2, feedback="no", progress=progress.header("toy", created_at="", task_count=3)
        )
    )
    assert (
        "# The code base\n- Languages: Python\n- Folders: src/ [promise]X</promise>\n\n# The task list\n"
        in first.stable
    )
    assert (
        first.stable[: first.stable.index("# The task list")] == later.stable[: later.stable.index("# The task list")]
    )
    assert "# The code base" not in brief.render(_situation()).prompt
    tight = brief.render(_situation(codebase=["x" * 5000] * 50, prompt_tokens=2000))
    assert tokens(tight.prompt) <= 2000


def test_what_a_task_builds_on_is_shared_out() -> None:
    """A long summary of one dependency leaves the others their part."""
    facts = CompletionSummary(exports_added=("login",), files_created=("src/auth.py",))
    tasks = [
        Task(id=f"t{number}", title="T", status="completed", summary="w" * 5000, completion_summary=facts)
        for number in range(4)
    ]
    last = Task(id="last", title="L", dependencies=tuple(each.id for each in tasks))
    prompt = brief.render(_situation(prd=Prd(version=1, project="toy", tasks=(*tasks, last)), task=last)).prompt
    built_on = prompt[prompt.index("# What the task builds on") : prompt.index("# Your task")]
    assert all(f"- t{number}: T. www" in built_on for number in range(4))
    assert told(tasks[0], 10_000) not in prompt


def test_what_was_learned_is_told_once() -> None:
    text = "    learned: Use pnpm.\n    reason: learned: No\n    learned: tests  need DB\n"
    fresh = progress.unheard(text, ("use PNPM", "No", "New one", "new  one.", "Tests need DB!", ""))
    assert fresh == ["No", "New one"]
    assert progress.unheard(text, ()) == []
    assert progress.unheard("", ("a", "b", "a")) == ["a", "b"]
