"""Sends one notification through apprise, in a process of its own, which can be ended whatever a service does.

Reads `{address, title, body, kind}` as JSON from standard input; without a body it only looks at the address. Writes
what went wrong, if anything did. Run by its path, so that it imports nothing of a repository's.
"""

import json
import logging
import sys
from typing import Any


def send(asked: dict[str, str]) -> str:
    """What went wrong; empty where nothing did."""
    import apprise  # noqa: PLC0415 - an extra; a quarter of a second

    logging.disable()  # it would tell the address
    service: Any = apprise.Apprise.instantiate(asked["address"], suppress_exceptions=True)
    if service is None:
        return "apprise knows no such address"
    if not asked["body"]:
        return ""
    if "overflow=" not in asked["address"]:
        service.overflow_mode = apprise.OverflowMode.TRUNCATE  # the most important stands first
    to = apprise.Apprise()
    to.add(service)
    sent = to.notify(
        body=asked["body"],
        title=asked["title"],
        notify_type=apprise.NotifyType(asked["kind"]),
        body_format=apprise.NotifyFormat.MARKDOWN,
    )
    return "" if sent else "the service did not take it"


if __name__ == "__main__":
    sys.stdout.write(send(json.load(sys.stdin)))
