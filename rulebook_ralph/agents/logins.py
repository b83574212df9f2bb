"""Where each agent CLI keeps its key or login: names of variables, paths of files. Never what stands in them.

Names as the CLIs' own documentation and code have them (November 2026). Only that a place is filled is looked at, and
in a CLI's settings whether a telling word stands there. Where a login may lie out of sight (a keychain, a helper) the
answer is that nobody can tell.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Literal

from rulebook_ralph.agents.agent import AgentSettings

_MOST_BYTES = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class File:
    """`name` below the folder that `variable` names where it is set, else below `folder` of the home folder.

    With `words` it is a file of settings: it counts where one of them stands in it.
    """

    folder: str
    name: str
    variable: str = ""
    words: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """Where a CLI looks for its login. `program` is its own name. A key stands in one of `variables`, a login in one of
    `files`; `doubtful` places may stand for one: a variable, where `*` in its name is anything, or a file, or one of
    `in_project`, which are below the project's folder. `keys`: how a model's name begins, and the one variable of those
    that it takes then. `keychain`: the system whose keychain may hold one, or `any`.
    Not `certain`: it can also work with none of these. `advice` is what to do.
    """

    program: str
    variables: tuple[str, ...] = ()
    files: tuple[File, ...] = ()
    doubtful: tuple[str | File, ...] = ()
    in_project: tuple[File, ...] = ()
    keys: Mapping[str, str] = field(default_factory=dict)
    keychain: Literal["", "darwin", "any"] = ""
    certain: bool = True
    advice: str = ""


@dataclass(frozen=True, slots=True)
class Login:
    """What is known of a login: `found` in `place`, `missing`, `not needed`, or `unknown` (then `place` says why)."""

    state: Literal["found", "missing", "not needed", "unknown"]
    place: str = ""
    advice: str = ""


_PROVIDERS: Mapping[str, str] = MappingProxyType(
    {
        "openrouter/": "OPENROUTER_API_KEY",
        "deepseek": "DEEPSEEK_API_KEY",
        "gemini": "GEMINI_API_KEY",
        "groq/": "GROQ_API_KEY",
        "xai/": "XAI_API_KEY",
        "mistral": "MISTRAL_API_KEY",
        "claude": "ANTHROPIC_API_KEY",
        "anthropic/": "ANTHROPIC_API_KEY",
        "sonnet": "ANTHROPIC_API_KEY",
        "opus": "ANTHROPIC_API_KEY",
        "haiku": "ANTHROPIC_API_KEY",
        "gpt": "OPENAI_API_KEY",
        "openai/": "OPENAI_API_KEY",
        "o1": "OPENAI_API_KEY",
        "o3": "OPENAI_API_KEY",
        "o4": "OPENAI_API_KEY",
    }
)
"""How the name of a model begins, and its provider's key: for aider and opencode, which take that of the model."""

_KEYS = tuple(dict.fromkeys(_PROVIDERS.values()))
_CLAUDE_WORDS = ("apiKeyHelper", "ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_USE_")
_LOCAL_MODELS = ("ollama", "lm_studio")

PLACES: Mapping[str, Places] = MappingProxyType(
    {
        "claude": Places(
            program="claude",
            variables=("ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"),
            files=(
                File(".claude", ".credentials.json", "CLAUDE_CONFIG_DIR"),
                File("", ".claude.json", "CLAUDE_CONFIG_DIR", ('"primaryApiKey"',)),
            ),
            doubtful=(
                *("CLAUDE_CODE_USE_*", "CLAUDE_CODE_*_FILE_DESCRIPTOR", "ANTHROPIC_PROFILE"),
                *("ANTHROPIC_BASE_URL", "*_GATEWAY*"),
                File(".claude", "settings.json", "CLAUDE_CONFIG_DIR", _CLAUDE_WORDS),
            ),
            in_project=(
                File(".claude", "settings.json", words=_CLAUDE_WORDS),
                File(".claude", "settings.local.json", words=_CLAUDE_WORDS),
            ),
            keychain="darwin",
            advice="log in with: claude /login, or set ANTHROPIC_API_KEY or CLAUDE_CODE_OAUTH_TOKEN",
        ),
        "codex": Places(
            program="codex",
            variables=("CODEX_API_KEY",),
            files=(File(".codex", "auth.json", "CODEX_HOME"),),
            doubtful=(
                "OPENAI_API_KEY",
                File(".codex", "config.toml", "CODEX_HOME", ("model_provider", "keyring")),
            ),
            advice="log in with: codex login, or set CODEX_API_KEY",
        ),
        "gemini": Places(
            program="gemini",
            variables=("GEMINI_API_KEY", "GOOGLE_API_KEY"),
            files=(File(".gemini", "oauth_creds.json"),),
            doubtful=(
                *("GOOGLE_GENAI_USE_VERTEXAI", "GOOGLE_GENAI_USE_GCA", "GOOGLE_APPLICATION_CREDENTIALS"),
                File(".gemini", ".env", words=("GEMINI_API_KEY", "GOOGLE_")),
                File(".gemini", "settings.json", words=("selectedType", "selectedAuthType")),
            ),
            keychain="darwin",
            advice="log in by starting gemini once, or set GEMINI_API_KEY",
        ),
        "qwen": Places(
            program="qwen",
            variables=("OPENAI_API_KEY", "DASHSCOPE_API_KEY", "BAILIAN_CODING_PLAN_API_KEY"),
            files=(File(".qwen", "oauth_creds.json"),),
            doubtful=(
                File(".qwen", ".env", words=("API_KEY",)),
                File(".qwen", "settings.json", words=("API_KEY", "apiKey", "selectedType")),
            ),
            advice="log in by starting qwen once, or set OPENAI_API_KEY",
        ),
        "opencode": Places(
            program="opencode",
            variables=("OPENCODE_API_KEY", *_KEYS),
            keys=MappingProxyType({"opencode/": "OPENCODE_API_KEY", **_PROVIDERS}),
            files=(File(".local/share", "opencode/auth.json", "XDG_DATA_HOME"),),
            certain=False,
            advice="log in with: opencode auth login",
        ),
        "amp": Places(
            program="amp",
            variables=("AMP_API_KEY",),
            files=(File(".local/share", "amp/secrets.json", "XDG_DATA_HOME"),),
            advice="log in with: amp login, or set AMP_API_KEY",
        ),
        "copilot": Places(
            program="copilot",
            variables=("COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"),
            doubtful=(
                "COPILOT_PROVIDER_BASE_URL",
                File(".copilot", "config.json", "COPILOT_HOME", ("oken", "logged_in", "loggedIn")),
                File(".config", "gh/hosts.yml", "XDG_CONFIG_HOME", ("oauth_token", "user")),
            ),
            keychain="any",
            advice="log in with: copilot login, or set COPILOT_GITHUB_TOKEN",
        ),
        "cursor": Places(
            program="cursor-agent",
            variables=("CURSOR_API_KEY", "CURSOR_AUTH_TOKEN"),
            files=(File(".config", "cursor/auth.json", "XDG_CONFIG_HOME"), File(".cursor", "auth.json")),
            keychain="darwin",
            advice="log in with: cursor-agent login, or set CURSOR_API_KEY",
        ),
        "aider": Places(
            program="aider",
            variables=_KEYS,
            keys=_PROVIDERS,
            doubtful=(
                File("", ".aider.conf.yml", words=("api-key", "api_key")),
                File("", ".env", words=("API_KEY",)),
                File(".aider", "oauth-keys.env", words=("API_KEY",)),
            ),
            advice="set the key of the model's provider, such as OPENAI_API_KEY or ANTHROPIC_API_KEY",
        ),
    }
)


