"""Each genuine agent when it fails as agents do: nothing is completed or counted for it, and nothing is left running."""

from datetime import UTC, datetime, timedelta

import pytest

from .clis import AIDER, ALL, CLAUDE, CODEX, GEMINI, OPENCODE, QWEN, of
from .house import ADD, House
from .model.turns import Cut, Refuse, Shell
from .work import ADD_FILES, DONE, adds

LIMITED, AGENT_CANNOT_WORK = 4, 5
SECONDS_TO_FAIL = 45


_SETTING = ("tools.executors", "permissions")
_NO_CHANGE = "You said it was done, but no file differs"


@pytest.mark.parametrize(
    ("cli", "told"),
    [
        (CLAUDE, ("You were not allowed to use: Write ", "/add.py", *_SETTING)),
        (CODEX, ("You were not allowed to use: patch rejected: ", *_SETTING)),
        (GEMINI, ("GEMINI_CLI_TRUST_WORKSPACE", "tools.executors[].env")),
        (QWEN, (_NO_CHANGE,)),
        (OPENCODE, (_NO_CHANGE,)),
        (AIDER, (_NO_CHANGE,)),
    ],
    ids=[cli.name for cli in ALL],
)
def test_a_refused_tool_completes_nothing(house: House, told: tuple[str, ...]) -> None:
    """claude refuses the use of a tool, and codex's sandbox what would write. qwen, opencode and aider do not even
    offer their model what may not be used, so there is no refusal to tell of; gemini does not start in a folder that
    it was not told to trust.
    """
    house.configure(permissions="ask")
    house.model.script, house.model.judges = {ADD: [[*adds(), DONE]]}, "no"
    house.ralph("run", "--task", ADD, "--max-iterations", "1", code=LIMITED)
    first = house.iteration(1)
    assert first["completionStatus"] == "failed"
    assert [part for part in told if part not in first["feedback"]] == []
    assert not [tool for tool in first.get("toolResults", ()) if tool["success"]]
    assert not (house.root / "add.py").exists()
    assert house.task(ADD)["status"] != "completed"


@of(*ALL)
def test_two_429s_are_waited_for(house: House) -> None:
    """By the agents themselves: Ralph sees no failure."""
    house.model.script = {ADD: [[Refuse("rate-limit"), Refuse("rate-limit"), *adds(), DONE]]}
    house.ralph("run", "--task", ADD)
    assert len(house.model.requests) > 2
    assert (house.iterations(), house.task(ADD)["attempts"]) == (1, {"coder": 1})


@of(CLAUDE, CODEX)
def test_a_usage_limit_is_waited_for_and_counts_no_attempt(house: House) -> None:
    """claude tells a subscriber the very second of the reset, codex the minute, of which it can be any second. gemini
    does not pass on when its quota is renewed; qwen, opencode and aider say nothing at all of it for minutes.
    """
    if house.cli is CLAUDE:
        house.configure(env={"ANTHROPIC_API_KEY": "", "CLAUDE_CODE_OAUTH_TOKEN": "test-token"})
    resets = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=10)
    house.model.script = {ADD: [[Refuse("usage-limit", resets), *adds(), DONE]]}
    ended = house.ralph("run", "--task", ADD)
    assert datetime.now(UTC) >= resets
    first = house.iteration(1)
    assert (first["fault"]["kind"], first["completionStatus"]) == ("usage-limit", "limited")
    assert "waiting until" in ended.stdout
    assert (house.task(ADD)["status"], house.task(ADD)["attempts"]) == ("completed", {"coder": 1})
    assert house.iterations() == 2


@of(*ALL)
def test_a_wrong_key_ends_the_run_in_seconds_and_says_what_to_do(house: House) -> None:
    """Nothing is set that keeps an agent from trying again: claude would for three minutes."""
    house.model.script = {ADD: [[Refuse("authentication")]]}
    ended = house.ralph("run", code=AGENT_CANNOT_WORK)
    assert ended.seconds < SECONDS_TO_FAIL
    (line,) = (line for line in ended.stdout.splitlines() if "cannot work" in line and "#1" not in line)
    assert "(authentication): " in line
    assert house.cli.key in line
    assert (house.iterations(), house.task(ADD)["status"], house.task(ADD).get("attempts")) == (1, "pending", None)


@of(CLAUDE, CODEX, GEMINI, QWEN)
def test_an_answer_that_is_cut_off_completes_nothing(house: House) -> None:
    """All of its text came, with the promise in it."""
    house.configure(hasty=True)
    house.model.script = {ADD: [[*adds(), *[Cut(DONE)] * house.cli.requests, DONE]]}
    house.ralph("run", "--task", ADD)
    first = house.iteration(1)
    assert (first["completionStatus"], first["verdict"]["hook"]) == ("failed", "agent")
    assert first["fault"]["kind"] == "network"
    assert first["filesChanged"] == ADD_FILES
    assert house.iteration(2)["completionStatus"] == "completed"
    assert (house.iterations(), house.task(ADD)["attempts"]) == (2, {"coder": 1})


@of(CLAUDE, CODEX, GEMINI, QWEN, OPENCODE)
def test_a_hanging_tool_is_ended_with_all_it_started(house: House) -> None:
    """One that left the tool's session, and one that cleared its environment too. aider runs no tools."""
    house.configure(limits={"idleTimeout": house.cli.iteration})
    forever, started = house.forever, house.folder / "started"
    runaways = f"setsid sleep {forever} & (env -i setsid sleep {forever} &)"
    house.model.script = {ADD: [[Shell(f"{runaways}; echo yes > {started}; sleep {forever}")], [*adds(), DONE]]}
    house.ralph("run", "--task", ADD)
    assert house.processes() == []
    assert started.exists()
    first = house.iteration(1)
    assert (first["agentStatus"], first["completionStatus"], first["verdict"]["hook"]) == ("killed", "failed", "agent")
    assert house.task(ADD)["status"] == "completed"
