import json
import time
import tracemalloc

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulebook_ralph.report.events import AgentActivity, WithinIteration
from rulebook_ralph.tasks.results import ToolResult
from rulebook_ralph.verify.redaction import MARK, Redactor, cleaned

PLAIN = Redactor({})
_LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
_UPPER = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"


def _of(prefix: str, alphabet: str, least: int) -> st.SearchStrategy[str]:
    return st.text(alphabet, min_size=least, max_size=60).map(lambda rest: prefix + rest)


_shapes = st.one_of(
    _of("sk-ant-", _LETTERS + "_-", 16),
    _of("sk-ant-api03-", _LETTERS, 16),
    _of("sk-", _LETTERS, 20),
    _of("sk-proj-", _LETTERS + "_-", 20),
    *(_of(f"gh{kind}_", _LETTERS, 20) for kind in "pousr"),
    _of("github_pat_", _LETTERS + "_", 20),
    _of("glpat-", _LETTERS + "_-", 16),
    _of("xoxb-", _LETTERS + "-", 10),
    st.text(_UPPER, min_size=16, max_size=16).map("AKIA".__add__),
    _of("AIza", _LETTERS + "_-", 30),
    _of("hf_", _LETTERS, 30),
    st.tuples(*[st.text(_LETTERS + "_-", min_size=10, max_size=20)] * 3).map(lambda jwt: "eyJ{}.eyJ{}.{}".format(*jwt)),
)
_names = st.sampled_from(
    (
        "API_KEY",
        "OPENAI_API_KEY",
        "github_token",
        "MY_SECRET",
        "DB_PASSWORD",
        "passwd",
        "AWS_CREDENTIALS",
        "KEY",
        "tokens",
    )
)
_around = st.sampled_from(("", " ", "\n", '"', "'", "=", ": ", "(", "/", "@", '{"key": "', "\x1b[0m", "\u2028", "é"))


@example("hf_" + "0" * 30, "\x1b[0m", "")
@given(_shapes, _around | st.just("Bearer "), _around)
def test_a_known_shape_never_survives(secret: str, before: str, after: str) -> None:
    assert PLAIN.clean(f"{before}{secret}{after}") == f"{before}{MARK}{after}"
    assert secret not in PLAIN.clean(json.dumps({"text": f"the key\n{secret}\tends"}))


@given(
    st.dictionaries(_names, st.text(st.characters(), min_size=8), min_size=1),
    st.lists(st.text(max_size=5), min_size=1),
    st.data(),
)
def test_the_value_of_a_secret_variable_never_survives(
    environment: dict[str, str], pieces: list[str], data: st.DataObject
) -> None:
    secrets = list(environment.values())
    text = "".join(piece + data.draw(st.sampled_from(secrets)) for piece in pieces)
    cleaned = Redactor({**environment, "HOME": "/root"}).clean(text)
    assert MARK in cleaned
    assert not any(secret in cleaned.replace(MARK, "\0") for secret in secrets if "\0" not in secret)


def test_a_secret_within_a_secret() -> None:
    redactor = Redactor({"A_KEY": "abcdefgh", "B_KEY": "abcdefgh-longer", "C_TOKEN": "h-longer!"})
    assert redactor.clean("x abcdefgh-longer y abcdefgh z") == f"x {MARK} y {MARK} z"
    assert redactor.clean("abcdefgh-longer!") == f"{MARK}!"


def test_what_looks_like_a_pattern_is_taken_as_it_stands() -> None:
    redactor = Redactor({"PASSWORD": "(a+)+$.*[x"})
    assert redactor.clean("(a+)+$.*[x") == MARK
    assert redactor.clean("aaaaaaaa") == "aaaaaaaa"


@pytest.mark.parametrize(
    "environment",
    [
        {"API_KEY": "short"},
        {"TOKEN": ""},
        {"HOME": "ordinary-value", "PATH": "/usr/bin:/bin", "KE_Y": "longer-value"},
    ],
)
def test_short_values_and_other_variables_are_left_alone(environment: dict[str, str]) -> None:
    text = " ".join(environment.values()) + " short ordinary-value longer-value"
    assert Redactor(environment).clean(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Ordinary text, with a sk-short and an AKIA and ghp_ and eyJ alone.",
        "task-implement-user-authentication-with-tokens",
        "rulebook/tasks/phase2_task-write-the-numerals-of-a-sundial/tasks.md",
        "shelf_abcdefghijklmnopqrstuvwxyzabcdefghij is a name",
        "disk-usage-of-every-folder-below-root and risk-assessment-of-the-new-design",
        "0123456789abcdef0123456789abcdef01234567 refs/ralph/p/tasks/a/12",
        "https://example.org/a/very/long/path/that/has/no/secret?query=with-a-long-value-of-many-letters",
        "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    ],
)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert PLAIN.clean(text) == text


