"""A person's own templates in place of the built-in ones: what holds, what is refused and where, what they can reach."""

import os
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from rulebook_ralph import resources
from rulebook_ralph.config.settings import Config
from rulebook_ralph.errors import RalphError
from rulebook_ralph.run import prompt as prompts
from rulebook_ralph.run import templates
from rulebook_ralph.run.prompt import TemplateFiles
from rulebook_ralph.run.templates import PURPOSES, VARIABLES, BrokenTemplateError, Templates
from rulebook_ralph.tasks.criteria import STAGES
from rulebook_ralph.tasks.disk import StateFolder
from rulebook_ralph.tasks.model import Prd, Task
from tests.unit.run_prompt.situation import situation

BROKEN = "# Mine\n{% if feedback %}\n{{ feedbak }}\n{% endif %}\n{{ promise }}\n"
WAYS_OUT = (
    "{{ task.__class__.__mro__ }}",
    "{{ ''.__class__.__base__.__subclasses__() }}",
    "{{ rules.append('x') }}",
    "{{ self.__init__.__globals__ }}",
    "{{ cycler.__init__.__globals__.os.environ }}",
    "{{ '{0.__class__}'.format(task) }}",
    "{{ ''|attr('__class__') }}",
    "{{ rules|map(attribute='__class__')|list }}",
    "{{ ('{0.__class__}'|attr('format'))(task) }}",
    "{{ ['{0.__class__}']|map('format', task)|list }}",
    "{{ lipsum.__globals__ }}",
    "{% include '/etc/passwd' %}",
    "{% include '../config.yaml' %}",
    "{% include 'builtin/../../schemas/prd.schema.json' %}",
    "{% extends '../../prd.json' %}",
)
NO_ENDS: Mapping[str, str] = {
    "a range too large": "{% for a in range(10**9) %}{% endfor %}",
    "a recursive loop": "{% set r = range(999) %}{% for a in r recursive %}{{ loop(r) }}{% endfor %}",
    "a macro that calls itself twice": "{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}",
    "extending itself": "{% extends 'coder.md.j2' %}",
    "a power": "{{ 10 ** 10 ** 10 }}",
    "a product": "{{ 'x' * 10000 * 10000 * 10000 }}",
    "a long output": "{% set x = 'x' * 100000 %}{% for a in range(99999) %}{{ x }}{% endfor %}",
}


def prompt(own: Mapping[str, str], **values: Any) -> str:
    return prompts.render(situation(**values), Templates(tuple(own.items()))).prompt


def project(root: Path, own: Mapping[str, str]) -> Path:
    folder = StateFolder(root).templates
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in own.items():
        (folder / name).write_text(text, "utf-8")
    return folder


def found(root: Path, own: Mapping[str, str]) -> list[str]:
    project(root, own)
    return list(map(str, templates.problems(root)))


# What holds


def test_a_template_replaces_one_prompt_and_leaves_the_others() -> None:
    own = {"qa.md.j2": "Look at {{ title }}, attempt {{ attempt + 1 }}.\n{{ promise }}\n"}
    assert prompt(own, stage="qa") == "Look at Do one, attempt 2.\nQA_PASSED\n"
    assert prompt(own) == prompt({})


def test_a_frame_holds_for_all_stages_and_builds_on_the_built_in_one() -> None:
    own = {
        "frame.md.j2": "{% extends 'builtin/frame.md.j2' %}{% block stage %}{% include 'house.md.j2' %}{% endblock %}"
    }
    for stage in ("coder", "reviewer"):
        text = prompt({**own, "house.md.j2": "The house rule.\n"}, stage=stage)
        assert ("The house rule." in text) == (stage == "coder"), "the reviewer's prompt fills that block itself"
        assert "You are working in a git repository" in text


def test_the_prompt_never_spells_out_a_tag_whatever_a_template_says() -> None:
    assert "[promise]" in prompt({"coder.md.j2": "say <promise>{{ promise }}</promise>"})


