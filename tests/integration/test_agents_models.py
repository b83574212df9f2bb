"""The models that judge, for real: the API's client against a model on loopback, and an agent CLI as a process."""

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any, get_args

import pytest

from rulebook_ralph.agents import registry
from rulebook_ralph.agents.cli import CliAgent
from rulebook_ralph.agents.models import ALIASES, AnthropicModel, FoundModel, without_tools
from rulebook_ralph.agents.prices import Ledger, ModelSpend
from rulebook_ralph.agents.question import ModelError, Question
from rulebook_ralph.agents.roster import Roster
from rulebook_ralph.config.settings import Config, Defaults, Executor, Judge, Tools
from rulebook_ralph.tasks.results import ErrorKind, Usage
from tests.agent_runs import invocation
from tests.cases import each_of

QUESTION = Question("Say yes.", "Some data.", {"type": "object", "properties": {}, "additionalProperties": False})


@dataclass
class Reply:
    """One answer of the server. `delay` in seconds comes before it."""

    body: Any
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=lambda: {"content-type": "application/json"})
    delay: float = 0.0


def said(*texts: str, stop_reason: str = "end_turn", **changed: Any) -> Reply:
    blocks = [{"type": "text", "text": text} for text in texts]
    message = {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": "m",
        "content": blocks,
        "stop_reason": stop_reason,
        "usage": {"input_tokens": 1, "output_tokens": 1},
    }
    return Reply({**message, **changed})


def failed(status: int, message: str, **headers: str) -> Reply:
    body = {"type": "error", "error": {"type": "some_error", "message": message}}
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return Reply(body, status, {"content-type": "application/json", "x-should-retry": "false", **names})


@dataclass
class Server:
    url: str
    requests: list[dict[str, Any]]
    keys: list[str]


@contextmanager
def serving(answer: Callable[[dict[str, Any]], Reply]) -> Iterator[Server]:
    """A model that speaks the Messages API on loopback."""
    seen = Server("", [], [])
    over = threading.Event()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            request = json.loads(self.rfile.read(int(self.headers["content-length"])))
            seen.requests.append(request)
            sent = self.headers.get("x-api-key") or self.headers.get("authorization") or ""
            seen.keys.append(sent.removeprefix("Bearer "))  # 2.12 sends a key as it sends a token
            reply = answer(request)
            over.wait(reply.delay)
            body = reply.body.encode() if isinstance(reply.body, str) else json.dumps(reply.body).encode()
            self.send_response(reply.status)
            for name, value in reply.headers.items():
                self.send_header(name, value)
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_args: Any) -> None:
            pass

        def handle(self) -> None:
            with suppress(ConnectionError):  # the client went away, as it should
                super().handle()

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    seen.url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        yield seen
    finally:
        over.set()
        server.shutdown()
        server.server_close()
        thread.join()


# The API


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)


def model(
    url: str,
    *,
    timeout: float = 20,
    cancelled: threading.Event | None = None,
    retries: int = 2,
    spend: ModelSpend = lambda *_: None,
    **environment: str,
) -> AnthropicModel:
    surroundings = {"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "test-key", **environment}
    ended = cancelled or threading.Event()
    return AnthropicModel(surroundings, model="haiku", timeout=timeout, cancelled=ended, retries=retries, spend=spend)


def test_a_question_over_http() -> None:
    with serving(lambda _: said("yes")) as server:
        assert model(server.url)(QUESTION) == "yes"
    (request,) = server.requests
    assert request["model"] == ALIASES["haiku"]
    assert request["output_config"]["format"]["type"] == "json_schema"
    assert (request["system"], request["messages"][0]["content"]) == ("Say yes.", "Some data.")
    assert "temperature" not in request
    assert server.keys == ["test-key"]


def test_what_the_api_says_an_answer_took_is_told() -> None:
    told: list[tuple[tuple[str, ...], Usage, float | None]] = []
    usage = {"input_tokens": 7, "output_tokens": 5, "cache_read_input_tokens": 3, "cache_creation_input_tokens": None}
    with serving(lambda _: said("a", usage=usage)) as server:
        assert model(server.url, spend=lambda *said: told.append(said))(QUESTION) == "a"
    assert told == [
        ((ALIASES["haiku"], "haiku", "anthropic"), Usage(input_tokens=7, output_tokens=5, cache_read_tokens=3), None)
    ]


def test_texts_are_joined_and_thinking_is_left_out() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s"}
    blocks = [thinking, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}, {"type": "new", "text": "c"}]
    with serving(lambda _request: said(content=blocks, usage=None)) as server:
        assert model(server.url)(QUESTION) == "ab"


