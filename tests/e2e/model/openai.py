"""OpenAI's two APIs: Responses, which codex speaks, and Chat Completions, which qwen, opencode and aider speak."""

import json
import time
from collections.abc import Iterator

from .api import MESSAGE, TOKENS_CACHED, TOKENS_IN, TOKENS_OUT, Error, Json, Reply, Tools, halves, numbers, texts_of
from .turns import Refuse, Say, Use

_CODE = {
    "authentication": "invalid_api_key",
    "rate-limit": "rate_limit_exceeded",
    "usage-limit": "usage_limit_reached",
}
_TO_SUMMARISE = "# USER\n"
"""How a talk begins that aider wants to have summarised."""


class _OpenAi:
    def is_streamed(self, path: str, body: Json) -> bool:
        return bool(body.get("stream"))

    def error(self, refusal: Refuse) -> Error:
        code = _CODE[refusal.why]
        error: Json = {"message": MESSAGE[refusal.why], "type": code, "code": code, "param": None}
        if refusal.why == "rate-limit":
            return Error({"error": error}, {"retry-after": "0"})
        if refusal.resets is None:
            return Error({"error": error})
        resets, left = int(refusal.resets.timestamp()), max(0, round(refusal.resets.timestamp() - time.time()))
        error |= {"plan_type": "plus", "resets_at": resets, "resets_in_seconds": left}
        return Error({"error": error}, {"retry-after": str(left)})


class Responses(_OpenAi):
    def texts(self, body: Json) -> Iterator[str]:
        for item in body["input"]:
            if item.get("role") == "user":
                yield from texts_of(item.get("content"))

    def tools(self, body: Json) -> Tools:
        named = [tool for tool in body.get("tools") or () if tool.get("name")]
        return {tool["name"]: None if tool["type"] == "custom" else tool.get("parameters") or {} for tool in named}

    def reply(self, answer: Say | Use, model: str) -> Reply:
        item, begun = _item(answer)
        text = answer.text if isinstance(answer, Say) else ""
        place = {"item_id": item["id"], "output_index": 0, "content_index": 0}
        usage = {
            "input_tokens": TOKENS_IN,
            "input_tokens_details": {"cached_tokens": TOKENS_CACHED},
            "output_tokens": TOKENS_OUT,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": TOKENS_IN + TOKENS_OUT,
        }
        whole = {
            "id": f"resp_{next(numbers):06}",
            "object": "response",
            "created_at": int(time.time()),
            "model": model,
            "status": "completed",
            "output": [item],
            "usage": usage,
        }
        events: list[Json] = [
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": begun},
            *({"type": "response.output_text.delta", **place, "delta": piece} for piece in halves(text)),
            {"type": "response.output_item.done", "output_index": 0, "item": item},
        ]
        end: list[Json] = [{"type": "response.completed", "response": whole}]
        return Reply(whole, [(one["type"], one) for one in events], [(one["type"], one) for one in end])


def _item(answer: Say | Use) -> tuple[Json, Json]:
    """What is put out, and how it looks as it begins."""
    if isinstance(answer, Say):
        content = [{"type": "output_text", "text": answer.text, "annotations": []}]
        item: Json = {"type": "message", "id": f"msg_{next(numbers):06}", "role": "assistant", "content": content}
        return {**item, "status": "completed"}, {**item, "content": [], "status": "in_progress"}
    call: Json = {"id": f"fc_{next(numbers):06}", "call_id": f"call_{next(numbers):06}", "name": answer.tool}
    if isinstance(answer.input, str):
        call |= {"type": "custom_tool_call", "input": answer.input}
        return {**call, "status": "completed"}, {**call, "input": "", "status": "in_progress"}
    call |= {"type": "function_call", "arguments": json.dumps(answer.input)}
    return {**call, "status": "completed"}, {**call, "arguments": "", "status": "in_progress"}


class Chat(_OpenAi):
    def texts(self, body: Json) -> Iterator[str]:
        for message in body["messages"]:
            if message["role"] == "user":
                yield from (text for text in texts_of(message["content"]) if not text.startswith(_TO_SUMMARISE))

    def tools(self, body: Json) -> Tools:
        functions = [tool["function"] for tool in body.get("tools") or ()]
        return {function["name"]: function.get("parameters") or {} for function in functions}

    def reply(self, answer: Say | Use, model: str) -> Reply:
        base = {"id": f"chatcmpl-{next(numbers):06}", "created": int(time.time()), "model": model}
        usage = {
            "prompt_tokens": TOKENS_IN,
            "completion_tokens": TOKENS_OUT,
            "total_tokens": TOKENS_IN + TOKENS_OUT,
            "prompt_tokens_details": {"cached_tokens": TOKENS_CACHED},
        }
        if isinstance(answer, Say):
            message: Json = {"role": "assistant", "content": answer.text}
            deltas: list[Json] = [{"role": "assistant", "content": piece} for piece in halves(answer.text)]
            stop = "stop"
        else:
            function = {"name": answer.tool, "arguments": json.dumps(answer.input)}
            call = {"id": f"call_{next(numbers):06}", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
            deltas = [{"role": "assistant", "tool_calls": [{"index": 0, **call}]}]
            stop = "tool_calls"
        whole = {
            **base,
            "object": "chat.completion",
            "choices": [{"index": 0, "message": message, "finish_reason": stop}],
            "usage": usage,
        }
        chunk = {**base, "object": "chat.completion.chunk"}
        events: list[Json] = [
            {**chunk, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas
        ]
        end: list[Json] = [
            {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": stop}]},
            {**chunk, "choices": [], "usage": usage},
        ]
        return Reply(whole, [("", one) for one in events], [("", one) for one in end])
