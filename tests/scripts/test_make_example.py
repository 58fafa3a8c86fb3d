"""The example conversations are what the script makes of the story, and what the README says of them."""

import json
import sys
from pathlib import Path

import pytest

import refold

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import make_example  # noqa: E402

LONG = "long-agent-session.json"
SHORT = "long-agent-session.anthropic.json"


@pytest.fixture(scope="module")
def made():
    return make_example.made()


@pytest.fixture(scope="module")
def messages(made):
    return json.loads(made[LONG])


def test_the_files_are_what_the_script_makes(made):
    for name, text in made.items():
        assert (ROOT / "examples" / name).read_text(encoding="utf-8") == text, "run scripts/make_example.py"


def test_two_runs_agree(made):
    assert make_example.made() == made


def test_the_check_says_what_differs(monkeypatch, capsys, tmp_path):
    for name in ("quayside-project.txt", "quayside-session.txt"):
        (tmp_path / name).write_text((ROOT / "examples" / name).read_text())
    monkeypatch.setattr(make_example, "EXAMPLES", tmp_path)
    monkeypatch.setattr(sys, "argv", ["make_example.py", "--check"])
    assert make_example.main() == 1
    monkeypatch.setattr(sys, "argv", ["make_example.py"])
    assert make_example.main() == 0
    monkeypatch.setattr(sys, "argv", ["make_example.py", "--check"])
    assert make_example.main() == 0
    assert "same" in capsys.readouterr().out


def test_both_are_what_their_provider_takes(made):
    assert refold.validate(json.loads(made[LONG]), "openai") == []
    assert refold.validate(json.loads(made[SHORT])["messages"], "anthropic") == []


def test_it_is_a_long_session_of_an_agent(made, messages):
    assert 250 <= len(messages) <= 450
    assert 250_000 <= len(made[LONG]) <= 500_000
    assert sum(map(len, made.values())) < 1_000_000
    calls = [message["tool_calls"] for message in messages if message.get("tool_calls")]
    assert max(map(len, calls)) >= 3  # parallel calls
    assert max(len(message["content"] or "") for message in messages) > 50_000  # one huge log
    reads = [
        call["function"]["arguments"]
        for each in calls
        for call in each
        if call["function"]["name"] == "read_file"
    ]
    assert len(reads) > 1.5 * len(set(reads))  # the same files again and again
    assert messages[-1]["role"] == "user"


def test_the_shorter_one_thinks(made):
    body = json.loads(made[SHORT])
    kinds = {
        block["type"]
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, dict)
    }
    assert kinds == {"thinking", "text", "tool_use", "tool_result"}
    assert {"model", "system", "tools", "max_tokens"} <= body.keys()
    assert any(
        block.get("is_error")
        for message in body["messages"]
        for block in message["content"]
        if isinstance(block, dict)
    )


def test_a_story_that_edits_what_is_not_there_is_refused():
    player = make_example.Player("@@ file a.txt\none\n", 1)
    with pytest.raises(SystemExit, match="does not occur exactly once"):
        player.play("@@ edit a.txt\n<<<<\ntwo\n====\nthree\n>>>>\n")


@pytest.mark.few_values(2)
@pytest.mark.parametrize("policy", list(refold.presets.PRESETS))
def test_every_policy_leaves_a_conversation_that_is_taken(messages, policy):
    outcome = refold.compact(messages, window="32k", policy=policy)
    # CodeBuddy's own words for long arguments ("[args truncated]") are no JSON
    allowed = {"invalid-arguments"} if policy == "codebuddy" else set()
    assert {problem.rule for problem in refold.validate(outcome.messages, "openai")} <= allowed


def test_the_rules_of_the_first_message_and_the_late_correction_survive(messages):
    outcome = refold.compact(messages, window="32k")
    text = json.dumps(outcome.messages)
    assert outcome.fits
    assert outcome.met_target
    assert "Never change a signature in quayside/api.py" in text
    assert "The harbour regulations say 20 minutes, and 45 for a tanker" in text
    assert outcome.messages[-1] == messages[-1]
