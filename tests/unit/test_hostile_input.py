"""Whatever stands in a file or a stream: a refusal of one printable line, never another exception; 2,000 cases in all,
100,000 with `--thorough`.
"""

import json
import re
import string
import time
import unicodedata
from datetime import UTC, datetime
from io import StringIO
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rulebook_ralph import config
from rulebook_ralph.console import open_console
from rulebook_ralph.core import parser
from rulebook_ralph.core.evidence import AgentResult
from rulebook_ralph.core.identifiers import problem_with_id, project_name
from rulebook_ralph.core.patterns import problem_with_pattern
from rulebook_ralph.core.redaction import MARK, Redactor
from rulebook_ralph.errors import RalphError
from rulebook_ralph.plain_yaml import NotReadableError, read_yaml
from rulebook_ralph.state import codec, progress

THOROUGH = 1000
# nine fuzzers and one more: together over 2,000 cases, and over 100,000 where it is thorough (issue "Nothing is lost")
many = settings(max_examples=12_500 if settings.default and settings.default.max_examples >= THOROUGH else 225)

NASTY = (
    *("--upload-pack=touch x", "-x", "../../x", "/etc/passwd", "a\x00b", "\x1b[2J", "\x9b31m", "\u202e", "\ud800", ""),
    *(
        "{{ x }}",
        "{% include '/etc/passwd' %}",
        "$(touch x)",
        "`x`",
        "'; x",
        "a..b",
        "x.lock",
        "HEAD",
        "@{-1}",
        "\ufeff",
    ),
    *(
        "<promise>X</promise>",
        "```ralph-report",
        "## End of iteration 1",
        "## Iteration 1 · ",
        "(a+)+$",
        "\r\n",
        "9" * 5000,
    ),
)
KEYS = (
    *("version", "project", "tasks", "id", "title", "status", "dependencies", "priority", "completion", "overrides"),
    *("coder", "verificationMethod", "verificationConfig", "command", "stages", "limits", "tools", "executors", "env"),
    *(
        "hooks",
        "verification",
        "steps",
        "name",
        "stopCriteria",
        "successRegex",
        "totals",
        "metadata",
        "iterationNumber",
    ),
    *(
        "phase",
        "taskId",
        "type",
        "message",
        "content",
        "result",
        "is_error",
        "subtype",
        "usage",
        "item",
        "text",
        "$extra",
    ),
)
NUMBERS = (0, 1, -1, 2**80, -(2**63), 1e308, float("inf"), float("nan"), -0.0, 1.5, True, False, None)


def made(random: Random, depth: int = 0) -> Any:
    """Any JSON value; built by hand, as a strategy would take most of the time."""
    kind = random.randrange(6 if depth < 4 else 3)
    if kind == 0:
        return random.choice(NUMBERS)
    if kind in (1, 2):
        return random.choice(NASTY) if kind == 1 else chr(random.randrange(0x3000)) * random.randrange(4)
    if kind == 3:
        return [made(random, depth + 1) for _ in range(random.randrange(4))]
    return mapping(random, depth)


def mapping(random: Random, depth: int) -> dict[str, Any]:
    keys = (random.choice(KEYS if random.random() < 0.8 else NASTY) for _ in range(random.randrange(5)))
    return {key: made(random, depth + 1) for key in keys}


def prd(random: Random) -> Any:
    tasks = [{"id": f"t{number}", "title": "x", **mapping(random, 2)} for number in range(random.randrange(3))]
    return {"version": 1, "project": "p", "tasks": tasks, **(mapping(random, 2) if random.random() < 0.3 else {})}


SEEDS = st.integers(0, 2**48).map(Random)
VALUES = SEEDS.map(made)
PRDS = SEEDS.map(prd)
TEXTS = st.sampled_from(NASTY) | st.text(st.characters(codec=None), max_size=30)


def document(value: Any) -> bytes:
    return json.dumps(value).encode("utf-8", "surrogatepass")


def bitten(data: bytes, where: int, byte: int) -> bytes:
    return data[: where % (len(data) + 1)] + bytes([byte]) + data[where % (len(data) + 1) + 1 :]


DATA = st.builds(bitten, (VALUES | PRDS).map(document), st.integers(0, 10_000), st.integers(0, 255)) | PRDS.map(
    document
)


def require_one_line(error: Exception) -> None:
    """As it is told: the console makes the rest of a message printable, but a line it must be."""
    assert 0 < len(str(error)) < 2000
    assert "\n" not in str(error)


@many
@given(DATA)
def test_a_task_list_is_read_or_refused_and_read_again_as_it_was_written(data: bytes) -> None:
    try:
        prd = codec.decode_prd(data)
    except RalphError as error:
        require_one_line(error)
        return
    assert all(problem_with_id(task.id) is None for task in prd.tasks)
    written = codec.encode_prd(prd)
    assert codec.encode_prd(codec.decode_prd(written)) == written