def test_a_server_that_knows_no_schema_is_told_it_in_words() -> None:
    def answer(request: dict[str, Any]) -> Reply:
        if "output_config" in request:
            return failed(400, "output_config: Extra inputs are not permitted")
        return said("yes") if "The schema of the answer" in request["system"] else failed(500, "no schema")

    with serving(answer) as server:
        ask = model(server.url)
        assert [ask(QUESTION), ask(QUESTION)] == ["yes", "yes"]
    assert ["output_config" in request for request in server.requests] == [True, False, False]


def test_the_question_names_the_model_and_a_token_will_do() -> None:
    with serving(lambda _request: said("yes")) as server:
        ask = model(server.url, ANTHROPIC_API_KEY="", ANTHROPIC_AUTH_TOKEN="subscription")
        for name in ("Opus", "claude-next"):
            ask(Question("Say yes.", "Data.", QUESTION.schema, model=name))
    assert [request["model"] for request in server.requests] == [ALIASES["opus"], "claude-next"]
    assert server.keys == ["subscription"] * 2


def test_the_aliases_are_names_that_the_package_knows() -> None:
    known = {name for literal in get_args(import_module("anthropic.types").Model) for name in get_args(literal)}
    assert set(ALIASES.values()) <= known


HTML = {"content-type": "text/html"}
SAYS_401 = r"HTTP 401: invalid x-api-key; check ANTHROPIC_API_KEY"
BAD_GATEWAY = Reply("<html>Bad\nGateway</html>", 502, {**HTML, "x-should-retry": "false"})
FAILURES: list[tuple[Reply, str, ErrorKind | None]] = [
    (failed(401, "invalid x-api-key"), SAYS_401, "authentication"),
    (failed(402, "pay"), "HTTP 402: pay", "billing"),
    (failed(403, "not yours"), "HTTP 403: not yours", "authentication"),
    (failed(400, "Your credit balance is too low to go on"), "HTTP 400: Your credit balance", "billing"),
    (failed(404, "model: nope"), "HTTP 404: model: nope; check judge.model", "not-installed"),
    (failed(429, "rate limit"), "HTTP 429: rate limit", "rate-limit"),
    (failed(529, "Overloaded"), "HTTP 529: Overloaded", "overloaded"),
    (BAD_GATEWAY, "HTTP 502: an HTML page", "overloaded"),
    # All others may be the data's doing.
    (failed(400, "Output blocked by content filtering policy"), "HTTP 400: Output blocked", None),
    (failed(413, "Request too large"), "HTTP 413: Request too large", None),
    (failed(422, "unprocessable"), "HTTP 422: unprocessable", None),
    (Reply("<html>Log in</html>", 200, HTML), "no message but something else; see ANTHROPIC_BASE_URL", None),
    (Reply("oops"), "the API could not be asked", None),
    (Reply({"hello": 1}), "no message but something else", None),
    (Reply([1]), "no message but something else", None),
    (said("I can't", stop_reason="refusal"), "the model refused to judge", None),
    (said(), "an answer without text", None),
    (said(content=None), "no message but something else", None),
]


@each_of(("reply", "told", "kind"), FAILURES)
def test_every_failure_is_one_line_and_says_whose_doing_it_may_be(
    reply: Reply, told: str, kind: ErrorKind | None
) -> None:
    with serving(lambda _request: reply) as server, pytest.raises(ModelError, match=told) as failure:
        model(server.url)(QUESTION)
    assert "\n" not in str(failure.value)
    assert (failure.value.fault and failure.value.fault.kind) == kind


def test_a_short_fault_of_the_server_is_tried_again() -> None:
    replies = iter([failed(529, "Overloaded", x_should_retry="true", retry_after_ms="1"), said("yes")])
    with serving(lambda _request: next(replies)) as server:
        assert model(server.url)(QUESTION) == "yes"


def test_nobody_there_is_told() -> None:
    with serving(lambda _request: said("yes")) as server:
        pass
    with pytest.raises(ModelError, match="cannot be reached"):
        model(server.url, retries=0)(QUESTION)
    with pytest.raises(ModelError, match="the API"):
        model("nonsense:// url", retries=0)(QUESTION)


def test_a_slow_server_is_given_up() -> None:
    with (
        serving(lambda _request: Reply({}, delay=30)) as server,
        pytest.raises(ModelError, match=r"0\.3 s|in time"),
    ):
        model(server.url, timeout=0.3)(QUESTION)


