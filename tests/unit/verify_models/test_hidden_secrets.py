"""Secrets that something nobody sees stands within: a colour, a control character, a character without width."""

import json
import time
import unicodedata
from collections.abc import Callable, Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rulebook_ralph.tasks.text import printable, printable_block
from rulebook_ralph.verify.redaction import MARK, Redactor

VALUE = 'zQx9-planted/"pass\\wörd 0123456789'
SHAPE = "ghp_abcdefghijklmnopqrstuvwxyz0123456789"
REDACTOR = Redactor({"MY_API_TOKEN": VALUE})
SEQUENCES = (
    "\x1b[01;31m",
    "\x1b[0m",
    "\x1b[K",
    "\x1b]8;;https://example.org/a\x1b\\",
    "\x1b]0;title\x07",
    "\x1b(B",
    "\x1b7",
    "\x9b1m",
    "\x9d0;title\x9c",
    "\x90q#0\x9c",
)
CHARACTERS = "\x00\x01\x08\x0e\x7f\x85\xad\u034f\u200b\u200d\u202e\u2066\ufe0f\ufeff\U000e0041\U000e0101"
_around = st.sampled_from(("", " ", "\n", "\x1b[1m", "found: ", "é", "\x1b[0m "))


@st.composite
def _broken(draw: st.DrawFn, secret: str, sequences: Sequence[str] = SEQUENCES) -> str:
    """The secret with something unseen at some places within it."""
    hidden = st.lists(st.sampled_from((*sequences, *CHARACTERS)), min_size=1, max_size=3).map("".join)
    places = draw(st.sets(st.integers(1, len(secret) - 1), min_size=1, max_size=4))
    return "".join(draw(hidden) + each if at in places else each for at, each in enumerate(secret))


def _shown(text: str) -> set[str]:
    """All that may become of a text later."""
    bare = "".join(each for each in text if unicodedata.category(each) not in ("Cc", "Cf") or each in "\t\n")
    without = "".join(each for each in printable_block(text, tab="\t") if each not in "\u200d\u034f\ufe0f\U000e0101")
    return {text, bare, printable(text), printable_block(text), printable_block(text, tab="\t"), without}


def _as_json(text: str, *, ascii_only: bool = True) -> str:
    return json.dumps({"text": text, "then": [text, "\x1b[0m more"]}, ensure_ascii=ascii_only)


def _in_blocks(text: str, size: int = 7) -> str:
    data = text.encode()
    blocks = [data[start : start + size] for start in range(0, len(data), size)]
    return b"".join(REDACTOR.clean_blocks(blocks)).decode()


ENTRIES: dict[str, Callable[[str], str]] = {
    "clean": REDACTOR.clean,
    "cut": REDACTOR.clean_cut,
    "blocks": _in_blocks,
}


def _is_kept(secret: str, text: str) -> bool:
    parts = (secret, secret[1:], secret[-12:])
    given_back = [clean(text) for clean in ENTRIES.values()]
    return any(part in shown for each in given_back for shown in _shown(each) for part in parts)


@given(st.sampled_from((VALUE, SHAPE)), st.data(), _around, _around)
def test_what_is_hidden_within_a_secret_hides_it_from_nobody(
    secret: str, data: st.DataObject, before: str, after: str
) -> None:
    text = before + data.draw(_broken(secret)) + after
    assert not _is_kept(secret, text)
    assert all(MARK in clean(text) for clean in ENTRIES.values())


def test_all_of_a_token_goes_where_a_part_of_it_looks_like_one() -> None:
    assert REDACTOR.clean(f"is {SHAPE[:30]}\x1b[0m{SHAPE[30:]}, yes") == f"is {MARK}, yes"


@given(_broken(SHAPE, SEQUENCES[:3]), st.booleans())
def test_nor_as_json_writes_it(broken: str, ascii_only: bool) -> None:
    """Also in JSON within JSON, as an agent's stream tells what a tool answered."""
    once = _as_json(broken.replace("\b", "\a"), ascii_only=ascii_only)
    for written in (once, _as_json(once, ascii_only=ascii_only)):
        for clean in ENTRIES.values():
            text = json.loads(clean(written))["text"]
            said = text if written is once else json.loads(text)["text"]
            assert MARK in said
            assert not any(SHAPE in shown for shown in _shown(said))


def test_the_part_before_an_ellipsis_is_one() -> None:
    assert REDACTOR.clean_cut(f"said {VALUE[:12]}…") == f"said {MARK}…"


@given(st.text(st.characters() | st.sampled_from("\x1b\x9b\x9d[]m;0J\x07\\\r\n\tu0001b\u202e\u200b\ud800漢é")))
@example("456789")
@example('{"a": "\\u001b[31mred\\u001b[0m", "b": "\\\\u001b C:\\\\foo\\\\bar"}')
def test_text_that_hides_no_secret_stays_as_it_is(text: str) -> None:
    assert REDACTOR.clean(text) == text
    is_a_part = text[:6] in VALUE or text[-6:] in VALUE  # which is replaced where a text may be cut
    assert (is_a_part and len(text) > 5) or REDACTOR.clean_cut(text) == text
    data = text.encode("utf-8", "surrogatepass")
    assert b"".join(REDACTOR.clean_blocks([data[:3], data[3:]])) == data


def test_a_stream_that_is_no_text_stays_as_it_is() -> None:
    data = bytes(range(256)) * 9
    assert b"".join(REDACTOR.clean_blocks([data[:1000], data[1000:]])) == data


def test_a_secret_that_holds_such_characters_itself() -> None:
    redactor = Redactor({"KEY": "abc\x1b[1mdefgh-ijk\u200blmn"})
    for text in ("abc\x1b[1mdefgh-ijk\u200blmn", "abcdefgh-ijklmn", "abc\x1b[0mdefgh-ijk\u200blmn"):
        assert redactor.clean(text) == MARK


@pytest.mark.parametrize(
    "piece", ["\x1b", "\x1b[", "\x1b]", "\x9b", "\u200b", "\\u001b", "\\", "\\\\", "\x1b]0;\\u001b]", "a\x1b[0m"]
)
def test_no_such_text_is_slow(piece: str) -> None:
    text = piece * (200_000 // len(piece))
    start = time.process_time()
    REDACTOR.clean_cut(text)
    list(REDACTOR.clean_blocks([text.encode()]))
    assert time.process_time() - start < 2