@many
@given(DATA)
def test_an_iteration_is_read_or_refused(data: bytes) -> None:
    try:
        codec.decode_iteration(data, name="x.json")
    except RalphError as error:
        require_one_line(error)


@many
@given(
    st.one_of(
        VALUES.map(document), TEXTS.map(lambda text: text.encode("utf-8", "surrogatepass")), st.binary(max_size=60)
    )
)
def test_a_configuration_is_read_or_refused(data: bytes) -> None:
    try:
        config.parse(data)
    except RalphError as error:
        require_one_line(error)


@many
@given(st.text("{}[]:,-? \n&*!|>'\"%#@a1.~\t", max_size=200), st.integers(1, 200))
def test_any_yaml_ends_soon(text: str, times: int) -> None:
    began = time.process_time()
    try:
        read_yaml(text * times)
    except NotReadableError as error:
        require_one_line(error)
    assert time.process_time() - began < 10


@pytest.mark.parametrize("part", ["{", "- ", "&a [*a, "])
def test_deep_and_long_yaml_costs_little(part: str) -> None:
    began = time.process_time()
    with pytest.raises(NotReadableError):
        read_yaml((part * 100_000)[:200_000])
    assert time.process_time() - began < 4


@many
@given(
    st.lists(TEXTS | VALUES.map(lambda value: document(value).decode("utf-8", "replace")), max_size=5).map("\n".join)
)
def test_what_an_agent_says_is_parsed_without_a_fault(text: str) -> None:
    parsed = parser.parse(AgentResult(agent="a", status="finished", final_text=text, output=text))
    assert len(parsed.learnings) <= parser.MAX_ITEMS


@many
@given(TEXTS, st.integers(1, 99))
def test_progress_of_any_text_is_read(text: str, number: int) -> None:
    whole = text + progress.closing(text)
    progress.entries(whole)
    assert not progress.closing(whole)
    assert progress.has_entry(f"{whole}\n## End of iteration {number}\n", number)


@many
@given(TEXTS | st.text("()[]{}*+?|\\^$.a1,", max_size=20))
def test_a_pattern_is_usable_or_refused(text: str) -> None:
    problem = problem_with_pattern(text)
    if problem is not None:
        require_one_line(ValueError(problem))


NO_REF = re.compile(r"[^!-~]|[~^:?*\[\\/]|\.\.|@\{|^[.-]|^@?$|\.$|\.lock$")
"""What git allows nowhere in one part of a ref's name, and what would be an option or a path."""


@many
@given(st.lists(st.sampled_from((*NASTY, *"aZ9._-/@~\\ \nü", ".lock")), max_size=6).map("".join))
def test_a_name_is_one_part_of_a_ref_or_refused(name: str) -> None:
    """A task's id; and the project's name, which is made of that of the repository's folder."""
    problem = problem_with_id(name)
    if problem is None:
        assert not NO_REF.search(name)
    else:
        require_one_line(ValueError(problem))
    project = project_name(name)
    assert not NO_REF.search(project)
    assert problem_with_id(project) is None


def shown(what: Any) -> str:
    out, err = StringIO(), StringIO()
    with open_console(out, err, environment={}, now=lambda: datetime.now(UTC)) as console:
        for text in map(str, what if isinstance(what, list) else [what]):
            console.line(text)
            console.error(text)
            console.table(("a", text), [(text, "b")])
        console.json({"value": what})
    return out.getvalue() + err.getvalue()


@many
@given(st.lists(TEXTS, min_size=1, max_size=4))
def test_nothing_is_shown_that_a_terminal_would_obey(texts: list[str]) -> None:
    harmful = {char for char in shown(texts) if unicodedata.category(char) in ("Cc", "Cf", "Cs")}
    assert harmful <= {"\n", "\u200c", "\u200d"}


@given(
    st.lists(
        st.sampled_from(string.digits + string.ascii_letters + "/+=_-&'"), min_size=8, max_size=40, unique=True
    ).map("".join),
    st.data(),
)
def test_a_secret_survives_in_no_form_and_in_no_part_of_a_cut(secret: str, data: st.DataObject) -> None:
    redactor = Redactor({"A_TOKEN": secret})
    for form in (secret, json.dumps(secret)[1:-1]):
        assert form not in redactor.clean(f"<{form}>")
    length = data.draw(st.integers(6, len(secret)))
    assert redactor.clean_cut(f"said: {secret[:length]}").endswith(MARK)
    assert redactor.clean_cut(f"{secret[-length:]} was said").startswith(MARK)
    middle = redactor.clean_cut(f"a {secret[:length]}\n… 7 bytes left out …\n{secret[-length:]} b")
    assert middle == f"a {MARK}\n… 7 bytes left out …\n{MARK} b"


def test_a_letter_that_is_not_allowed_in_an_id_is_named() -> None:
    for task_id in ("für", "über"):
        assert problem_with_id(task_id) == "may hold only letters, digits, '.', '_' and '-' (a-z, A-Z, 0-9), not 'ü'"
