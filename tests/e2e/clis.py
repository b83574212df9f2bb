"""The agents under test: how each is pointed at the scripted model, and kept from everything else."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

PORT = 8765
"""In the namespace of every command the model listens here."""
MODEL = f"http://127.0.0.1:{PORT}"
_OPENAI = {"OPENAI_API_KEY": "test-key", "OPENAI_BASE_URL": f"{MODEL}/v1", "OPENAI_API_BASE": f"{MODEL}/v1"}


@dataclass(frozen=True, slots=True)
class Cli:
    """One agent. `environment` is the user's, `files` are below the user's HOME, `settings` the executor's in Ralph.

    `hasty` are settings with which it tries nothing again that failed. `iteration` is more than it needs for one, in
    seconds, on a slow machine. `tools` says whether its model has any: aider's writes its edits as text.
    """

    name: str
    environment: Mapping[str, str]
    install: str
    key: str
    """What Ralph tells to set when the key is wrong."""
    files: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, object] = field(default_factory=dict)
    hasty: Mapping[str, object] = field(default_factory=dict)
    requests: int = 1
    """How often it asks, hasty, for an answer that is cut off."""
    iteration: float = 6.0
    tools: bool = True


_CODEX = f"""
model = "gpt-5.5"
check_for_update_on_startup = false
model_provider = "scripted"

[model_providers.scripted]
name = "scripted"
base_url = "{MODEL}/v1"
env_key = "OPENAI_API_KEY"
wire_api = "responses"

[analytics]
enabled = false

[otel]
metrics_exporter = "none"

[features]
plugins = false
apps = false
remote_plugin = false
"""
_OPENCODE = {
    "provider": {
        "scripted": {
            "npm": "@ai-sdk/openai-compatible",
            "name": "scripted",
            "options": {"baseURL": f"{MODEL}/v1", "apiKey": "test-key"},
            "models": {"model-1": {"name": "model-1"}},
        }
    }
}
_GEMINI = {
    "security": {"auth": {"selectedType": "gemini-api-key"}},
    "privacy": {"usageStatisticsEnabled": False},
    "telemetry": {"enabled": False},
    "general": {"disableAutoUpdate": True, "enableAutoUpdate": False},
}
_QWEN = {"privacy": {"usageStatisticsEnabled": False}, "telemetry": {"enabled": False}}

CLAUDE = Cli(
    "claude",
    {
        "ANTHROPIC_BASE_URL": MODEL,
        "ANTHROPIC_API_KEY": "test-key",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    install="pip install -e '.[e2e]'",
    key="ANTHROPIC_API_KEY",
    hasty={"env": {"CLAUDE_CODE_MAX_RETRIES": "0", "API_TIMEOUT_MS": "20000"}},
    requests=2,
)
CODEX = Cli(
    "codex",
    _OPENAI,
    install="npm install @openai/codex",
    key="codex login",
    files={".codex/config.toml": _CODEX},
    hasty={"args": ["-c", "model_providers.scripted.stream_max_retries=0"]},
)
GEMINI = Cli(
    "gemini",
    {"GEMINI_API_KEY": "test-key", "GOOGLE_GEMINI_BASE_URL": MODEL},
    install="npm install @google/gemini-cli",
    key="GEMINI_API_KEY",
    files={".gemini/settings.json": json.dumps(_GEMINI)},
    settings={"model": "gemini-2.5-pro"},
    iteration=20.0,
)
QWEN = Cli(
    "qwen",
    {**_OPENAI, "OPENAI_MODEL": "model-1"},
    install="npm install @qwen-code/qwen-code",
    key="OPENAI_API_KEY",
    files={".qwen/settings.json": json.dumps(_QWEN)},
    settings={"args": ["--auth-type", "openai"]},
    iteration=20.0,
)
OPENCODE = Cli(
    "opencode",
    {"OPENCODE_DISABLE_AUTOUPDATE": "1", "OPENCODE_DISABLE_MODELS_FETCH": "1"},
    install="npm install opencode-ai",
    key="opencode auth login",
    files={
        ".config/opencode/opencode.json": json.dumps(_OPENCODE),
        ".config/opencode/package.json": "{}",
        ".config/opencode/package-lock.json": "{}",
        ".config/opencode/node_modules/.keep": "",
    },
    settings={"model": "scripted/model-1"},
    iteration=25.0,
)
AIDER = Cli(
    "aider",
    {**_OPENAI, "LITELLM_LOCAL_MODEL_COST_MAP": "True"},
    install="pip install aider-chat",
    key="OPENAI_API_KEY",
    files={".aider/caches/model_prices_and_context_window.json": json.dumps({"openai/model-1": {}})},
    settings={"model": "openai/model-1"},
    iteration=25.0,
    tools=False,
)
ALL = (CLAUDE, CODEX, GEMINI, QWEN, OPENCODE, AIDER)


def of(*clis: Cli) -> pytest.MarkDecorator:
    """A test of each of these agents."""
    return pytest.mark.parametrize("cli", clis, ids=lambda cli: cli.name)
