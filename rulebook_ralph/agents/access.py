"""What a person gives an agent's CLI: a key or login, and leave to use its tools.

Names as the CLIs' own documentation and code have them (November 2026). Of a login only that its place is filled is
looked at, never what stands there.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Literal, NamedTuple

from rulebook_ralph.agents.registry import BUILT_IN, chosen_model, reader_class, type_of
from rulebook_ralph.config.settings import Executor

_MOST_BYTES = 8 * 1024 * 1024
_LOCAL_MODELS = ("ollama", "lm_studio")


class LoginFile(NamedTuple):
    """`name` below the folder that `variable` names where it is set, else below `folder`: of the home folder or, after
    `./`, of the project's. With `words` it is a file of settings: it counts where one of them stands in it.
    """

    folder: str
    name: str
    variable: str = ""
    words: tuple[str, ...] = ()


class Access(NamedTuple):
    """Where a CLI looks for a key or login: variables, where `*` in a name is anything, and files. `hidden`: the system
    where it may lie out of sight, or `any`. `allows` is what would allow it a single tool; the command is an example.
    """

    allows: str
    variables: tuple[str, ...]
    files: tuple[LoginFile, ...] = ()
    hidden: Literal["", "darwin", "any"] = ""


@dataclass(frozen=True, slots=True)
class Login:
    """What is known of a login: `found` in `place`, `missing`, `not needed`, or `unknown` (then `place` says why)."""

    state: Literal["found", "missing", "not needed", "unknown"]
    place: str = ""
    advice: str = ""


_CLAUDE = ("apiKeyHelper", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_")
_ALLOWED_SHELL = 'args: [--allowed-tools, "run_shell_command(npm test)"]'
_KEYS = (
    *("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "OPENROUTER_API_KEY", "DEEPSEEK_API_KEY"),
    *("GROQ_API_KEY", "XAI_API_KEY", "MISTRAL_API_KEY"),
)

ACCESS: Mapping[str, Access] = MappingProxyType(
    {
        "claude": Access(
            'args: [--allowedTools, "Bash(npm test:*)"]',
            (
                *("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN", "CLAUDE_CODE_USE_*"),
                *("CLAUDE_CODE_*_FILE_DESCRIPTOR", "ANTHROPIC_PROFILE", "ANTHROPIC_BASE_URL", "*_GATEWAY*"),
            ),
            (
                LoginFile(".claude", ".credentials.json", "CLAUDE_CONFIG_DIR"),
                LoginFile("", ".claude.json", "CLAUDE_CONFIG_DIR", ('"primaryApiKey"',)),
                LoginFile(".claude", "settings.json", "CLAUDE_CONFIG_DIR", _CLAUDE),
                LoginFile("./.claude", "settings.json", words=_CLAUDE),
                LoginFile("./.claude", "settings.local.json", words=_CLAUDE),
            ),
            hidden="darwin",
        ),
        "codex": Access(
            "args: [--sandbox, workspace-write]",
            ("CODEX_API_KEY",),
            (
                LoginFile(".codex", "auth.json", "CODEX_HOME"),
                LoginFile(".codex", "config.toml", "CODEX_HOME", ("model_provider", "keyring")),
            ),
        ),
        "gemini": Access(
            _ALLOWED_SHELL,
            ("GEMINI_API_KEY", "GOOGLE_API_KEY", "GOOGLE_GENAI_USE_*", "GOOGLE_APPLICATION_CREDENTIALS"),
            (
                LoginFile(".gemini", "oauth_creds.json"),
                LoginFile(".gemini", ".env", words=("GEMINI_API_KEY", "GOOGLE_")),
                LoginFile(".gemini", "settings.json", words=("selectedType", "selectedAuthType")),
            ),
            hidden="darwin",
        ),
        "qwen": Access(
            _ALLOWED_SHELL,
            ("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"),
            (
                LoginFile(".qwen", "oauth_creds.json"),
                LoginFile(".qwen", ".env", words=("API_KEY",)),
                LoginFile(".qwen", "settings.json", words=("API_KEY", "apiKey", "selectedType")),
            ),
        ),
        "opencode": Access(
            """env: {OPENCODE_PERMISSION: '{"bash": "allow"}'}""",
            ("OPENCODE_API_KEY", *_KEYS),
            (LoginFile(".local/share", "opencode/auth.json", "XDG_DATA_HOME"),),
            hidden="any",
        ),
        "amp": Access(
            "amp.permissions in amp's own settings (~/.config/amp/settings.json)",
            ("AMP_API_KEY",),
            (LoginFile(".local/share", "amp/secrets.json", "XDG_DATA_HOME"),),
        ),
        "copilot": Access(
            'args: ["--allow-tool=shell(npm test)"]',
            ("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN", "COPILOT_PROVIDER_BASE_URL"),
            (
                LoginFile(".copilot", "config.json", "COPILOT_HOME", ("oken", "logged_in", "loggedIn")),
                LoginFile(".config", "gh/hosts.yml", "XDG_CONFIG_HOME", ("oauth_token", "user")),
            ),
            hidden="any",
        ),
        "cursor": Access(
            '`"permissions": {"allow": ["Shell(npm)"]}` in .cursor/cli.json',
            ("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"),
            (LoginFile(".config", "cursor/auth.json", "XDG_CONFIG_HOME"), LoginFile(".cursor", "auth.json")),
            hidden="darwin",
        ),
        "aider": Access(
            "",
            _KEYS,
            (
                LoginFile("", ".aider.conf.yml", words=("api-key", "api_key")),
                LoginFile("", ".env", words=("API_KEY",)),
                LoginFile(".aider", "oauth-keys.env", words=("API_KEY",)),
            ),
        ),
    }
)


def find_login(
    settings: Executor, environment: Mapping[str, str], *, home: Path, platform: str, project: Path | None = None
) -> Login:
    """Where the agent has its login. `environment` is the one it runs in, `settings.env` included; `platform` is
    `sys.platform`; `project` is the folder it works for. Nothing that stands in a variable or file is kept or shown.
    """
    if settings.endpoint or settings.type == "scripted":
        return Login("not needed", "it works through its endpoint" if settings.endpoint else "")
    access, log_in = ACCESS.get(type_of(settings)), reader_class(settings).log_in
    if access is None:
        return Login("unknown", f"what an agent of the type {settings.type} needs is its own affair")
    if chosen_model(settings).startswith(_LOCAL_MODELS):
        return Login("not needed", "its model is a local one")
    home = Path(environment.get("HOME") or home)
    if found := next(_filled(access, settings, environment, home=home, project=project), ""):
        return Login("found", found)
    if access.hidden in ("any", platform):
        return Login("unknown", "it may lie where Ralph cannot see it, such as the system's keychain", log_in)
    return Login("missing", "", log_in)


def _filled(
    access: Access, settings: Executor, environment: Mapping[str, str], *, home: Path, project: Path | None
) -> Iterator[str]:
    for pattern in access.variables:
        for name in sorted(name for name, value in environment.items() if value and fnmatchcase(name, pattern)):
            yield f"{name} (env of {settings.id} in the configuration)" if settings.env.get(name) else name
    for file in access.files:
        below = (project or Path(os.devnull)) if file.folder.startswith("./") else home
        path = Path(environment.get(file.variable, "") or below / file.folder) / file.name
        if _holds(path, file.words):
            yield str(path)
    if any("api-key" in word or "token" in word for word in settings.args):
        yield f"args of {settings.id} in the configuration"


def _holds(path: Path, words: tuple[str, ...]) -> bool:
    """Whether it is a file that can be read and holds something: one of the words, if there are any."""
    try:
        if not path.is_file():
            return False
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES)
    except (OSError, ValueError):
        return False
    return any(word.encode() in text for word in words) if words else bool(text)


def allowing(settings: Executor) -> str:
    """The setting that would allow an agent what it was refused, with where it stands; empty for an agent of a plug-in,
    which Ralph knows nothing of.
    """
    kind = type_of(settings)
    if kind not in ACCESS:
        known = kind in BUILT_IN
        return f"what {settings.type} may do is set by its own command and configuration" if known else ""
    wider = "" if settings.permissions == "full" else "permissions: full"
    if settings.endpoint:
        way = f"the `permission` rules of the server at {settings.endpoint}, which alone decide"
    elif kind == "amp" or wider:
        way = ", or ".join(filter(None, (wider, ACCESS[kind].allows)))
    else:
        way = f"no rule against it in {settings.type}'s own configuration"
    return f"tools.executors (id {settings.id}) in .rulebook-ralph/config.yaml: {way}"
