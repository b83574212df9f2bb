"""The Anthropic API as the model that judges. The package is imported with the first question: it takes a second."""

import threading
import time
from collections.abc import Callable, Mapping
from contextvars import copy_context
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from threading import Event
from types import ModuleType
from typing import TYPE_CHECKING, Any

from rulebook_ralph.agents.api_errors import kind_of_status
from rulebook_ralph.agents.fields import ANTHROPIC_USAGE, usage_of
from rulebook_ralph.agents.prices import ModelSpend
from rulebook_ralph.agents.question import ModelError, Question
from rulebook_ralph.tasks.results import AgentFault, ErrorKind, Usage
from rulebook_ralph.tasks.text import clipped

if TYPE_CHECKING:
    from anthropic import Anthropic
    from anthropic.types import Message

ALIASES: Mapping[str, str] = {
    "haiku": "claude-haiku-5-5",
    "sonnet": "claude-sonnet-5-5",
    "opus": "claude-opus-5-5",
}
"""Short names of models, and what the API calls them; other names go through as they are."""

KEYS = ("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN")
NO_PACKAGE = "the package `anthropic` is not installed: pip install 'rulebook-ralph[anthropic]'"
NO_KEY = f"the Anthropic API cannot be asked: neither {KEYS[0]} nor {KEYS[1]} is set"

_DEFAULT = "haiku"
_MAX_TOKENS = 16_000
_MAX_RETRIES = 2
_BETWEEN_LOOKS = 0.05
_BAD_REQUEST = 400
_NO_SUCH_MODEL = 404


def full_name(model: str) -> str:
    """What the API calls a model."""
    name = model.strip() or _DEFAULT
    return ALIASES.get(name.lower(), name)


@dataclass(slots=True)
class _Reply:
    """What became of a request that runs in a thread of its own."""

    text: str = ""
    error: ModelError | None = None
    done: Event = field(default_factory=Event)


@dataclass(slots=True)
class AnthropicModel:
    """Asks the API. `environment` has the key and, where it is not the usual one, the base URL; `timeout` (seconds) is
    for a question with all its retries; `named_by` is the key of the configuration that names the model.
    """

    environment: Mapping[str, str]
    model: str
    timeout: float
    cancelled: Event
    spend: ModelSpend
    named_by: str = "judge.model"
    retries: int = _MAX_RETRIES
    _plain: bool = False

    def __call__(self, question: Question) -> str:
        """The model's text. Raises ModelError, at once when the run is told to end."""
        client = self._client(_package())
        reply = _Reply()
        # A daemon, so that neither ^C nor the end of the program waits for a server.
        answer = partial(copy_context().run, self._answer, client, question, reply)
        threading.Thread(target=answer, name="ralph-judge", daemon=True).start()
        deadline = time.monotonic() + self.timeout
        while not reply.done.wait(_BETWEEN_LOOKS):
            if self.cancelled.is_set():
                raise ModelError("the run was told to end")
            if time.monotonic() >= deadline:
                raise _too_late(f"no answer within {self.timeout:g} s")
        if reply.error:
            raise reply.error
        return reply.text

    def _client(self, anthropic: ModuleType) -> "Anthropic":
        key, token = (self.environment.get(name) or None for name in KEYS)
        if not (key or token):
            raise ModelError(NO_KEY, AgentFault(kind="authentication", message=NO_KEY))
        try:
            client: Anthropic = anthropic.Anthropic(
                api_key=key,
                auth_token=None if key else token,
                base_url=self.environment.get("ANTHROPIC_BASE_URL") or "https://api.anthropic.com",
                timeout=self.timeout,
                max_retries=self.retries,
            )
        except Exception as error:
            raise ModelError(f"the API cannot be used: {clipped(str(error))}") from error
        return client

    def _answer(self, client: "Anthropic", question: Question, reply: _Reply) -> None:
        try:
            with client:
                message = self._asked(client, question)
                model = question.model or self.model
                self.spend((full_name(model), model, "anthropic"), _usage(message), None)
                reply.text = _text(message)
        except ModelError as error:
            reply.error = error
        except Exception as error:  # noqa: BLE001 - whatever a library, a proxy or a server comes up with
            reply.error = _failure(error, self.named_by)
        finally:
            reply.done.set()

    def _asked(self, client: "Anthropic", question: Question) -> "Message":
        """With the answer bound to the schema, where the server knows how to do that."""
        if not self._plain:
            try:
                return self._request(client, question, bound=True)
            except Exception as error:
                if getattr(error, "status_code", None) != _BAD_REQUEST or not _about_form(str(error)):
                    raise
                self._plain = True
        return self._request(client, question, bound=False)

    def _request(self, client: "Anthropic", question: Question, *, bound: bool) -> "Message":
        package = _package()
        schema = package.transform_schema(_bare(question.schema))
        extra: dict[str, Any] = (
            {"output_config": {"format": {"type": "json_schema", "schema": schema}}} if bound else {}
        )
        system = question.instructions if bound else f"{question.instructions}\nThe schema of the answer:\n{schema}"
        create: Callable[..., Message] = client.messages.create
        return create(
            model=full_name(question.model or self.model),
            max_tokens=_MAX_TOKENS,
            system=system,
            messages=[{"role": "user", "content": question.data}],
            **extra,
        )