def find_login(
    settings: AgentSettings,
    environment: Mapping[str, str],
    *,
    home: Path,
    platform: str,
    project: Path | None = None,
) -> Login:
    """Where the agent has its login. `environment` is the one it runs in, `settings.env` included; `platform` is
    `sys.platform`; `project` is the folder it works for. Nothing that stands in a variable or file is kept, shown or
    sent.
    """
    if settings.endpoint or settings.type == "scripted":
        return Login("not needed", "it works through its endpoint" if settings.endpoint else "")
    places = PLACES.get(settings.type)
    if places is None:
        return Login("unknown", f"what an agent of the type {settings.type} needs is its own affair")
    if settings.model.startswith(_LOCAL_MODELS):
        return Login("not needed", "its model is a local one")
    home = Path(environment.get("HOME") or home)
    found = next(_certain(places, settings, environment, home), "")
    if found:
        return Login("found", found)
    doubtful = next(_doubtful(places, settings, environment, home, project), "")
    return Login("unknown", f"{doubtful} may stand for one") if doubtful else _not_found(places, platform)


def _certain(places: Places, settings: AgentSettings, environment: Mapping[str, str], home: Path) -> Iterator[str]:
    for variable in _variables(places, settings.model):
        if environment.get(variable):
            yield _origin(variable, settings)
    for file in places.files:
        path = _path(file, environment, home)
        if _tells(path, file.words) if file.words else _is_filled(path):
            yield str(path)


def _not_found(places: Places, platform: str) -> Login:
    if places.keychain in ("any", platform):
        return Login("unknown", "it may lie in the system's keychain, which cannot be seen", places.advice)
    return Login("missing", "", places.advice) if places.certain else Login("unknown", "none was found", places.advice)


def _variables(places: Places, model: str) -> tuple[str, ...]:
    """The model's own key, where the agent takes many and the model's name tells whose it is."""
    name = model.lower()
    own = next((key for beginning, key in places.keys.items() if name.startswith(beginning)), None)
    return (own,) if own else places.variables


def _origin(variable: str, settings: AgentSettings) -> str:
    return f"{variable} (env of {settings.id} in the configuration)" if settings.env.get(variable) else variable


def _doubtful(
    places: Places, settings: AgentSettings, environment: Mapping[str, str], home: Path, project: Path | None
) -> Iterator[str]:
    for place in places.doubtful:
        if isinstance(place, str):
            for name in sorted(name for name in environment if environment[name] and fnmatchcase(name, place)):
                yield _origin(name, settings)
        elif _tells(path := _path(place, environment, home), place.words):
            yield str(path)
    for file in places.in_project if project else ():
        if project and _tells(path := project / file.folder / file.name, file.words):
            yield str(path)
    for file in places.files:
        path = _path(file, environment, home)
        if _exists(path) and not (file.words and _is_filled(path)):  # but empty, unreadable or no file
            yield str(path)
    if any("api-key" in word or "token" in word for word in settings.args):
        yield f"args of {settings.id} in the configuration"


def _path(file: File, environment: Mapping[str, str], home: Path) -> Path:
    named = environment.get(file.variable, "") if file.variable else ""
    return (Path(named) if named else home / file.folder) / file.name


def _exists(path: Path) -> bool:
    try:
        path.lstat()
    except (OSError, ValueError):
        return False
    return True


def _is_filled(path: Path) -> bool:
    """Whether it is a file that can be read and holds something."""
    try:
        return path.is_file() and path.stat().st_size > 0 and os.access(path, os.R_OK)
    except (OSError, ValueError):
        return False


def _tells(path: Path, words: tuple[str, ...]) -> bool:
    if not _is_filled(path):
        return False
    try:
        with path.open("rb") as file:
            text = file.read(_MOST_BYTES)
    except OSError:
        return False
    return any(word.encode() in text for word in words)