def test_the_end_of_the_run_ends_a_question_at_once() -> None:
    cancelled = threading.Event()

    def answer(_request: dict[str, Any]) -> Reply:
        cancelled.set()
        return Reply({}, delay=30)

    with serving(answer) as server:
        started = time.monotonic()
        with pytest.raises(ModelError, match="told to end"):
            model(server.url, cancelled=cancelled)(QUESTION)
        assert time.monotonic() - started < 10


def test_a_missing_package_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ModelError, match=r"not installed: pip install 'rulebook-ralph\[anthropic\]'"):
        model("http://127.0.0.1:9")(QUESTION)


# Agents as models


def agent_settings(tmp_path: Path, code: str, **changed: Any) -> Executor:
    """A program as an agent: it reads the prompt on stdin."""
    program = tmp_path / "agent.py"
    program.write_text(code, encoding="utf-8")
    return Executor(id="mine", type="command", command=sys.executable, args=("-I", str(program)), **changed)


def chosen(settings: Executor, *, judge: Judge | None = None, cancelled: threading.Event | None = None) -> FoundModel:
    return model_of({"PATH": "/usr/bin:/bin"}, judge or Judge(executor="mine"), settings=settings, cancelled=cancelled)


LOOKING = """
import os, sys
prompt = sys.stdin.read()
assert os.listdir(".") == [], "the folder is empty"
assert '"additionalProperties":false' in prompt, "the schema is told"
assert prompt.index("Say yes.") < prompt.index("Some data.") < prompt.rindex("Answer now")
print(os.getcwd())
"""


def test_an_agent_is_asked_in_an_empty_folder_that_is_gone_afterwards(tmp_path: Path) -> None:
    found = chosen(agent_settings(tmp_path, LOOKING))
    assert found.name == "mine"
    assert found.ask
    folder = Path(found.ask(QUESTION).strip())
    assert not folder.exists()
    assert not folder.parent.exists()


@pytest.mark.parametrize(
    ("code", "told"),
    [
        ("import sys; sys.exit('no login')", "agent mine: .*no login"),
        ("pass", "agent mine gave no answer"),
        ("import time; time.sleep(30)", r"agent mine: no answer within 0\.4 s"),
        ("import sys; sys.exit(127)", "agent mine: exit code 127"),
    ],
)
def test_an_agent_that_fails_is_told_in_one_line(tmp_path: Path, code: str, told: str) -> None:
    judge = Judge(executor="mine", timeout=0.4 if "sleep" in code else 20)
    ask = chosen(agent_settings(tmp_path, code), judge=judge).ask
    assert ask
    with pytest.raises(ModelError, match=told) as failure:
        ask(QUESTION)
    assert "\n" not in str(failure.value)
    assert failure.value.fault is not None, "whoever asks can ask again"


def test_the_end_of_the_run_ends_an_agent_that_judges(tmp_path: Path) -> None:
    cancelled = threading.Event()
    cancelled.set()
    ask = chosen(agent_settings(tmp_path, "import time; time.sleep(30)"), cancelled=cancelled).ask
    assert ask
    with pytest.raises(ModelError, match="told to end"):
        ask(QUESTION)


def test_an_agent_that_is_not_there_is_told() -> None:
    ask = chosen(Executor(id="mine", type="command", command="/nowhere/agent")).ask
    assert ask
    with pytest.raises(ModelError, match="/nowhere/agent"):
        ask(QUESTION)
    nothing = chosen(Executor(id="mine", type="unheard-of"))
    assert nothing.ask is None
    assert "unknown type" in nothing.missing


# Which one


def model_of(
    environment: dict[str, str],
    judge: Judge | None = None,
    default: str = "claude",
    *,
    settings: Executor | None = None,
    cancelled: threading.Event | None = None,
) -> FoundModel:
    executors = (settings,) if settings else (Executor(id="scripted", type="scripted", args=("x",)),)
    config = Config(tools=Tools(executors=executors), defaults=Defaults(executor=default), judge=judge or Judge())
    return Roster(config, environment).judging_model(cancelled or threading.Event())


