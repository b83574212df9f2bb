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
        scripts = _json(read(posixpath.normpath(posixpath.join(folder, "package.json"))) or "").get("scripts")
        if not isinstance(scripts, dict):
            return
        for name in names:
            told = {"t": "test", "tst": "test"}.get(name, name)
            for each in (told, f"pre{told}", f"post{told}"):
                self.named.add(each)
                if isinstance(scripts.get(each), str):
                    yield scripts.pop(each)


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
        parts = [_parts(kind, text, self) for text in (old, new)]
        return parts[0] is None or parts[1] is None or parts[0][1] != parts[1][1]

    def mixed(self, path: str, code: str, checks: str) -> str:
        """The manifest of `code` with the check tables of `checks`; the whole of `checks` where that cannot be told."""
        kind = tables_of(path)
        ours, theirs = (_parts(kind, text, self) if kind else None for text in (code, checks))
        if kind is None or ours is None or theirs is None:
            return checks
        if ours[1] == theirs[1]:
            return code
        if kind == "json":
            merged = json.loads(ours[0])
            _put_checks(merged, json.loads(theirs[1]))
            return json.dumps(merged, indent=2) + "\n"
        text = ours[0].rstrip("\n") + "\n\n" + theirs[1]
        return text if _reads(kind, text) else checks

    def is_check(self, kind: str, name: str) -> bool:
        """Whether a table is one, by its header."""
        name = name.replace('"', "").replace("'", "").replace(" ", "")
        if kind == "cargo":
            return name.split(".")[0] in _CARGO
        if kind == "toml":
            first, tool, *rest = [*name.split("."), ""]
            if tool in _MANAGERS:
                return rest[0] in _MANAGERS[tool] and self.is_read(tool)
            return first == "tool" and self.is_read(tool)
        return not name.startswith(("options", "metadata")) and self.is_read(
            re.split(r"[:\-]", name.removeprefix("tool:"))[0]
        )

    def is_read(self, tool: str) -> bool:
        """Whether a gate runs that tool, or it is a test runner."""
        return tool in _ALWAYS or tool in self.words or _ALIASES.get(tool, tool) in self.words


def tables_of(path: str) -> str | None:
    """In what form a manifest has tables; None of other files."""
    name = posixpath.basename(path)
    return {"pyproject.toml": "toml", "Cargo.toml": "cargo", "setup.cfg": "ini", "package.json": "json"}.get(name)


def _parts(kind: str, text: str, tables: Tables) -> tuple[str, str] | None:
    """The text without the check tables, and these alone; None where it cannot be read."""
    if kind == "json":
        return _json_parts(text, tables)
    if not _reads(kind, text):
        return None
    product: list[str] = []
    checks: list[str] = []
    into = product
    for line in text.splitlines(keepends=True):
        if header := _HEADER.fullmatch(line.rstrip("\n")):
            into = checks if tables.is_check(kind, header[1]) else product
        into.append(line)
    parts = "".join(product), "".join(checks).strip("\n") + ("\n" if checks else "")
    return parts if all(_reads(kind, part) for part in parts) and not _hides_checks(kind, parts[0], tables) else None


def _hides_checks(kind: str, product: str, tables: Tables) -> bool:
    """Whether what no header told still holds check tables: by dotted keys, inline tables or escapes."""
    if kind == "ini":
        return False
    parsed = tomllib.loads(product)
    names = parsed if kind == "cargo" else parsed.get("tool", {})
    within = "" if kind == "cargo" else "tool."
    return isinstance(names, dict) and any(
        tables.is_check(kind, f"{within}{name}.{below}")
        for name, value in names.items()
        for below in (value if isinstance(value, dict) else [""])
    )


def _json_parts(text: str, tables: Tables) -> tuple[str, str] | None:
    if text.strip() and not _json(text):
        return None
    product = _json(text)
    checks = {key: product.pop(key) for key in _JSON_KEYS if key in product and tables.is_read(key)}
    scripts = product.get("scripts")
    if isinstance(scripts, dict):
        checks["scripts"] = {name: scripts.pop(name) for name in sorted(tables.npm.named) if name in scripts}
    return json.dumps(product), json.dumps(checks, sort_keys=True)


def _put_checks(product: dict[str, Any], checks: dict[str, Any]) -> None:
    scripts = checks.pop("scripts", {})
    product |= checks
    if scripts:
        own = product.get("scripts")
        product["scripts"] = {**(own if isinstance(own, dict) else {}), **scripts}


def _reads(kind: str, text: str) -> bool:
    try:
        if kind == "ini":
            configparser.RawConfigParser(strict=False).read_string(text)
        else:
            tomllib.loads(text)
    except (configparser.Error, tomllib.TOMLDecodeError, ValueError, RecursionError):
        return False
    return True


def _json(text: str) -> dict[str, Any]:
    try:
        read = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return read if isinstance(read, dict) else {}