@pytest.mark.parametrize(
    "piece",
    ["sk-", "sk-ant-", "eyJ", "eyJaaaaaaaaaaa.", "eyJaaaaaaaaaaa.eyJ", "-eyJ", "xoxb-", "AIza", "-", "a", "gh", "\\n"],
)
def test_no_text_is_slow(piece: str) -> None:
    redactor = Redactor({f"KEY{n}": f"secret-value-{n}" for n in range(20)})
    start = time.process_time()
    redactor.clean(piece * (200_000 // len(piece)))
    assert time.process_time() - start < 0.5


@given(st.text("ab", min_size=8, max_size=16), st.data())
def test_the_longest_part_of_a_cut_secret_goes(secret: str, data: st.DataObject) -> None:
    text = data.draw(st.text("ab", max_size=len(secret) - 1))
    cleaned = Redactor({"KEY": secret}).clean_cut(text)
    lengths = range(len(text), 5, -1)
    if end := next((length for length in lengths if text.endswith(secret[:length])), 0):
        text = text[:-end] + MARK
    if start := next((length for length in lengths if text.startswith(secret[-length:])), 0):
        text = MARK + text[start:]
    assert cleaned == text


def test_half_a_pair_in_a_secret_is_no_obstacle() -> None:
    assert Redactor({"API_KEY": "0000000\ud800"}).clean("0000000\ud800") == MARK


def test_of_two_secrets_the_one_goes_of_which_more_is_left() -> None:
    redactor = Redactor({"A_KEY": "abcdef-and-a-long-rest-fedcba", "B_KEY": "my-abcdef-fedcba-x"})
    assert redactor.clean_cut("said: my-abcdef") == f"said: {MARK}"
    assert Redactor({"A_KEY": "a-long-rest-fedcba", "B_KEY": "m-fedcba-x"}).clean_cut("fedcba-x said") == f"{MARK} said"


@pytest.mark.parametrize("line", ["for every word of it there is a test", "A" * 40, "A" * 20 + "b" + "A" * 43])
def test_long_secrets_make_nothing_slow(line: str) -> None:
    key = "\n".join(["-----BEGIN PRIVATE KEY-----", *(f"{number:04}{'A' * 60}" for number in range(50)), "-----END"])
    redactor = Redactor({"DEPLOY_KEY": key, "OTHER_KEY": "A" * 1650 + "b" + "A" * 1650})
    text = f"{line}\n" * (4096 // len(line))
    start = time.process_time()
    for _ in range(20):
        redactor.clean_cut(text)
    assert time.process_time() - start < 0.3


@given(st.integers(1, 50), st.integers(0, 9000))
def test_a_secret_across_blocks_of_a_stream_is_found(size: int, before: int) -> None:
    secret = "s3cret-Value-of-a-variable"
    whole = b"x" * before + secret.encode() + b"y" * 5000 + b"sk-ant-" + b"a" * 40 + b"\xff\n"
    blocks = [whole[start : start + size * 97] for start in range(0, len(whole), size * 97)]
    cleaned = b"".join(Redactor({"MY_TOKEN": secret}).clean_blocks(blocks))
    assert cleaned == b"x" * before + b"[redacted]" + b"y" * 5000 + b"[redacted]\xff\n"


def test_output_of_nothing_but_unseen_characters_takes_little_memory() -> None:
    tracemalloc.start()
    redactor = Redactor({"MY_TOKEN": "s3cret-Value-of-a-variable"})
    assert sum(map(len, redactor.clean_blocks([bytes(1 << 20)] * 6))) == 6 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 100_000_000


_texts = st.text("ab!", max_size=3)
_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _texts,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(_texts, inner, max_size=3),
        st.builds(AgentActivity, kind=st.just("tool"), text=_texts, detail=_texts).map(lambda e: WithinIteration(1, e)),
        st.builds(ToolResult, name=_texts, command=_texts, success=st.none() | st.booleans()),
    ),
    max_leaves=9,
)


@given(_values)
def test_a_value_is_as_if_each_text_in_it_were_replaced_and_the_same_where_none_is(value: object) -> None:
    """The texts are such that their replacement can be made in the value's own notation too."""
    after = cleaned(value, lambda text: text.replace("!", "#"))
    assert repr(after) == repr(value).replace("!", "#")
    assert (after is value) == ("!" not in repr(value))