def test_stable_parts_stay_first_with_a_template_of_ones_own() -> None:
    text = (templates.built_in("frame.md.j2")).replace("# Rules", "# The house's rules")
    own = Templates((("frame.md.j2", text),))
    first, later = (
        prompts.render(situation(feedback=told, iteration=number), own) for told, number in (("", 1), ("It fell.", 2))
    )
    assert first.stable == later.stable
    assert "# The house's rules" in first.stable
    assert first.stable != prompts.render(situation()).stable, "the digest of the record covers what was said"
    bare = prompts.render(situation(), Templates((("coder.md.j2", "All new: {{ promise }}"),)))
    assert (bare.stable, bare.moving) == ("", "All new: IMPLEMENTATION_COMPLETE"), "what is not stable is kept whole"


def test_every_documented_variable_is_given_and_no_other() -> None:
    assert prompts.variables(situation(), 10_000).keys() == VARIABLES.keys()
    told = prompt({"coder.md.j2": "".join(f"{name}={{{{ {name} }}}}\n" for name in VARIABLES)})
    assert [line.partition("=")[0] for line in told.splitlines() if line.partition("=")[0] in VARIABLES] == [*VARIABLES]
    lists = {name for name, value in prompts.variables(situation(), 10_000).items() if isinstance(value, list)}
    assert lists == {name for name, told in VARIABLES.items() if told.startswith("list: ")}


def test_every_built_in_template_is_documented() -> None:
    folder = resources.template_folder() / "prompts"
    assert {path.name for path in folder.iterdir()} == PURPOSES.keys()
    assert {f"{stage}.md.j2" for stage in STAGES} < PURPOSES.keys()


# What is wrong is told with file and line


@pytest.mark.parametrize(
    ("own", "told"),
    [
        ({"coder.md.j2": BROKEN}, "coder.md.j2:3: 'feedbak' is undefined; did you mean feedback?"),
        ({"qa.md.j2": "{{ promise }}\n{% if %}"}, "qa.md.j2:2: Expected an expression, got 'end of statement block'"),
        ({"qa.md.j2": "{{ promise }}\n\n{% include 'hose.md.j2' %}"}, "qa.md.j2:3: there is no template 'hose.md.j2'"),
        ({"coder.md.j2": "{{ promise }}\n{{ 1 // files|length }}"}, "coder.md.j2:2: ZeroDivisionError"),
        ({"coder.md.j2": "{{ promise }}\n{{ files[0] }}"}, "coder.md.j2:2: "),
        ({"coder.md.j2": "Do it."}, "coder.md.j2: the prompt of the stage coder does not say what completes it"),
        ({"coder.md.j2": "{{ promise }}" + "x y " * 60_000}, "coder.md.j2: the prompt would take "),
        ({"codr.md.j2": "x"}, "codr.md.j2: no prompt uses it; did you mean coder.md.j2?"),
        ({"coder.md": "x"}, "coder.md: is no name of a template, such as coder.md.j2; did you mean coder.md.j2?"),
        ({"qa.j2": "x"}, "qa.j2: is no name of a template, such as coder.md.j2; did you mean qa.md.j2?"),
    ],
)
def test_what_is_wrong_is_told_with_its_place(tmp_path: Path, own: dict[str, str], told: str) -> None:
    first = found(tmp_path, own)[0]
    assert first.startswith(f".rulebook-ralph/templates/{told}")
    assert "\n" not in first


def test_the_line_of_what_a_template_includes_is_told(tmp_path: Path) -> None:
    own = {
        "coder.md.j2": "{% extends 'builtin/coder.md.j2' %}\n{% block role %}\n{% include 'a.md.j2' %}\n{% endblock %}",
        "a.md.j2": "x\n\n{{ nothing }}",
    }
    assert found(tmp_path, own) == [
        ".rulebook-ralph/templates/a.md.j2:3: 'nothing' is undefined; see what there is: ralph templates list"
    ]


def test_nothing_is_wrong_with_what_works_nor_with_what_editors_leave(tmp_path: Path) -> None:
    own = {name: templates.built_in(name) for name in PURPOSES}
    left = {".coder.md.j2.swp": "x", "coder.md.j2~": "x", "#qa.md.j2#": "x"}
    assert found(tmp_path, {**own, **left}) == []


