"""Google's generateContent, which gemini speaks."""

import time
from collections.abc import Iterator

from .api import (
    MESSAGE,
    STATUS,
    TOKENS_CACHED,
    TOKENS_IN,
    TOKENS_OUT,
    Error,
    Json,
    Reply,
    Tools,
    halves,
    numbers,
    texts_of,
)
from .turns import Refuse, Say, Use

_STATUS = {
    "authentication": "UNAUTHENTICATED",
    "rate-limit": "RESOURCE_EXHAUSTED",
    "usage-limit": "RESOURCE_EXHAUSTED",
}
_RPC = "type.googleapis.com/google.rpc."


class GenerateContent:
    def is_streamed(self, path: str, body: Json) -> bool:
        return path.endswith(":streamGenerateContent")

    def texts(self, body: Json) -> Iterator[str]:
        for content in body["contents"]:
            if content.get("role", "user") == "user":
                yield from texts_of(content["parts"])

    def tools(self, body: Json) -> Tools:
        functions = [one for tool in body.get("tools") or () for one in tool.get("functionDeclarations") or ()]
        return {one["name"]: one.get("parametersJsonSchema") or one.get("parameters") or {} for one in functions}

    def reply(self, answer: Say | Use, model: str) -> Reply:
        if isinstance(answer, Use):
            whole = _chunk({"functionCall": {"name": answer.tool, "args": answer.input}}, model, stop=True)
            return Reply(whole, [], [("", whole)])
        pieces = [("", _chunk({"text": piece}, model)) for piece in halves(answer.text)]
        end = [("", _chunk({"text": ""}, model, stop=True))]
        return Reply(_chunk({"text": answer.text}, model, stop=True), pieces, end)

    def error(self, refusal: Refuse) -> Error:
        why = refusal.why
        error: Json = {"code": STATUS[why], "message": MESSAGE[why], "status": _STATUS[why]}
        if refusal.resets is not None:
            left = max(0, round(refusal.resets.timestamp() - time.time()))
            quota = {"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}
            error["details"] = [
                {"@type": f"{_RPC}QuotaFailure", "violations": [quota]},
                {"@type": f"{_RPC}RetryInfo", "retryDelay": f"{left}s"},
            ]
        return Error({"error": error})


def _chunk(part: Json, model: str, *, stop: bool = False) -> Json:
    candidate: Json = {"content": {"role": "model", "parts": [part]}, "index": 0}
    return {
        "candidates": [candidate | ({"finishReason": "STOP"} if stop else {})],
        "usageMetadata": {
            "promptTokenCount": TOKENS_IN,
            "cachedContentTokenCount": TOKENS_CACHED,
            "candidatesTokenCount": TOKENS_OUT,
            "totalTokenCount": TOKENS_IN + TOKENS_OUT,
        },
        "modelVersion": model,
        "responseId": f"gem-{next(numbers):06}",
    }
