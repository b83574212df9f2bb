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
        (block,) = whole["content"]
        if isinstance(answer, Say):
            empty = {**block, "text": ""}
            deltas: list[Json] = [{"type": "text_delta", "text": piece} for piece in halves(answer.text)]
        else:
            empty = {**block, "input": {}}
            deltas = [{"type": "input_json_delta", "partial_json": json.dumps(block["input"])}]
        begun = {**whole, "content": [], "stop_reason": None, "usage": {**whole["usage"], "output_tokens": 1}}
        events: list[Json] = [
            {"type": "message_start", "message": begun},
            {"type": "content_block_start", "index": 0, "content_block": empty},
            *({"type": "content_block_delta", "index": 0, "delta": delta} for delta in deltas),
        ]
        end: list[Json] = [
            {"type": "content_block_stop", "index": 0},
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


def _message(answer: Say | Use, model: str) -> Json:
    block = (
        {"type": "text", "text": answer.text}
        if isinstance(answer, Say)
        else {"type": "tool_use", "id": f"toolu_{next(numbers):06}", "name": answer.tool, "input": answer.input}
    )
    return {
        "id": f"msg_{next(numbers):06}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [block],
        "stop_reason": "end_turn" if isinstance(answer, Say) else "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": TOKENS_IN - TOKENS_CACHED,
            "cache_read_input_tokens": TOKENS_CACHED,
            "cache_creation_input_tokens": 0,
            "output_tokens": TOKENS_OUT,
        },
    }