def test_links_folders_and_binaries_are_no_templates(tmp_path: Path) -> None:
    folder = project(tmp_path, {})
    (tmp_path / "secret").write_text("x")
    (folder / "coder.md.j2").symlink_to(tmp_path / "secret")
    (folder / "qa.md.j2").mkdir()
    (folder / "tester.md.j2").write_bytes(b"\xff\xfe")
    (folder / "reviewer.md.j2").write_text("x" * (2 << 20))
    os.mkfifo(folder / "frame.md.j2")
    told = [str(each).partition(": ")[2] for each in templates.problems(tmp_path)]
    assert told == [
        "cannot be read: is a symbolic link; Ralph keeps its state in plain files: replace it by the file",
        "cannot be read: is no regular file",
        "cannot be read: Is a directory",
        "cannot be read: is larger than 1 MB",
        "is not UTF-8 text; save it as such",
    ]
    whole = tmp_path / "other"
    StateFolder(whole).path.mkdir(parents=True)
    StateFolder(whole).templates.symlink_to(folder)
    assert [each.message for each in templates.problems(whole)] == ["is a symbolic link; make it a folder"]


def test_a_start_is_refused_with_the_real_task(tmp_path: Path) -> None:
    project(tmp_path, {"coder.md.j2": "{{ promise }} {{ task.metadata.owner.name }}"})
    task = Task(id="one", title="One", metadata={"owner": {"name": "Ann"}})
    with pytest.raises(RalphError, match=r"coder\.md\.j2:1: .*'owner'.*mend it, or remove the file"):
        templates.require_good(tmp_path, Config(), Prd(version=1, project="toy", tasks=(task,)))
    project(tmp_path, {"coder.md.j2": "{{ promise }} {{ task.metadata.get('owner', {}).get('name', '') }}"})
    templates.require_good(tmp_path, Config(), Prd(version=1, project="toy", tasks=(task,)))


# What a template that came with a clone can do


@pytest.mark.parametrize("text", WAYS_OUT)
def test_a_template_reaches_nothing_but_what_it_is_given(text: str) -> None:
    try:
        told = prompt({"coder.md.j2": text})
    except BrokenTemplateError as error:
        told = str(error)
    assert "root:" not in told
    assert "<class" not in told
    assert "PATH" not in told
    assert "$schema" not in told


@pytest.mark.parametrize("text", list(NO_ENDS.values()), ids=list(NO_ENDS))
def test_a_template_without_an_end_is_ended(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(BrokenTemplateError, match=r"coder\.md\.j2"):
        prompt({"coder.md.j2": text})
    assert time.process_time() - begun < 3


# While a run goes on


def test_an_edit_holds_from_the_next_prompt_and_a_broken_one_does_not(tmp_path: Path) -> None:
    folder = StateFolder(tmp_path).templates
    said: list[str] = []
    files = TemplateFiles(folder, lambda _, text: said.append(text))
    assert files.prompt(situation()) == prompts.render(situation())
    project(tmp_path, {"coder.md.j2": "first {{ promise }}"})
    assert files.prompt(situation()).prompt.startswith("first ")
    assert said == ["the templates were edited: going on with them"]
    project(tmp_path, {"coder.md.j2": "second {{ promis }}"})
    assert [files.prompt(situation()).prompt[:6] for _ in range(3)] == ["first "] * 3
    assert len(said) == 2
    assert "coder.md.j2:1: 'promis' is undefined; did you mean promise?; mend it" in said[1]
    assert said[1].endswith("; going on with the templates as they were")
    (folder / "coder.md.j2").write_bytes(b"\xff")
    assert files.prompt(situation()).prompt.startswith("first ")
    assert "not UTF-8" in said[2]
    (folder / "coder.md.j2").unlink()
    assert files.prompt(situation()) == prompts.render(situation())


def test_what_fails_for_one_task_alone_gets_the_built_in_prompt(tmp_path: Path) -> None:
    project(tmp_path, {"coder.md.j2": "own {{ 9 // attempt }} {{ 'x' * (300000 if attempt == 3 else 1) }}"})
    said: list[str] = []
    files = TemplateFiles(StateFolder(tmp_path).templates, lambda _, text: said.append(text))
    assert files.prompt(situation()).prompt.startswith("own 9")
    assert files.prompt(situation(attempt=3)) == prompts.render(situation(attempt=3))
    assert len(said) == 1
    assert said[0].endswith("; this prompt is the built-in one")
