"""A scripted model on loopback: as much of the Anthropic Messages API, streamed and whole, as claude asks for.

A script says what the model answers at each task (its id) in each attempt; both stand in the prompt. The turns of an
attempt are played in the order of the requests for it, whatever claude repeats by itself; the last one repeats, and the
last attempt stands for all that follow. Requests that offer no tools are claude's own (titles and the like).
"""

import contextlib
import itertools
import json
import re
import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from rulebook_ralph.core.question import Question

TOKENS_IN, TOKENS_CACHED, TOKENS_OUT = 1000, 200, 34
TOKENS = TOKENS_IN + TOKENS_CACHED + TOKENS_OUT
"""What every answer claims to have used."""

_TASK = re.compile(r"^# Your task: (\S+)$", re.MULTILINE)
_ATTEMPT = re.compile(r"attempt (\d+) of \d+ at this task")


@dataclass(frozen=True, slots=True)
class Say:
    """A final message."""

    text: str


@dataclass(frozen=True, slots=True)
class Use:
    """The use of one of claude's own tools, with its input."""

    tool: str
    input: dict[str, object]


@dataclass(frozen=True, slots=True)
class Refuse:
    """An HTTP error."""

    status: int
    kind: str
    message: str
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Cut:
    """The first half of an answer, then the connection ends."""

    answer: Say | Use


@dataclass(frozen=True, slots=True)
class Hang:
    """No answer, until claude hangs up."""


Turn = Say | Use | Refuse | Cut | Hang
Script = Mapping[str, Sequence[Sequence[Turn]]]
"""For each task its attempts, each a list of turns."""


@dataclass(frozen=True, slots=True)
class Request:
    """What claude sent for an attempt at a task."""

    task: str
    attempt: int
    prompt: str
    messages: list[dict[str, Any]]


class ScriptedModel:
    """Plays a script to whoever connects to the listeners it is given, and remembers what it was asked."""

    def __init__(self) -> None:
        self.script: Script = {}
        self.judge: Callable[[Question], str] | None = None
        """Answers the questions of a semantic check."""
        self.judged: list[Question] = []
        self.requests: list[Request] = []
        self.hanging = threading.Event()
        """Set as soon as a request is left without an answer."""
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

    def next_turn(self, body: dict[str, Any]) -> Turn:
        if self.judge and (question := _question(body)):
            self.judged.append(question)
            return Say(self.judge(question))
        request = _request(body)
        if request is None or not body.get("tools"):
            return Say("ok")
        with self._lock:
            self.requests.append(request)
            attempts = self.script[request.task]
            turns = attempts[min(request.attempt, len(attempts)) - 1]
            place = (request.task, request.attempt)
            self._played[place] += 1
            return turns[min(self._played[place], len(turns)) - 1]


def _request(body: dict[str, Any]) -> Request | None:
    """The request, if one of the texts in it is a prompt of Ralph's."""
    messages = body["messages"]
    for text in (text for message in messages if message["role"] == "user" for text in _texts(message["content"])):
        task, attempt = _TASK.search(text), _ATTEMPT.search(text)
        if task and attempt:
            return Request(task[1], int(attempt[1]), text, messages)
    return None


def _question(body: dict[str, Any]) -> Question | None:
    """The question of a semantic check, if one of the texts is one: instructions and data in one prompt."""
    users = (message for message in body["messages"] if message["role"] == "user")
    for text in (text for message in users for text in _texts(message["content"])):
        if text.startswith("You verify whether work"):
            first = text.index("\n<<<DATA ")
            return Question(text[:first], text[first:], {})
    return None


def _texts(content: str | list[dict[str, Any]]) -> list[str]:
    return [content] if isinstance(content, str) else [block["text"] for block in content if block["type"] == "text"]


_numbers = itertools.count(1)


def _message(answer: Say | Use, model: str) -> dict[str, Any]:
    """The answer as one message of the API."""
    number = next(_numbers)
    block = (
        {"type": "text", "text": answer.text}
        if isinstance(answer, Say)
        else {"type": "tool_use", "id": f"toolu_{number:06}", "name": answer.tool, "input": answer.input}
    )
    return {
        "id": f"msg_{number:06}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "end_turn" if isinstance(answer, Say) else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": TOKENS_IN,
            "cache_read_input_tokens": TOKENS_CACHED,
            "cache_creation_input_tokens": 0,
            "output_tokens": TOKENS_OUT,
        },
    }


def _stream(message: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The same message as the events of a stream."""
    (block,) = message["content"]
    if block["type"] == "text":
        empty, delta = {**block, "text": ""}, {"type": "text_delta", "text": block["text"]}
    else:
        empty = {**block, "input": {}}
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    begun = {**message, "content": [], "stop_reason": None, "usage": {**message["usage"], "output_tokens": 1}}
    yield {"type": "message_start", "message": begun}
    yield {"type": "content_block_start", "index": 0, "content_block": empty}
    yield {"type": "content_block_delta", "index": 0, "delta": delta}
    yield {"type": "content_block_stop", "index": 0}
    end = {"stop_reason": message["stop_reason"], "stop_sequence": None}
    yield {"type": "message_delta", "delta": end, "usage": {"output_tokens": TOKENS_OUT}}
    yield {"type": "message_stop"}


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

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = self.path.partition("?")[0]
        if path == "/v1/messages/count_tokens":
            self._send(200, {"input_tokens": TOKENS_IN})
        elif path == "/v1/messages":
            asked = json.loads(body)
            self._play(self.server.model.next_turn(asked), asked)
        else:
            self._send(404, {"type": "error", "error": {"type": "not_found_error", "message": "no such page"}})

    def _play(self, turn: Turn, asked: dict[str, Any]) -> None:
        match turn:
            case Refuse(status, kind, message, headers):
                self._send(status, {"type": "error", "error": {"type": kind, "message": message}}, headers)
            case Hang():
                self.server.model.hanging.set()
                self._hang_up(wait=True)
            case Cut(answer):
                self._answer(answer, asked, cut=True)
                self._hang_up()
            case _:
                self._answer(turn, asked)

    def _answer(self, answer: Say | Use, asked: dict[str, Any], *, cut: bool = False) -> None:
        message = _message(answer, asked["model"])
        if not asked.get("stream"):
            self._send(200, message, cut=cut)
            return
        text = "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in _stream(message))
        self._send(200, text, {"content-type": "text/event-stream"}, cut=cut)

    def _send(
        self, status: int, body: dict[str, Any] | str, headers: Mapping[str, str] | None = None, *, cut: bool = False
    ) -> None:
        data = (body if isinstance(body, str) else json.dumps(body)).encode()
        self.send_response(status)
        for name, value in ({"content-type": "application/json"} | dict(headers or {})).items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data[: len(data) // 2] if cut else data)

    def _hang_up(self, *, wait: bool = False) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            while wait and self.connection.recv(65536):
                pass

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the name it has
        pass
