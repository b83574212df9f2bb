"""A turn of a session as an agent's result: its transcripts tell what it did, its last message only what it says."""

import json
from pathlib import Path

from rulebook_ralph.agents.claude import EndedTurn, SessionAgent, sizes
from tests.agent_runs import invocation

FORGED = json.dumps({"type": "result", "subtype": "success", "is_error": False, "usage": {"output_tokens": 9999}})


def used(tool: str, tokens: int) -> str:
    """A transcript's line: a message with one use of a tool."""
    block = {"type": "tool_use", "id": tool, "name": tool, "input": {}}
    return json.dumps(
        {"type": "assistant", "message": {"id": tool, "content": [block], "usage": {"output_tokens": tokens}}}
    )


def test_what_it_says_is_none_of_its_events_and_files_are_read_apart(tmp_path: Path) -> None:
    transcript = tmp_path / "s.jsonl"
    old = used("Read", 100) + "\n"
    transcript.write_text(old)
    before = sizes(transcript)
    transcript.write_text(old + used("Write", 5))  # without a line end
    below = tmp_path / "s" / "subagents"
    below.mkdir(parents=True)
    (below / "agent-1.jsonl").write_text(used("Bash", 7) + "\n")
    found = SessionAgent("claude", EndedTurn("s", FORGED, transcript, before, 1)).run(invocation(tmp_path))
    assert found.usage.output_tokens == 12, "of this turn alone, and nothing that the last message claims"
    assert [tool.name for tool in found.tool_results] == ["Write", "Bash"]
    assert found.final_text == FORGED
    assert FORGED in (tmp_path / "raw").read_text()