def _package() -> ModuleType:
    try:
        return import_module("anthropic")
    except ImportError as error:
        raise ModelError(NO_PACKAGE, AgentFault(kind="not-installed", message=NO_PACKAGE)) from error


def _text(message: object) -> str:
    """All blocks of text, joined. A page of HTML arrives as a plain string, and an empty answer without blocks."""
    blocks = getattr(message, "content", None)
    if not isinstance(blocks, list):
        raise ModelError("the API gave no message but something else; see ANTHROPIC_BASE_URL")
    stopped = getattr(message, "stop_reason", None)
    if stopped == "refusal":
        raise ModelError("the model refused to judge the work")
    text = "".join(str(getattr(block, "text", "")) for block in blocks if getattr(block, "type", "") == "text")
    if not text.strip():
        raise ModelError("the model gave an answer without text")
    return text


def _usage(message: object) -> Usage:
    """What the API says an answer took; nothing where it is no message."""
    said = getattr(message, "usage", None)
    return usage_of({name: getattr(said, name, None) for name in ANTHROPIC_USAGE})


def _failure(error: Exception, named_by: str) -> ModelError:
    """A failed request: whether it failed whatever stood in it, or may be the data's doing: too long, filtered, too
    slow.
    """
    status, name = getattr(error, "status_code", None), type(error).__name__
    if name == "APITimeoutError":
        return _too_late("the API gave no answer in time")
    kind: ErrorKind | None = None
    if isinstance(status, int):
        kind = _kind(status, _message(error))
        advice = {401: "; check ANTHROPIC_API_KEY", _NO_SUCH_MODEL: f"; check {named_by}"}.get(status, "")
        told = f"the API answered HTTP {status}: {clipped(_message(error))}{advice}"
    elif name == "APIConnectionError":
        kind, told = "network", f"the API cannot be reached: {clipped(str(error.__cause__ or error))}"
    else:
        told = f"the API could not be asked: {clipped(str(error)) or name}"
    return ModelError(told, AgentFault(kind=kind, message=told) if kind else None)


def _too_late(told: str) -> ModelError:
    return ModelError(told, AgentFault(kind="cut-off", message=told))


def _kind(status: int, message: str) -> ErrorKind | None:
    """The kind of a failure that comes whatever stands in a request; None for one that the data may bring about."""
    if status == _BAD_REQUEST:
        return "billing" if message.startswith("Your credit balance is too low") else None
    kind = "not-installed" if status == _NO_SUCH_MODEL else kind_of_status(status)
    return kind if kind != "context-too-long" else None


def _message(error: Exception) -> str:
    """The server's own words, where it gave any; an HTML page has none worth showing."""
    body = getattr(error, "body", None)
    inner = body.get("error") if isinstance(body, dict) else None
    message = inner.get("message") if isinstance(inner, dict) else None
    if isinstance(message, str):
        return message
    text = str(error)
    return "an HTML page" if "<html" in text.lower() else text


def _about_form(text: str) -> bool:
    return any(word in text.lower() for word in ("output_config", "output_format", "schema", "structured"))


def _bare(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without what is for people and files."""
    return {key: value for key, value in schema.items() if key not in {"$schema", "$id", "title"}}