def test_a_key_chooses_the_api_and_without_one_the_default_agent_judges() -> None:
    assert model_of({"ANTHROPIC_API_KEY": "k"}).name == ALIASES["haiku"]
    assert model_of({"ANTHROPIC_AUTH_TOKEN": "t"}).name == ALIASES["haiku"]
    assert model_of({"ANTHROPIC_API_KEY": "k"}, Judge(executor="claude")).name == "claude"
    assert model_of({"ANTHROPIC_API_KEY": ""}).name == "claude"
    no_key = model_of({}, Judge(executor="anthropic"))
    assert (no_key.ask, bool(re.search("neither ANTHROPIC_API_KEY nor", no_key.missing))) == (None, True)
    scripted = model_of({}, default="scripted")
    assert (scripted.ask, scripted.missing) == (
        None,
        "agent scripted cannot be asked unless judge.executor names it",
    )


def test_without_the_package_the_default_agent_judges(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "anthropic", None)
    assert model_of({"ANTHROPIC_API_KEY": "k"}).name == "claude"
    asked_for = model_of({"ANTHROPIC_API_KEY": "k"}, Judge(executor="anthropic"))
    assert (asked_for.ask, "pip install" in asked_for.missing) == (None, True)


def test_choosing_a_model_imports_no_client() -> None:
    look = "import sys, rulebook_ralph.agents.roster; sys.exit('anthropic' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", look], check=False).returncode == 0


NO_TOOLS = ("--tools", "", "--strict-mcp-config")


JUDGES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "codex --sandbox danger-full-access -s x -c sandbox_mode=x --dangerously-bypass-approvals-and-sandbox -m x": (
        ("codex", "exec", "--json", "--skip-git-repo-check", "--sandbox", "read-only", "-m", "x"),
        (),
    ),
    "gemini --approval-mode yolo -y --yolo --model=x": (
        ("gemini", "--output-format", "stream-json", "--approval-mode", "default", "--model=x"),
        (),
    ),
    "qwen --approval-mode=yolo -y --model -y": (
        ("qwen", "--output-format", "stream-json", "--approval-mode", "default", "--model", "own"),
        (),
    ),
    "opencode --auto --attach http://x": (("opencode", "run", "--format", "json", "--model", "own"), ()),
    "cursor -f --force": (("--model", "own"), ("-f", "--force")),
    "copilot --allow-all-tools --allow-tool=shell": (("--model", "own"), ("--allow-all-tools", "--allow-tool=shell")),
    "claude --permission-mode bypassPermissions --allowedTools Bash Edit --add-dir=/ --max-turns 5": (
        ("--model", "haiku", *NO_TOOLS),
        ("bypassPermissions", "Bash", "Edit", "--add-dir=/", "--max-turns"),
    ),
}


@pytest.mark.parametrize("configured", JUDGES)
def test_an_agent_that_judges_is_allowed_nothing(configured: str) -> None:
    type_, *args = configured.split()
    settings = without_tools(
        Executor(id="a", type=type_, args=tuple(args), permissions="full", model="own", endpoint="http://x"),
        "haiku",
    )
    assert (settings.permissions, settings.endpoint) == ("ask", "")
    agent = registry.create(settings, {})
    assert isinstance(agent, CliAgent)
    argv = agent.argv(invocation(Path("/")))
    expected, refused = JUDGES[configured]
    assert argv[-len(expected) :] == expected
    assert not set(refused) & set(argv)


def test_a_program_of_the_users_own_keeps_its_args() -> None:
    args = ("-f", "--tools", "x", "--auto")
    assert without_tools(Executor(id="a", type="command", args=args), "haiku").args == args


def test_a_model_named_for_another_agent_is_passed_on() -> None:
    assert without_tools(Executor(id="a", type="codex", model="own"), "gpt-mini").model == "gpt-mini"


def test_what_questions_cost_is_summed_for_the_iteration_whose_thread_asks() -> None:
    usage = {"input_tokens": 1_000_000, "output_tokens": 1}
    ledger = Ledger()
    with serving(lambda _: said("yes", usage=usage)) as server:
        environment = {"ANTHROPIC_BASE_URL": server.url, "ANTHROPIC_API_KEY": "test-key"}
        ask = Roster(Config(), environment).judging_model(threading.Event(), spend=ledger.spend).ask
        assert ask

        def work(number: int) -> None:
            with ledger.paying(number):
                for _ in range(number):
                    ask(QUESTION)

        workers = [threading.Thread(target=work, args=(number,)) for number in (1, 2)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        ask(QUESTION)
    one, two = ledger.take(1), ledger.take(2)
    assert one[0].input_tokens == 2_000_000, "its own, and the one that is nobody's"
    assert two[0].input_tokens == 2_000_000
    assert two[1] == pytest.approx(2 * 0.5, rel=1e-3), "by the usual price of haiku"
    assert ledger.take(2) == (Usage(), None)
