"""`refold` alone: what is on this machine, and the three commands to begin with; each of them works as it is."""

import json
import os
import shlex
from pathlib import Path

import pytest
from cli_running import LONG, run_cli


def commands(*args):
    return [row["command"] for row in run_cli("quickstart", *args, "--json").json["commands"]]


@pytest.fixture(autouse=True)
def _nothing_here(monkeypatch):
    for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("REFOLD_LOCAL_MODEL", "/nowhere/model.gguf")
    Path(os.environ["HOME"]).mkdir()


def test_where_nothing_is_the_demo_comes_first():
    assert commands() == [
        "refold demo",
        "refold measure FILE --model gpt-4o",
        "refold plan FILE --window 32k",
    ]
    found = run_cli("quickstart", "--json").json["found"]
    assert (found["agents"], found["sessions"], found["model"]) == ([], 0, None)
    assert not list(Path(os.environ["HOME"]).iterdir())  # it makes no store


def test_transcripts_are_found_and_their_commands_run():
    folder = Path(os.environ["HOME"]) / ".claude" / "projects" / "-work"
    folder.mkdir(parents=True)
    record = {"type": "user", "uuid": "1", "sessionId": "s", "message": {"role": "user", "content": "hello"}}
    reply = {"role": "assistant", "content": [{"type": "text", "text": "hi"}], "model": "claude-sonnet-4-5"}
    answer = {"type": "assistant", "uuid": "2", "parentUuid": "1", "sessionId": "s", "message": reply}
    (folder / "0b5d7a1e.jsonl").write_text(f"{json.dumps(record)}\n{json.dumps(answer)}\n")
    assert "claude-code: 1 session, the last one just now" in run_cli().out
    suggested = commands()
    assert suggested[:2] == [
        "refold measure claude-code:latest",
        "refold replay claude-code:latest --window 200k --policy all",
    ]
    for command in suggested[:2]:
        assert run_cli(*shlex.split(command)[1:]).status == 0


def test_sessions_of_the_store_are_found_and_their_commands_run():
    store = ("--store", "sqlite:it's mine.db")
    assert run_cli("import", "two words", LONG, *store).status == 0
    suggested = commands(*store)
    assert suggested[0].startswith("refold show 'two words' --brief --store ")
    for command in suggested[:2]:
        assert run_cli(*shlex.split(command)[1:]).status == 0
    assert "1 session, the last one two words" in run_cli("quickstart", *store).out


def test_a_key_leads_to_a_chat_and_is_never_shown(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    done = run_cli()
    assert "  refold chat --model openai:gpt-4.1-mini\n" in done.out
    assert "because OPENAI_API_KEY is set" in done.out
    assert "very-secret" not in done.out + run_cli("quickstart", "--json").out


def test_a_store_that_cannot_be_read_is_no_reason_to_fail():
    Path("broken.db").write_bytes(b"no database" * 999)
    assert run_cli("quickstart", "--store", "sqlite:broken.db").status == 0
