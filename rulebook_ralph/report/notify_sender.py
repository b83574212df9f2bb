"""Sends one notification through apprise, in a process of its own, which can be ended whatever a service does.

Reads `{addresses, title, body, kind}` as JSON from standard input; without a body it only looks at the addresses. It
writes a line for each that is done: its index and, after a space, what went wrong, if anything did. Run by its path, so
that it imports nothing of a repository's.
"""

import json
import logging
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any


def main() -> int:
    asked: dict[str, Any] = json.load(sys.stdin)
    import apprise  # noqa: PLC0415 - an extra; a quarter of a second

    logging.disable()  # it would tell addresses

    def deliver(index: int, address: str, service: Any) -> None:
        problem = "apprise knows no such address"
        if service is not None:
            if "overflow=" not in address:
                service.overflow_mode = apprise.OverflowMode.TRUNCATE  # the most important stands first
            problem = send(service) if asked["body"] else ""
        sys.stdout.write(f"{index} {problem}\n")
        sys.stdout.flush()

    def send(service: Any) -> str:
        to = apprise.Apprise()
        to.add(service)
        kind = apprise.NotifyType(asked["kind"])
        sent = to.notify(
            body=asked["body"], title=asked["title"], notify_type=kind, body_format=apprise.NotifyFormat.MARKDOWN
        )
        return "" if sent else "the service did not take it"

    # one after another: while one thread loads its plug-ins, apprise tells the others that it knows no such address
    services = [apprise.Apprise.instantiate(address, suppress_exceptions=True) for _, address in asked["addresses"]]
    with ThreadPoolExecutor(max_workers=len(services)) as threads:
        list(threads.map(deliver, *zip(*asked["addresses"], strict=True), services))
    return 0


if __name__ == "__main__":
    sys.exit(main())
