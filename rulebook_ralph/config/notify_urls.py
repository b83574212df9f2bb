"""Where notifications go: addresses as configured, those that the environment holds, and what of them is secret."""

import re
from collections.abc import Iterable, Iterator, Mapping

_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)\}")
_ENTRIES = "RALPH_NOTIFY__URLS"
_BETWEEN_PARTS = re.compile(r"[/:@?&=#,]+")
_SHORTEST_TOKEN = 16


def variable_of(url: str) -> str:
    """The variable that an entry such as `${CHAT_URL}` stands for; empty for an address."""
    found = _VARIABLE.fullmatch(url)
    return found[1] if found else ""


def resolved(urls: Iterable[str], environment: Mapping[str, str]) -> tuple[str, ...]:
    """The addresses, in the order of the entries; empty for one whose variable is not set."""
    return tuple(environment.get(name, "").strip() if (name := variable_of(url)) else url for url in urls)


def without_addresses(environment: Mapping[str, str], urls: Iterable[str]) -> Mapping[str, str]:
    """The environment for those who are to know none of the addresses: without the variables that hold them."""
    names = {_ENTRIES, *map(variable_of, urls)} & environment.keys()
    return {name: value for name, value in environment.items() if name not in names} if names else environment


def secrets(addresses: Iterable[str]) -> Iterator[str]:
    """What nobody should see of the addresses: each as a whole, and every part that is as long as a token."""
    for address in addresses:
        if address:
            yield address
            parts = _BETWEEN_PARTS.split(address)
            yield from (part for part in parts if len(part) >= _SHORTEST_TOKEN and "." not in part)


def named(index: int, address: str) -> str:
    """The entry in a message, without what is secret of it: `notify.urls.0 (slack)`."""
    scheme, separator, _ = address.partition("://")
    known = separator and scheme.isalnum() and len(scheme) < _SHORTEST_TOKEN
    return f"notify.urls.{index} ({scheme})" if known else f"notify.urls.{index}"
