"""What `compact` and `plan` say of the size afterwards: the room, the target, and a list that was mended."""

import json

import pytest
from cli_running import run_cli, saved, talk

from chat_messages import assistant, user, written_call

DEAD_CALL = written_call("c1", "{}")


@pytest.fixture
def two():
    """A conversation of one turn."""
    return saved("two.json", talk(1, "word " * 60))


def test_a_target_that_was_named_and_missed_is_status_one(two):
    done = run_cli("compact", two, "--window", "8k", "--target", "10")
    assert done.status == 1
    assert isinstance(done.json, list)
    (line,) = [line for line in done.err.splitlines() if "--target" in line]
    assert line.startswith("it fits, but misses --target 10: ")
    assert "does not fit" not in done.err


def test_a_target_of_the_policy_that_was_missed_is_status_zero():
    """Half of little is not reached; the context is far inside the room."""
    saved("few.json", talk(2, "word " * 20))
    done = run_cli("compact", "few.json", "--window", "32k", "--force")
    assert done.status == 0
    assert "does not fit" not in done.err


def test_must_fit_is_no_matter_of_the_target(two):
    done = run_cli("compact", two, "--window", "8k", "--target", "10", "--must-fit")
    assert done.status == 1
    assert isinstance(done.json, list)
    assert "do not fit into" not in done.err


def test_json_tells_the_room_from_the_target(two):
    for command in ("compact", "plan"):
        told = run_cli(command, two, "--window", "8k", "--target", "10", "--json").json
        assert (told["fits"], told["met_target"]) == (True, False)
    told = run_cli("compact", two, "--window", "8k", "--json").json
    assert (told["fits"], told["met_target"], told["used_after"]) == (True, True, told["budget"]["used"])
    assert (told["receipt"]["fits"], told["receipt"]["met_target"]) == (True, True)


def test_plan_tells_the_room_from_the_target():
    file = saved("long.json", [{"role": "system", "content": "word " * 2_000}, *talk(30, "word " * 60)])
    shown = run_cli("plan", file, "--window", "32k", "--target", "100").out
    assert "fits into a room of 24,000 tokens" in shown
    assert "It would fit, but miss its target: " in shown
    assert "not fit" not in shown


def test_a_target_may_be_a_pair():
    file = saved("long.json", talk(40, "word " * 60))
    done = run_cli("compact", file, "--window", "32k", "--target", "0.5k-1k", "--json").json
    assert done["receipt"]["goal_tokens"] == 1_000
    assert done["tokens_after"] <= 1_000
    wrong = run_cli("compact", file, "--window", "32k", "--target", "2k-1k")
    assert (wrong.status, wrong.out) == (2, "")
    assert "--target: expected a number of tokens, or a pair" in wrong.err


def test_what_no_compaction_can_help_comes_back_as_it_was():
    messages = talk(30, "word " * 60)
    file = saved("long.json", messages)
    done = run_cli("compact", file, "--window", "4k", "--system", "rule " * 5_000, "--force")
    assert (done.status, done.json) == (1, messages)
    assert "nothing was changed: system prompt, tools, prompt and files alone have" in done.err
    assert done.err.count("shorten the largest part, the system prompt") == 1
    (line,) = [line for line in done.err.splitlines() if line.startswith("it does not fit: ")]
    assert line.endswith("for a room of 3,000")


def test_a_mended_list_is_said_to_be_mended():
    file = saved("dead.json", [user("q"), DEAD_CALL, user("never mind"), assistant("ok")])
    done = run_cli("compact", file, "--window", "32k")
    assert "[Tool result missing]" in json.dumps(done.json)
    assert done.err.startswith("nothing was compacted: at ")
    assert done.err.endswith("--force does it now; mended 1 message\n")
    planned = run_cli("plan", file, "--window", "32k").out
    assert "Nothing would be compacted: at " in planned
    assert planned.endswith("; mended 1 message\n")
