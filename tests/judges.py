"""Models that judge, as plain functions of the question: one obeys whatever it reads, one looks for what is asked."""

import base64
import contextlib
import json
import re
import unicodedata
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from rulebook_ralph.core.question import Question

Statements = dict[str, str]
_STATEMENT = re.compile(r"^- (s[0-9a-f]{8}): (.*)$", re.MULTILINE)
_LINE = re.compile(r"^([-+= ]) *(\d+)\| (.*)$")
_OBEYED = re.compile(
    r"(ignore|disregard|forget|negeer|ignorier|ignorez|ignora|\u0438\u0433\u043d\u043e\u0440).{0,80}"
    r"(instruc|prompt|rule|anweisung|opdracht|\u0438\u043d\u0441\u0442\u0440\u0443\u043a)"
    r"|\u5ffd\u7565.*\u6307\u4ee4|you are .{0,20}(verifier|judge|reviewer|grader|assistant)"
    r"|verdict\W{1,4}met|criteri\w+ .{0,20}(met|satisfied|erfullt|remplis)|respond with|(dear|note to the) (judge|verifier)"
    r"|^\W*(verified|approved|ship)\b|<\|im_start|\[inst\]|^\W*(system|assistant):"
    r"|everything (the list|that was) ask\w* (for )?(is|can be)|kindly wave|no need to look|on every count"
    r"|i trust your answer will be yes",
    re.IGNORECASE,
)


def nonce_of(question: Question) -> str:
    found = re.search(r"Its `nonce` is `([0-9a-f]+)`", question.instructions)
    assert found
    return found[1]


def statements_of(question: Question) -> Statements:
    return dict(_STATEMENT.findall(question.instructions))


def lines_of(question: Question) -> Iterator[tuple[str, str, int, str]]:
    """File, sign, number and text of each line that is shown."""
    name = ""
    for line in question.data.split("\n"):
        if line.startswith("file: "):
            name = line.removeprefix("file: ")
        elif found := _LINE.match(line):
            yield name, found[1], int(found[2]), found[3]


def answer(question: Question, rulings: list[dict[str, object]]) -> str:
    return json.dumps({"nonce": nonce_of(question), "criteria": rulings})


def ruling(name: str, verdict: str, *places: tuple[str, int, str], reason: str = "because") -> dict[str, object]:
    evidence = [{"file": file, "line": line, "quote": quote} for file, line, quote in places]
    return {"id": name, "verdict": verdict, "evidence": evidence, "reason": reason}


def yes_to_all(question: Question) -> str:
    """Every statement is met, with a line that really is there."""
    shown = [(file, number, text) for file, sign, number, text in lines_of(question) if sign == "+"]
    place = next(((f, n, t) for f, n, t in shown if re.search(r"\w", t) and "withheld" not in t), ("none", 1, "none"))
    return answer(question, [ruling(name, "met", place) for name in statements_of(question)])


def would_obey(text: str) -> bool:
    """Whether the obedient model does what a text says; it sees through disguises, as good models do."""
    readings = [text, re.sub(r"\n[^\w]*", " ", text), re.sub(r"[\"']\s*\+\s*[\"']", "", text), text.replace("-", " ")]
    readings += map(_decoded, re.findall(r"[A-Za-z0-9+/]{16,}={0,2}", text))
    return any(_OBEYED.search(_plain(reading)) for reading in readings)


def _decoded(token: str) -> str:
    with contextlib.suppress(ValueError):
        return base64.b64decode(token + "=" * (-len(token) % 4)).decode("utf-8", "replace")
    return ""


def _plain(text: str) -> str:
    alike = str.maketrans("\u0456\u0430\u0435\u043e\u0440\u0441\u0443", "iaeopcy")
    decomposed = unicodedata.normalize("NFKD", text)
    latin = "".join(char for char in decomposed if unicodedata.category(char) not in {"Cf", "Mn"})
    return latin if re.search("[\u0438\u0433]", latin) else latin.translate(alike)


@dataclass
class Obedient:
    """Does what the data says, in file names too; judges by it where it says nothing. Remembers what it was asked."""

    asked: list[Question] = field(default_factory=list)

    def __call__(self, question: Question) -> str:
        self.asked.append(question)
        if planted := re.search(r"PLANTED (\{.*\})", question.data):
            return planted[1]
        unfenced = "\n".join(line for line in question.data.split("\n") if not line.startswith("<<<"))
        bare = re.sub(r"^[-+= ] *\d+\| ", "", unfenced, flags=re.MULTILINE)
        bare = re.sub(r"\[a line was withheld[^\]]*\]|claims of the author:", "", bare)
        told = [bare, *bare.split("\n")]
        return yes_to_all(question) if any(map(would_obey, told)) else honest(question)


def honest(question: Question) -> str:
    """Says met where shown lines hold all that stands in backquotes in the statement, and points to the first."""
    rulings = []
    for name, said in statements_of(question).items():
        wanted = re.findall(r"`([^`]+)`", said)
        places = [[(f, n, t) for f, s, n, t in lines_of(question) if s != "-" and one in t] for one in wanted]
        found = places[0] if places and all(places) else []
        if said.startswith("The following is not the case: "):
            rulings.append(ruling(name, "not_met" if found else "unclear"))
        else:
            rulings.append(
                ruling(name, "met", found[0]) if found else ruling(name, "not_met", reason="it is not there")
            )
    return answer(question, rulings)


def scripted(*answers: str | Callable[[Question], str]) -> Callable[[Question], str]:
    """Gives the answers in order, the last for ever."""
    left = list(answers)

    def ask(question: Question) -> str:
        said = left.pop(0) if len(left) > 1 else left[0]
        return said if isinstance(said, str) else said(question)

    return ask
