"""Gates of Rust and Go projects: their toolchain's own commands."""

import re
from pathlib import Path

from rulebook_ralph.sources.gates_found import Found, step, table, text_of, toml_of
from rulebook_ralph.sources.source import SourceProblem


def discover_rust(root: Path) -> Found:
    """`cargo test` and `cargo check`; `cargo clippy` only where the project configures it."""
    problems: list[SourceProblem] = []
    manifest = toml_of(root / "Cargo.toml", problems)
    if "package" not in manifest and "workspace" not in manifest:
        return Found((), tuple(problems))
    everything = " --workspace" if "workspace" in manifest else ""
    steps = [step("test", f"cargo test{everything}"), step("typecheck", f"cargo check{everything}")]
    configured = (root / "clippy.toml").is_file() or (root / ".clippy.toml").is_file()
    if configured or table(manifest, "lints", "clippy") or table(manifest, "workspace", "lints", "clippy"):
        steps.append(step("lint", f"cargo clippy{everything}"))
    return Found(tuple(steps), tuple(problems))


def discover_go(root: Path) -> Found:
    """`go test` and `go vet` over all packages of the module."""
    problems: list[SourceProblem] = []
    text = text_of(root / "go.mod", problems)
    if not re.search(r"^module\s+\S", text, re.MULTILINE):
        if text.strip():
            problems.append(SourceProblem(root / "go.mod", None, "names no module"))
        return Found((), tuple(problems))
    return Found((step("test", "go test ./..."), step("lint", "go vet ./...")), tuple(problems))
