"""Which files are scripts, and which of them are there to check something, by their names and first lines."""

import re


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_ENDINGS = _words("sh bash zsh ksh dash fish bats t exp ps1 bat cmd awk sed pl pm rb tcl")
_OF_INTERPRETERS = _words("py js cjs mjs ts cts mts jsx tsx php lua r")
_NEVER = _words(
    "json jsonl json5 txt md rst adoc snap yml yaml toml ini cfg conf xml html htm css scss csv tsv sql svg png jpg "
    "gif ico pdf gz zip tar lock log out err expected golden diff patch pem crt key env example tmpl j2 proto graphql "
    "go rs java kt kts scala c cc cpp cxx h hpp m mm swift cs fs vb hs ml mli zig dart ex exs erl vue svelte "
    "gitignore gitkeep gitattributes mk po mo ipynb"
)
_OF_WORDS = _words("txt list lst args opts opt options flags rsp conf cfg ini toml env mk inc include vars properties")
_FOLDER = re.compile(r"(?:^|/)(?:tests?|specs?|__tests__|e2e|integration|checks?|t|testing|qa|smoke)/", re.IGNORECASE)
_OF_CHECKS = re.compile(
    r"(?:^|[/_.-])(?:run[_-]?)?(?:tests?|checks?|lint\w*|verif\w*|specs?|ci|validat\w*|assert\w*|expect\w*|smoke|e2e|"
    r"regress\w*|accept\w*|selftest|qa|harness)(?=[_.-]|$)|"
    r"(?:^|/)(?:scripts?|tools?|\.?ci|hack)/[^/]+$",
    re.IGNORECASE,
)
_OF_PROGRAM = re.compile(
    r"(?:^|/)(?:bin|src|lib|libexec|app|cmd|dist|build|pkg|internal)/|"
    r"(?:^|/)(?:index|main|app|cli|server|manage|build|compile|install|setup|deploy|release|start|serve|run|dev|clean|"
    r"gen|generate|format|fmt|bootstrap|configure|autogen)(?:[_.-][^/]*)?$"
)
_GROUPS = ({"py"}, {"js", "cjs", "mjs", "ts", "cts", "mts", "jsx", "tsx"}, {"pl", "pm", "t"}, {"rb"}, {"php"}, {"lua"})


def ending(path: str) -> str:
    """What follows the last dot of a file's name, in lower case; empty where there is none."""
    name = path.rpartition("/")[2]
    return name.rpartition(".")[2].lower() if "." in name.lstrip(".") else ""


def is_script(path: str) -> bool | None:
    """Whether a file is a script of a shell or the like, by its name; None where its first line must tell."""
    last = ending(path)
    if last in _ENDINGS:
        return True
    return False if last in _NEVER or last in _OF_INTERPRETERS else None


def may_be_run(path: str) -> bool | None:
    """The same, with programs of other interpreters among them."""
    return True if ending(path) in _OF_INTERPRETERS else is_script(path)


def may_hold_words(path: str) -> bool:
    """Whether commands may take words or variables from a file, by its name: it is neither source nor prose."""
    return not ending(path) or ending(path) in _OF_WORDS


def is_shell(path: str, text: str) -> bool:
    """Whether a text is one of a shell, and so can be followed."""
    first = text.partition("\n")[0][:200]
    if first.startswith("#!"):
        return re.search(r"\b(?:ba|z|k|da|a)?sh\b", first) is not None
    return ending(path) in ("sh", "bash", "zsh", "ksh", "dash", "")


def are_alike(one: str, other: str) -> bool:
    """Whether two files are of one language, so that one may load the other."""
    ends = {ending(one), ending(other)}
    return any(ends <= group for group in _GROUPS)


def is_in_test_folder(path: str) -> bool:
    return _FOLDER.search(path) is not None


def is_for_checks(path: str) -> bool:
    """Whether a script is there to check something, rather than the program itself."""
    return _FOLDER.search(path) is not None or _OF_CHECKS.search(path) is not None


def is_of_program(path: str) -> bool:
    """Whether a script that a target or package.json starts is rather what is checked, or builds it."""
    return _OF_PROGRAM.search(path) is not None and not is_for_checks(path)
