"""A scripted model on loopback, which speaks the APIs of all agents under test.

A script says what the model does at each task (its id) in each attempt; both stand in the prompt. The turns of an
attempt are played in the order of the requests for it, whatever the agent repeats by itself; the last one repeats, and
the last attempt stands for all that follow. Requests that offer no tools are the agent's own (titles and the like),
but for aider, which never offers any.
"""

import contextlib
import json
import socket
import threading
from collections import Counter
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from tests.scripted_judge import answer_to, data_of

from .acting import as_text, one_answer, with_tools
from .anthropic import Messages
from .api import STATUS, TOKENS_IN, Api, Json
from .google import GenerateContent
from .openai import Chat, Responses
from .turns import Cut, Hang, Refuse, Request, Say, Script, Shell, Turn, Use, Write, request_in

_APIS: Mapping[str, Api] = {
    "/messages": Messages(),
    "/responses": Responses(),
    "/chat/completions": Chat(),
    ":generateContent": GenerateContent(),
    ":streamGenerateContent": GenerateContent(),
}
_COUNTING = ("/count_tokens", ":countTokens")


class ScriptedModel:
    """Plays a script to whoever connects to the listeners it is given, and remembers what it was asked.

    Files are written below `root`. `without_tools`: the agent offers none, edits stand in the text.
    """

    def __init__(self, root: Path, *, without_tools: bool = False) -> None:
        self.script: Script = {}
        self.judged: list[Json] = []
        """The data of the questions that tests left open."""
        self.judges = "yes"
        """The answer to all of them."""
        self.requests: list[Request] = []
        self.answers = 0
        """How many whole answers were given to requests for an attempt or a judgement."""
        self.hanging = threading.Event()
        """Set as soon as a request is left without an answer."""
        self._root = root
        self._without_tools = without_tools
        self._played: Counter[tuple[str, int]] = Counter()
        self._lock = threading.Lock()
        self._servers: list[_Server] = []

    def listen_on(self, listener: socket.socket) -> None:
        """Answer on that listening socket, until `close`."""
        server = _Server(self, listener)
        self._servers.append(server)
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()

    def close(self) -> None:
        for server in self._servers:
            server.shutdown()
            server.server_close()

    def prompts(self, task: str) -> list[str]:
        """The prompts of a task, one for each attempt, in order."""
        return list(dict.fromkeys(request.prompt for request in self.requests if request.task == task))

    def next_turn(self, api: Api, body: Json) -> Say | Use | Refuse | Cut | Hang:
        if question := next(filter(None, map(_judging, api.texts(body))), None):
            self.judged.append(question)
            self.answers += 1
            return Say(answer_to(question, self.judges))
        request, tools = request_in(api.texts(body)), api.tools(body)
        if request is None or not (tools or self._without_tools):
            return Say("ok")
        with self._lock:
            self.requests.append(request)
            turn = self._play(request)
            self.answers += not isinstance(turn, Refuse | Cut | Hang)
        return with_tools(turn, tools, self._root) if isinstance(turn, Write | Shell) else turn

    def _play(self, request: Request) -> Turn:
        attempts = self.script[request.task]
        turns = attempts[min(request.attempt, len(attempts)) - 1]
        place = (request.task, request.attempt)
        at = min(self._played[place], len(turns) - 1)
        played = one_answer(turns[at:]) if self._without_tools else turns[at : at + 1]
        self._played[place] = at + len(played)
        return as_text(played) if self._without_tools and isinstance(played[0], Write | Shell) else played[0]


def _judging(text: str) -> Json | None:
    """The data of a question to the judging model, which claude is given without the instructions."""
    if text.startswith("You judge the work of a coding agent"):
        return data_of(text)
    data: Json = json.loads(text) if text.startswith("{") else {}
    return data if "items" in data else None


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, model: ScriptedModel, listener: socket.socket) -> None:
        super().__init__(listener.getsockname(), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.model = model

    def handle_error(self, request: object, client_address: object) -> None:
        """An agent that is killed hangs up in the middle; that is no error here."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self._no_such_page()

    def do_POST(self) -> None:
        data = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        api = next((api for end, api in _APIS.items() if path.endswith(end)), None)
        if path.endswith(_COUNTING):
            self._send(200, {"input_tokens": TOKENS_IN, "totalTokens": TOKENS_IN})
        elif api:
            self._play(api, path, json.loads(data))
        else:
            self._no_such_page()

    def _play(self, api: Api, path: str, body: Json) -> None:
        match turn := self.server.model.next_turn(api, body):
            case Refuse():
                error = api.error(turn)
                self._send(STATUS[turn.why], error.body, error.headers)
            case Hang():
                self.server.model.hanging.set()
                self._hang_up(wait=True)
            case Cut(answer):
                self._answer(api, path, body, answer, cut=True)
                self._hang_up()
            case _:
                self._answer(api, path, body, turn)

    def _answer(self, api: Api, path: str, body: Json, answer: Say | Use, *, cut: bool = False) -> None:
        reply = api.reply(answer, body.get("model") or "scripted")
        if not api.is_streamed(path, body):
            self._send(200, reply.whole, cut=cut)
            return
        self.send_response(200)
        self.send_header("content-type", "text/event-stream")
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()
        for name, event in reply.events if cut else [*reply.events, *reply.end]:
            self._chunk((f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n")
        if not cut:
            if isinstance(api, Chat):
                self._chunk("data: [DONE]\n\n")
            self._chunk("")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))

    def _send(self, status: int, body: Json, headers: Mapping[str, str] | None = None, *, cut: bool = False) -> None:
        data = json.dumps(body).encode()
        self.send_response(status)
        for name, value in ({"content-type": "application/json"} | dict(headers or {})).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)

    def _no_such_page(self) -> None:
        self._send(404, {"type": "error", "error": {"type": "not_found_error", "message": "no such page"}})

    def _hang_up(self, *, wait: bool = False) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            while wait and self.connection.recv(65536):
                pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        pass
