"""How tests look in the languages that Ralph knows: where one begins, what skips it, what makes it the only one."""

import re
from dataclasses import dataclass
from typing import Literal

End = Literal["indent", "brace", "word"]


@dataclass(frozen=True, slots=True)
class Language:
    """`start` finds a test by its group `name`; `before` matches a line above it that belongs to it. `files` are the
    names of files whose tests are run; in other files there are none. A test ends where the `indent` goes back, at a
    closing `brace` or at the `word` end. `skip` and `focus` are searched in lines, comments (`comment`) aside.
    """

    files: re.Pattern[str]
    start: re.Pattern[str]
    before: re.Pattern[str]
    skip: re.Pattern[str]
    focus: re.Pattern[str] | None
    end: End
    comment: str
    never: re.Pattern[str]
    """A line that keeps what stands below it from being run."""
    many: re.Pattern[str]
    """What makes one test many."""


def _rule(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_NOTHING = _rule(r"(?!)")
_FALSE = _rule(r"^\s*if\s*\(?\s*(?:false|0|!1|!true)\s*\)?\s*[{:]?\s*$")
_LOOP = _rule(r"\bfor\b|\.each\b|forEach|range\b")
_SCRIPT_TESTS = r"(?:^|/)(?:__tests__|tests?|specs?|e2e|cypress)/|[._-](?:test|spec|cy|e2e)\.\w+$|(?:^|/)test\.\w+$"

PYTHON = Language(
    files=_rule(r"(?:^|/)(?:tests?[^/]*|[^/]*_tests?)\.py$"),
    start=_rule(r"def[ \t]+(?P<name>test\w*)[ \t]*\("),
    before=_rule(r"^\s*@"),
    skip=_rule(
        r"\bmark\.(?:skip|xfail)|\bpytest\.(?:skip|xfail|importorskip)\b|@(?:unittest\.)?(?:skip|expectedFailure)\b|"
        r"@(?:unittest\.)?skip(?:If|Unless)\b|\bself\.skipTest\b|\braise\s+(?:unittest\.)?SkipTest\b|"
        r"^\s*__test__\s*=\s*False|^\s*del\s+[Tt]est\w*\s*$|^\s*[Tt]est\w*\s*=\s*(?:None|lambda\b)"
    ),
    focus=None,
    end="indent",
    comment="#",
    never=_rule(r"^\s*if\s+(?:False|0|None|not\s+True)\s*:|^\s*while\s+(?:False|0)\s*:"),
    many=_rule(r"parametrize|subTest|@given|@data\b|\bfor\b"),
)
_JS_TITLE = r"""(?P<quote>["'`])(?P<name>(?:\\.|(?!(?P=quote)).)*)(?P=quote)"""
JAVASCRIPT = Language(
    files=_rule(rf"(?:{_SCRIPT_TESTS}).*(?<=\.)(?:[cm]?[jt]sx?|vue|svelte)$|[._-](?:test|spec|cy|e2e)\.[cm]?[jt]sx?$"),
    start=_rule(
        r"(?<![\w.$])(?:f?it|x?it|x?test|x?specify)(?:\.\w+)*"
        rf"(?:\s*\(\s*|\.each\s*[(`][\s\S]{{0,2000}}?[)`]\s*\(\s*){_JS_TITLE}"
    ),
    before=_NOTHING,
    skip=_rule(
        r"\b(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.(?:skip|skipIf|runIf|todo|fixme|fails|failing)\b|"
        r"\bx(?:it|test|describe|context|specify)\s*[(.]|^\s*(?:test|this|t|ctx)\.skip\s*\(|"
        r"[{,]\s*(?:skip|todo)\s*:\s*(?:true|['\"`])"
    ),
    focus=_rule(
        r"\b(?:it|test|describe|context|suite|specify)(?:\.\w+)*\.only\b|(?<![\w.$])f(?:it|describe)\s*\(|"
        r"[{,]\s*only\s*:\s*true"
    ),
    end="brace",
    comment="//",
    never=_FALSE,
    many=_LOOP,
)
GO = Language(
    files=_rule(r"_test\.go$"),
    start=_rule(r"(?:^func[ \t]+(?P<name>(?:Test|Fuzz|Example)\w*)[ \t]*\(|\bt\.Run\([ \t]*\"(?P<sub>[^\"\n]*)\")"),
    before=_NOTHING,
    skip=_rule(r"\b\w+\.Skip(?:f|Now)?\(|^//go:build\s+(?:ignore|never|disabled)\b|^//\s*\+build\s+ignore"),
    focus=None,
    end="brace",
    comment="// ",
    never=_FALSE,
    many=_LOOP,
)
RUST = Language(
    files=_rule(r"\.rs$"),
    start=_rule(
        r"#\[(?:\w+::)*(?:test|rstest|test_case|quickcheck|wasm_bindgen_test)\b[^\n]{0,300}"
        r"(?:\n[ \t]*(?:#\[|//)[^\n]{0,300}){0,30}\n?[ \t]*(?:pub[ \t]+)?(?:async[ \t]+)?(?:unsafe[ \t]+)?"
        r"fn[ \t]+(?P<name>\w+)"
    ),
    before=_rule(r"^\s*#\["),
    skip=_rule(r"#\[ignore\b|#\[cfg_attr\([^\n]*\bignore\b|#\[cfg\(any\(\)\)\]|#\[cfg\(FALSE\)\]"),
    focus=None,
    end="brace",
    comment="//",
    never=_FALSE,
    many=_rule(r"#\[case|test_case|\bfor\b"),
)
JVM = Language(
    files=_rule(r"\.(?:java|kt|kts|groovy|scala)$"),
    start=_rule(
        r"@(?:Test|ParameterizedTest|RepeatedTest|TestFactory|Property)\b(?:\([^)]{0,2000}\))?\s*"
        r"(?:@[\w.]+(?:\([^)]{0,2000}\))?\s*){0,20}(?:[\w<>,.?]+\s+){0,8}(?P<name>\w+|`[^`\n]+`)\s*\("
    ),
    before=_rule(r"^\s*@"),
    skip=_rule(r"@(?:Disabled|Ignore)\w*|\bAssumptions?\.(?:assume|abort)|\bassume(?:True|False|That)\("),
    focus=None,
    end="brace",
    comment="//",
    never=_FALSE,
    many=_rule(r"@ParameterizedTest|Source\b|\bfor\b"),
)
CSHARP = Language(
    files=_rule(r"\.(?:cs|fs|vb)$"),
    start=_rule(
        r"\[(?:Fact|Theory|Test|TestMethod|TestCase)\b[^\n\[\]]*\](?:\s*\[[^\n\[\]]*\]){0,30}\s*"
        r"(?:[\w<>,?]+\s+){0,8}(?P<name>\w+)\s*\("
    ),
    before=_rule(r"^\s*\["),
    skip=_rule(r"\bSkip\s*=|\[(?:Ignore|Explicit)\b|\bAssert\.(?:Ignore|Inconclusive)\b|\bSkip\.If"),
    focus=None,
    end="brace",
    comment="//",
    never=_FALSE,
    many=_rule(r"InlineData|TestCase|MemberData|\bfor"),
)
RUBY = Language(
    files=_rule(r"(?:^|/)(?:spec|tests?|features)/.*\.rb$|(?:_spec|_test)\.rb$|(?:^|/)test_[^/]*\.rb$"),
    start=_rule(
        r"^[ \t]*(?:(?:it|specify|example|scenario|test|xit|xspecify|xexample|xscenario|fit|pending)\b[ \t]*\(?[ \t]*"
        r"(?P<quote>[\"'])(?P<name>[^\n]*?)(?P=quote)|def[ \t]+(?P<sub>test_\w+[?!]?))"
    ),
    before=_NOTHING,
    skip=_rule(
        r"^\s*(?:xit|xdescribe|xcontext|xspecify|xexample|xscenario|pending|skip)\b|"
        r"[,(]\s*(?::skip|:pending|skip:\s*(?:true|['\"])|pending:\s*(?:true|['\"]))"
    ),
    focus=_rule(r"^\s*f(?:it|describe|context|specify)\b|[,(]\s*(?::focus\b|focus:\s*true)"),
    end="word",
    comment="#",
    never=_rule(r"^\s*(?:if\s+false|unless\s+true)\s*$"),
    many=_rule(r"\.each\b|\btimes\b"),
)
PHP = Language(
    files=_rule(r"(?:^|/)(?:[Tt]ests?|spec)/.*\.php$|Test\.php$"),
    start=_rule(
        r"(?:function[ \t]+(?P<name>test\w*)[ \t]*\(|#\[Test\][^;{}]{0,2000}?function[ \t]+(?P<sub>\w+)[ \t]*\(|"
        r"^[ \t]*(?:it|test)\([ \t]*(?P<quote>[\"'])(?P<title>[^\n]*?)(?P=quote))"
    ),
    before=_rule(r"^\s*#\["),
    skip=_rule(r"\bmarkTest(?:Skipped|Incomplete)\b|->(?:skip|todo)\(|#\[(?:Skip|Requires)"),
    focus=_rule(r"->only\(\)"),
    end="brace",
    comment="//",
    never=_FALSE,
    many=_rule(r"DataProvider|dataProvider|->with\(|foreach"),
)
CPP = Language(
    files=_rule(r"test[^/]*\.(?:c|cc|cpp|cxx|h|hpp|m|mm)$|(?:^|/)tests?/.*\.(?:c|cc|cpp|cxx)$"),
    start=_rule(
        r"^[ \t]*(?:TEST|TEST_F|TEST_P|TYPED_TEST|TEST_CASE|SCENARIO|BOOST_AUTO_TEST_CASE)"
        r"[ \t]*\([ \t]*(?P<name>[^)\n]*)\)"
    ),
    before=_NOTHING,
    skip=_rule(r"\bGTEST_SKIP\b|\(\s*\w*\s*,?\s*DISABLED_|\[\.(?:[!\w]*)\]|\bdisabled\(\)"),
    focus=None,
    end="brace",
    comment="//",
    never=_rule(rf"{_FALSE.pattern}|^\s*#if\s+0\b"),
    many=_LOOP,
)
SWIFT = Language(
    files=_rule(r"Tests?\.swift$|(?:^|/)Tests/.*\.swift$"),
    start=_rule(
        r"func[ \t]+(?P<name>test\w*)[ \t]*\(|@Test\b[^\n]{0,300}\n?[^\n]{0,300}func[ \t]+(?P<sub>\w+)[ \t]*\("
    ),
    before=_rule(r"^\s*@"),
    skip=_rule(r"\bXCTSkip|\.disabled\("),
    focus=None,
    end="brace",
    comment="//",
    never=_FALSE,
    many=_LOOP,
)
ELIXIR = Language(
    files=_rule(r"_test\.exs$"),
    start=_rule(r"^[ \t]*test[ \t]*\(?\"(?P<name>[^\"\n]*)\""),
    before=_rule(r"^\s*@tag"),
    skip=_rule(r"@(?:module|describe)?tag\s*:?\s*\[?\s*:?(?:skip|pending)\b"),
    focus=_rule(r"@(?:module|describe)?tag\s+:focus\b"),
    end="word",
    comment="#",
    never=_NOTHING,
    many=_rule(r"\bfor\b"),
)
BATS = Language(
    files=_rule(r"\.bats$"),
    start=_rule(r"^[ \t]*@test[ \t]+(?P<quote>[\"'])(?P<name>[^\n]*?)(?P=quote)"),
    before=_NOTHING,
    skip=_rule(r"^\s*skip\b"),
    focus=_NOTHING,
    end="brace",
    comment="#",
    never=_NOTHING,
    many=_NOTHING,
)

_BY_ENDING: dict[str, Language] = {
    **dict.fromkeys(("py",), PYTHON),
    **dict.fromkeys(("js", "jsx", "ts", "tsx", "mjs", "cjs", "mts", "cts", "vue", "svelte"), JAVASCRIPT),
    **dict.fromkeys(("go",), GO),
    **dict.fromkeys(("rs",), RUST),
    **dict.fromkeys(("java", "kt", "kts", "groovy", "scala"), JVM),
    **dict.fromkeys(("cs", "fs", "vb"), CSHARP),
    **dict.fromkeys(("rb",), RUBY),
    **dict.fromkeys(("php",), PHP),
    **dict.fromkeys(("c", "cc", "cpp", "cxx", "h", "hpp", "m", "mm"), CPP),
    **dict.fromkeys(("swift",), SWIFT),
    **dict.fromkeys(("exs",), ELIXIR),
    **dict.fromkeys(("bats",), BATS),
}
_OTHER_TEST = re.compile(
    r"(?:^|/)(?:tests?[_-][^/]*|[^/]*[._-](?:test|tests|spec))\.(?:sh|bash|zsh|t|pl|lua|r|jl|dart|ps1|clj|hs|ml|erl|nim|zig|tcl|cljs|feature)$",
    re.IGNORECASE,
)

_BESIDE_TESTS = re.compile(r"(?:^|/)(?:tests?|testing|specs?|__tests__)/|(?:^|/)conftest\.py$")


def language_of(path: str | None) -> Language | None:
    """The language of a file whose tests are run; None for a file that, by its name, has none."""
    if path is None:
        return None
    language = _BY_ENDING.get(path.rpartition(".")[2])
    return language if language is not None and language.files.search(path) else None


def is_other_test(path: str | None) -> bool:
    """Whether a file is a test by its name, in a language that Ralph does not know."""
    return path is not None and _OTHER_TEST.search(path) is not None


def is_beside_tests(path: str) -> bool:
    """Whether a file lies where tests do, whatever it holds: in a folder of theirs, or as a conftest.py."""
    return _BESIDE_TESTS.search(path) is not None
