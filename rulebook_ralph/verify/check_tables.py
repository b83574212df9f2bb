"""The tables of manifests that gates read: those of pytest in pyproject.toml are checks, the dependencies are not."""

import configparser
import json
import posixpath
import re
import tomllib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

_HEADER = re.compile(r"\s*\[\[?\s*([^\]\n]+?)\s*\]\]?\s*(?:[#;].*)?")
_ALWAYS = ("pytest", "jest", "mocha", "vitest", "ava", "tap")
_CARGO = ("test", "profile", "lints", "bench")
_ALIASES = {"coverage": "--cov", "eslintConfig": "eslint", "eslintIgnore": "eslint"}
_JSON_KEYS = (*_ALWAYS, "nyc", "c8", "eslintConfig", "eslintIgnore", "prettier", "xo", "standard")
_MANAGERS: dict[str, tuple[str, ...]] = {
    "poetry": (),
    "uv": (),
    "setuptools": (),
    "flit": (),
    "hatch": ("envs",),
    "pdm": ("scripts",),
}
"""Tools whose own tables hold dependencies and builds; only these tables of theirs are about gates."""


@dataclass(slots=True)
class NpmScripts:
    """The scripts of package.json files that gates run, by name."""

    named: set[str] = field(default_factory=set)

    def follow(self, names: Sequence[str], folder: str, read: Callable[[str], str | None]) -> Iterator[str]:
        """The commands behind `npm run NAME`, with those that npm runs before and after."""
        if not names:
            return
        try:
            scripts = dict(
                json.loads(read(posixpath.normpath(posixpath.join(folder, "package.json"))) or "")["scripts"]
            )
        except (ValueError, TypeError, LookupError, RecursionError):
            return
        for name in names:
            told = {"t": "test", "tst": "test"}.get(name, name)
            for each in (told, f"pre{told}", f"post{told}"):
                self.named.add(each)
                if isinstance(scripts.get(each), str):
                    yield scripts.pop(each)


_At = tuple[str, ...]
"""The name of a table, or of a script: `tool.pytest`."""


@dataclass(frozen=True, slots=True)
class Tables:
    """Which tables are checks: those of tools that the gates' texts name, and the scripts that they run."""

    words: frozenset[str] = frozenset()
    npm: NpmScripts = field(default_factory=NpmScripts)

    def differ(self, path: str, old: str, new: str) -> bool:
        """Whether the check tables of two versions of a manifest differ. One that cannot be read differs from any."""
        kind = tables_of(path)
        if kind is None or old == new:
            return False
        parts = [self._parts(kind, text) for text in (old, new)]
        return parts[0] is None or parts[1] is None or parts[0][1] != parts[1][1]

    def mixed(self, path: str, code: str, checks: str) -> str:
        """The manifest of `code` with the check tables of `checks`; the whole of `checks` where that cannot be told."""
        kind = tables_of(path)
        ours, theirs = (self._parts(kind, text) if kind else None for text in (code, checks))
        if kind is None or ours is None or theirs is None:
            return checks
        if ours[1] == theirs[1]:
            return code
        if kind == "json":
            keys = ours[0] | theirs[1]
            scripts = {at[1]: command for at, command in keys.items() if len(at) > 1}
            package = {at[0]: value for at, value in keys.items() if len(at) == 1} | {"scripts": scripts}
            return json.dumps(package, indent=2) + "\n"
        product = "".join(line for line, is_check in self._lines(kind, code) if not is_check)
        own = "".join(line for line, is_check in self._lines(kind, checks) if is_check)
        text = f"{product.rstrip()}\n\n{own}"
        return text if self._parts(kind, text) == (ours[0], theirs[1]) else checks

    def is_read(self, tool: str) -> bool:
        """Whether a gate runs that tool, or it is a test runner."""
        return tool in _ALWAYS or tool in self.words or _ALIASES.get(tool, tool) in self.words

    def _is_check(self, kind: str, at: _At) -> bool:
        first, second, third, *_ = *at, "", ""
        if kind == "json":
            return (first in _JSON_KEYS and self.is_read(first)) or (first == "scripts" and second in self.npm.named)
        if kind == "cargo":
            return first in _CARGO
        if kind == "toml":
            is_about_gates = third in _MANAGERS[second] if second in _MANAGERS else bool(second)
            return first == "tool" and is_about_gates and self.is_read(second)
        tool = re.split(r"[:\-]", first.removeprefix("tool:"))[0]
        return not first.startswith(("options", "metadata")) and self.is_read(tool)

    def _parts(self, kind: str, text: str) -> tuple[dict[_At, Any], dict[_At, Any]] | None:
        """The tables that are none of checks, and those that are; None where it cannot be read."""
        try:
            tables = dict(_tables(kind, text))
        except (configparser.Error, ValueError, TypeError, RecursionError):
            return None
        checks = {at: table for at, table in tables.items() if self._is_check(kind, at)}
        return {at: table for at, table in tables.items() if at not in checks}, checks

    def _lines(self, kind: str, text: str) -> Iterator[tuple[str, bool]]:
        """The lines, each with whether it is one of a check table, by the header above it."""
        is_check = False
        for line in text.splitlines(keepends=True):
            if header := _HEADER.fullmatch(line.rstrip("\n")):
                name = header[1]
                at = (name,) if kind == "ini" else tuple(re.sub(r"[\"' ]", "", name).split("."))
                is_check = self._is_check(kind, at)
            yield line if line.endswith("\n") else f"{line}\n", is_check


def tables_of(path: str) -> str | None:
    """In what form a manifest has tables; None of other files."""
    name = posixpath.basename(path)
    return {"pyproject.toml": "toml", "Cargo.toml": "cargo", "setup.cfg": "ini", "package.json": "json"}.get(name)


def _tables(kind: str, text: str) -> Iterator[tuple[_At, Any]]:
    """The tables of a manifest, however they are written. Raises what readers raise."""
    if kind == "ini":
        parser = configparser.RawConfigParser(strict=False)
        parser.read_string(text)
        yield from (((name,), dict(parser.items(name))) for name in parser.sections())
        return
    data = json.loads(text or "{}") if kind == "json" else tomllib.loads(text)
    for name, value in dict(data).items():
        if name != {"json": "scripts", "toml": "tool"}.get(kind) or not isinstance(value, dict):
            yield (name,), value
            continue
        for below, told in value.items():
            if kind == "toml" and below in _MANAGERS and isinstance(told, dict):
                yield from (((name, below, each), table) for each, table in told.items())
            else:
                yield (name, below), told
