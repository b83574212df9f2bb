"""Anthropic's Messages API, which claude speaks."""

import json
from collections.abc import Iterator

from .api import MESSAGE, TOKENS_CACHED, TOKENS_IN, TOKENS_OUT, Error, Json, Reply, Tools, halves, numbers, texts_of
from .turns import Refuse, Say, Use

_TYPE = {"authentication": "authentication_error", "rate-limit": "rate_limit_error", "usage-limit": "rate_limit_error"}


class Messages:
    def is_streamed(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))

    def texts(self, body: Json) -> Iterator[str]:
        for message in body["messages"]:
            if message["role"] == "user":
                yield from texts_of(message["content"])

    def tools(self, body: Json) -> Tools:
        return {tool["name"]: tool.get("input_schema") or {} for tool in body.get("tools") or ()}

    def reply(self, answer: Say | Use, model: str) -> Reply:
        whole = _message(answer, model)
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        events: list[Json] = [
            {"type": "message_start", "message": begun},
            *(event for index, block in enumerate(whole["content"]) for event in _streamed(index, block)),
        ]
        end: list[Json] = [
            events.pop(),
            {
                "type": "message_delta",
                "delta": {"stop_reason": whole["stop_reason"], "stop_sequence": None},
                "usage": {"output_tokens": TOKENS_OUT},
            },
            {"type": "message_stop"},
        ]
        return Reply(whole, [(one["type"], one) for one in events], [(one["type"], one) for one in end])

    def error(self, refusal: Refuse) -> Error:
        body = {"type": "error", "error": {"type": _TYPE[refusal.why], "message": MESSAGE[refusal.why]}}
        if refusal.why == "rate-limit":
            return Error(body, {"retry-after": "0"})
        if refusal.resets is None:
            return Error(body)
        limit = {
            "x-should-retry": "false",
            "anthropic-ratelimit-unified-status": "rejected",
            "anthropic-ratelimit-unified-reset": str(int(refusal.resets.timestamp())),
            "anthropic-ratelimit-unified-representative-claim": "five_hour",
        }
        return Error(body, limit)


def _streamed(index: int, block: Json) -> Iterator[Json]:
    """The events of one block of a message."""
    if block["type"] == "text":
        empty = {**block, "text": ""}
        deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in halves(block["text"])]
    else:
        empty = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
    yield {"type": "content_block_start", "index": index, "content_block": empty}
    yield from ({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas)
    yield {"type": "content_block_stop", "index": index}


def _message(answer: Say | Use, model: str) -> Json:
    blocks: list[Json] = (
        [{"type": "text", "text": answer.text}]
        if isinstance(answer, Say)
        else [
            {"type": "tool_use", "id": f"toolu_{next(numbers):06}", "name": use.tool, "input": use.input}
            for use in (answer, *answer.beside)
        ]
    )
    return {
        "id": f"msg_{next(numbers):06}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": blocks,
        "stop_reason": "end_turn" if isinstance(answer, Say) else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": TOKENS_IN - TOKENS_CACHED,
            "cache_read_input_tokens": TOKENS_CACHED,
            "cache_creation_input_tokens": 0,
            "output_tokens": TOKENS_OUT,
        },
    }
