"""What each command prints and answers, run inside this process on real files."""

import dataclasses
import json
import sys
from pathlib import Path

import pytest
from cli_running import ANTHROPIC, LONG, assistant, inside, saved, talk, user

import refold

PROSE = "The harbour master asked for a longer berth, and the answer was that none is free before noon. "


@pytest.fixture
def small():
    return saved("small.json", talk(2))


@pytest.fixture
def large():
    """About 12,000 tokens of plain talk."""
    return saved("large.json", talk(60, PROSE * 5))


@pytest.fixture
def model():
    """A program that answers like a model: it keeps what it was asked in a file."""
    saved(
        "model.py",
        "import os, sys\nprompt = sys.stdin.read()\nopen('asked.txt', 'a').write(prompt)\n"
        "print('## Goal\\nThe harbour master wants a berth. ' * 6 + os.environ['REFOLD_ASK_PURPOSE'])",
    )
    return f"{sys.executable} model.py"


def test_measure_shows_bar_numbers_and_breakdown(capsys):
    done = inside(capsys, "measure", LONG, "--window", "128k")
    assert done.status == 0
    for word in ("critical", "compacts at", "tool results", "given by --window", "It is time to compact"):
        assert word in done.out


def test_measure_below_the_line_says_how_much_is_left(capsys, small):
    done = inside(capsys, "measure", small, "--model", "gpt-4o")
    assert "tokens are left until compaction starts" in done.out
    assert "gpt-4o: from the table" in done.out
    assert "critical" not in done.out


def test_measure_json_has_every_field_of_a_budget(capsys, small):
    told = inside(capsys, "measure", small, "--model", "gpt-4o", "--json").json
    budget = refold.measure(talk(2), model="gpt-4o")
    for field in dataclasses.fields(budget):
        value = getattr(budget, field.name)
        assert told[field.name] == (value.as_dict() if field.name == "breakdown" else value)
    assert sum(told["history"].values()) == told["breakdown"]["history"]
    assert (told["format"], told["policy"], told["model"]) == ("openai", "refold", "gpt-4o")


def test_measure_counts_what_stands_beside_the_messages(capsys, small):
    saved("tools.json", [{"name": "read", "description": "Read a file."}])
    saved("a.txt", PROSE)
    done = inside(
        capsys,
        *("measure", small, "--system", "Be brief.", "--tools", "@tools.json", "--prompt", "And now?"),
        *("--attach", "a.txt", "--json"),
    )
    assert all(done.json["breakdown"].values())


def test_measure_starts_from_reported_usage(capsys, small):
    told = inside(capsys, "measure", small, "--usage", "5000", "--json").json
    assert told["count_source"] == "usage+estimate"
    assert told["used"] >= 5000
    assert inside(capsys, "measure", small, "--usage", "{}").status == 2
    assert inside(capsys, "measure", small, "--usage", '{"input_tokens": 70}', "--json").json["used"] >= 70


def test_a_request_body_brings_model_system_and_tools(capsys):
    told = inside(capsys, "measure", ANTHROPIC, "--json").json
    assert told["model"] == "claude-sonnet-4-5-20250929"
    assert told["format"] == "anthropic"
    assert told["breakdown"]["system"] > 50
    assert told["breakdown"]["tools"] > 100
    assert told["history"]["thinking"] > 100


def test_an_argument_wins_over_the_body(capsys):
    told = inside(capsys, "measure", ANTHROPIC, "--json", "--model", "gpt-4o", "--system", "x").json
    assert told["model"] == "gpt-4o"
    assert told["breakdown"]["system"] < 5


def test_tools_may_be_one_object_or_a_body(capsys, small):
    one = inside(capsys, "measure", small, "--tools", '{"name": "f"}', "--json").json
    body = inside(capsys, "measure", small, "--tools", '{"tools": [{"name": "f"}]}', "--json").json
    assert one["breakdown"]["tools"] == body["breakdown"]["tools"] > 0
    saved("b.json", {"messages": talk(1), "tools": "none of your business"})
    assert inside(capsys, "measure", "b.json", "--json").json["breakdown"]["tools"] == 0


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--model", "gpt-4o-2099-01-01"], "as gpt-4o"),
        (["--model", "my-model[200k]"], "it stands in the name"),
        (["--model", "openai:unheard-of"], "provider default"),
        (["--model", "unheard-of"], "nobody knows it"),
        ([], "for want of a model"),
        (["--policy", "codebuddy", "--set", "context_window=4k", "--model", "x"], "x: setting"),
    ],
)
def test_measure_says_where_the_window_comes_from(capsys, small, args, said):
    assert said in inside(capsys, "measure", small, *args).out


def test_a_policy_that_never_starts_says_so(capsys, small):
    assert "never starts by itself" in inside(capsys, "measure", small, "--policy", "umwelten").out


def test_the_line_near_the_right_edge_is_labelled_on_its_left(capsys, small):
    out = inside(capsys, "measure", small, "--window", "1m", "--set", "trigger_tokens=null").out
    assert "▲ compacts at 836,074" in out
    late = inside(capsys, "measure", small, "--window", "1m", "--policy", "opal", "--set", "threshold=1").out
    assert "compacts at 1,000,000 ▲" in late


def test_settings_come_from_file_and_environment(capsys, small, monkeypatch):
    saved("refold.toml", 'policy = "opal"\nwindow = "64k"\n[windows."my-model"]\ncontext = 4000')
    told = inside(capsys, "measure", small, "--json").json
    assert (told["policy"], told["window"]) == ("opal", 64_000)
    assert "given by refold.toml" in inside(capsys, "measure", small).out
    monkeypatch.setenv("REFOLD_WINDOW", "8k")
    assert "given by REFOLD_WINDOW" in inside(capsys, "measure", small).out
    assert inside(capsys, "measure", small, "--window", "16k", "--json").json["window"] == 16_000


def test_a_window_from_the_file_is_laid_over_the_table(capsys, small):
    saved("refold.toml", '[windows."my-model"]\ncontext = 4000')
    told = inside(capsys, "measure", small, "--model", "my-model", "--json")
    assert told.json["window"] == 4000
    assert told.err == ""
    assert "set in refold.toml" in inside(capsys, "measure", small, "--model", "my-model").out


def test_an_unknown_model_is_a_note_once(capsys, large):
    done = inside(capsys, "plan", large, "--model", "unheard-of", "--force")
    assert done.err.count("refold: note: no window is known for model 'unheard-of'") == 1
    assert "pass --window" in done.err


def test_exact_counts_say_so(capsys, small):
    assert (
        inside(capsys, "measure", small, "--count", "exact", "--json").json["count_source"] == "exact o200k"
    )


def test_plan_shows_what_leaves_what_stays_and_what_it_costs(capsys):
    done = inside(capsys, "plan", LONG, "--window", "32k", "--model", "gpt-4o")
    assert done.status == 0
    for word in ("before", "after", "fits into a room of 24,000", "digest", " more\n", "system prompt"):
        assert word in done.out
    for word in ("the user's last message", "read anew", "none is asked", "break-even"):
        assert word in done.out
    assert "name the model with --model" in inside(capsys, "plan", LONG, "--window", "32k").out
    unknown = inside(capsys, "plan", LONG, "--window", "32k", "--model", "unheard-of").out
    assert "no price is known for unheard-of" in unknown


def test_plan_tells_money_where_prices_are_known(capsys):
    done = inside(capsys, "plan", ANTHROPIC, "--force", "--with-model")
    for word in ("money now", "less from then on", "break-even", "1 call, about"):
        assert word in done.out


def test_plan_says_when_it_never_pays(capsys, large, monkeypatch):
    saved("refold.toml", "[windows.free]\ncontext = 9000\nprice = {input = 0, output = 0}")
    assert "break-even  never" in inside(capsys, "plan", large, "--model", "free").out


def test_plan_json_has_every_field_of_a_plan(capsys, large):
    told = inside(capsys, "plan", large, "--window", "8k", "--json").json
    plan = refold.plan(json.loads(large.read_text()), window="8k", with_model=False)
    for field in dataclasses.fields(plan):
        assert field.name in told
    assert (told["tokens_before"], told["tokens_after"]) == (plan.tokens_before, plan.tokens_after)
    assert told["tokens_saved"] == plan.tokens_saved > 0
    assert told["leaves"][0].keys() == {"index", "role", "tokens", "stage", "why", "preview"}


def test_plan_says_why_nothing_would_change(capsys, small):
    assert "Nothing would change: not yet" in inside(capsys, "plan", small).out


def test_plan_says_when_it_would_not_fit(capsys, large):
    done = inside(capsys, "plan", large, "--window", "4k", "--system", PROSE * 300, "--force")
    assert "does not fit into a room" in done.out
    assert "It would still not fit" in done.out
    assert done.status == 0


def test_plan_with_an_answering_program_never_calls_it(capsys, large, model, tmp_path):
    done = inside(capsys, "plan", large, "--window", "8k", "--ask", model)
    assert "summarize" in done.out
    assert not (tmp_path / "asked.txt").exists()


def test_a_plan_and_its_compaction_agree(capsys, large):
    told = inside(capsys, "plan", large, "--window", "8k", "--json").json
    done = inside(capsys, "compact", large, "--window", "8k", "--json").json
    for name in ("tokens_before", "tokens_after", "messages_before", "messages_after", "fits"):
        assert told[name] == done[name]


def test_policies_are_compared_in_a_table(capsys, large):
    done = inside(capsys, "plan", large, "--window", "8k", "--policy", "all")
    lines = done.out.splitlines()
    assert lines[0].split() == ["policy", "tokens", "after", "messages", "after", "fits", "stages"]
    assert [line.split()[0] for line in lines[1:]] == list(refold.presets.PRESETS)
    assert "needs a model (--ask): about" in next(line for line in lines if line.startswith("ripple"))


def test_policies_that_have_nothing_to_do_say_so(capsys, small):
    done = inside(capsys, "plan", small, "--policy", "refold", "--policy", "ripple")
    assert done.out.count("nothing to do") == 2


def test_a_comparison_as_json_says_who_needs_a_model(capsys, large):
    args = ("plan", large, "--window", "8k", "--policy", "ripple", "--policy", "opal", "--json")
    told = inside(capsys, *args).json["policies"]
    assert (told["ripple"]["needs_model"], told["opal"]["needs_model"]) == (True, False)
    helped = inside(capsys, *args, "--with-model").json["policies"]
    assert not helped["ripple"]["needs_model"]
    assert helped["ripple"]["fits"]


def test_hostile_content_reaches_no_terminal(capsys):
    evil = "\x1b]0;owned\x07\x1b[2J\u202eevil\r\n" + PROSE * 200
    file = saved("evil.json", [user(evil), assistant(evil), user("and now?")])
    for command in ("plan", "compact"):
        done = inside(capsys, command, file, "--window", "2k", *(("-v",) if command == "compact" else ()))
        told = done.out if command == "plan" else done.err
        assert "\x1b" not in told
        assert "\u202e" not in told
        assert "\r" not in told


def test_compact_prints_messages_and_leaves_the_file(capsys, large):
    before = large.read_bytes()
    done = inside(capsys, "compact", large, "--window", "8k")
    assert done.status == 0
    assert refold.validate(done.json, "openai") == []
    assert done.json == refold.compact(json.loads(before), window="8k").messages
    assert large.read_bytes() == before
    assert "tokens (" in done.err
    assert "by digest" in done.err


def test_compact_of_little_changes_nothing(capsys, small):
    done = inside(capsys, "compact", small)
    assert done.status == 0
    assert done.json == talk(2)
    assert "nothing was changed: not yet" in done.err


def test_compact_writes_to_a_file(capsys, large, tmp_path):
    done = inside(capsys, "compact", large, "--window", "8k", "-o", "out.json")
    assert done.out == ""
    assert done.err.endswith("\nwritten to out.json\n")
    whole = inside(capsys, "compact", large, "--window", "8k", "-o", tmp_path / "out.json")
    assert whole.err.endswith(f"\nwritten to {tmp_path / 'out.json'}\n")
    assert len(json.loads((tmp_path / "out.json").read_text())) < 120


def test_compact_in_place_keeps_a_backup(capsys, large, tmp_path):
    before = large.read_bytes()
    done = inside(capsys, "compact", large, "--window", "8k", "--in-place")
    assert done.err.endswith("\nwritten to large.json; the original is large.json.bak\n")
    assert done.status == 0
    assert "the original is" in done.err
    assert (tmp_path / "large.json.bak").read_bytes() == before
    assert len(large.read_bytes()) < len(before)


def test_compact_in_place_of_little_writes_nothing(capsys, small, tmp_path):
    inside(capsys, "compact", small, "--in-place")
    assert [path.name for path in tmp_path.iterdir()] == ["small.json"]


def test_compact_keeps_lines_and_bodies(capsys):
    lines = "\n".join(json.dumps(message) for message in talk(60, PROSE * 5))
    saved("a.jsonl", lines)
    out = inside(capsys, "compact", "a.jsonl", "--window", "8k").out
    assert all("role" in json.loads(line) for line in out.splitlines())
    saved("b.json", {"model": "m", "temperature": 0, "messages": talk(60, PROSE * 5)})
    body = inside(capsys, "compact", "b.json", "--window", "8k").json
    assert (body["model"], body["temperature"]) == ("m", 0)
    assert len(body["messages"]) < 120


def test_compact_json_has_every_field_of_an_outcome(capsys, large):
    told = inside(capsys, "compact", large, "--window", "8k", "--json", "-q")
    outcome = refold.compact(json.loads(large.read_text()), window="8k")
    promised = (  # surface.md, "In a library"
        "messages compacted fits reason stages tier level messages_before messages_after tokens_before"
        " tokens_after tokens_saved edits summary files receipt"
    )
    for name in promised.split():
        assert name in told.json
    assert told.json["messages"] == outcome.messages
    assert told.json["tokens_saved"] == outcome.tokens_saved
    assert told.json["files"] == {"read": [], "modified": []}
    assert told.json["edits"][0].keys() == {"start", "end", "stage", "why", "put"}
    assert told.json["receipt"]["policy"] == "refold"
    assert told.err == ""


def test_compact_json_and_a_file_at_once(capsys, large, tmp_path):
    told = inside(capsys, "compact", large, "--window", "8k", "--json", "-o", "out.json").json
    assert json.loads((tmp_path / "out.json").read_text()) == told["messages"]


def test_compact_asks_a_program(capsys, large, model, tmp_path):
    done = inside(capsys, "compact", large, "--window", "8k", "--ask", model, "--focus", "berths", "--json")
    assert "summarize" in done.json["stages"]
    assert "The harbour master wants a berth." in done.json["summary"]
    assert "berths" in (tmp_path / "asked.txt").read_text()


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("import sys; sys.stderr.write('no\\nno key'); sys.exit(3)", "ended with status 3: no key"),
        ("import sys; sys.exit(4)", "ended with status 4"),
        ("pass", "printed nothing"),
        ("import time; time.sleep(30)", "did not answer within 0.2 seconds"),
    ],
)
def test_a_program_that_fails_leaves_it_to_the_next_stage(capsys, large, program, said):
    saved("model.py", program)
    ask = ("--ask", f"{sys.executable} model.py", "--ask-timeout", "0.2" if "sleep" in program else "30")
    done = inside(capsys, "compact", large, "--window", "8k", *ask)
    assert done.status == 0
    assert "by digest" in done.err
    assert f"the model failed: AnswerFailed: {sys.executable} {said}" in done.err


def test_a_program_that_cannot_be_run_fails_as_well(capsys, large, tmp_path):
    saved("broken", "not a program").chmod(0o755)
    done = inside(capsys, "compact", large, "--window", "8k", "--ask", tmp_path / "broken")
    assert "cannot be run" in done.err
    assert done.status == 0


def test_the_answering_program_has_a_window_of_its_own(capsys, large, model, tmp_path):
    inside(capsys, "compact", large, "--window", "8k", "--ask", model, "--ask-window", "4k")
    requests = (tmp_path / "asked.txt").read_text()
    assert len(requests) > 0
    saved("one.py", "import sys; print(len(sys.stdin.read()))")
    done = inside(
        capsys,
        *("compact", large, "--window", "8k", "--json", "--ask", f"{sys.executable} one.py"),
        *("--ask-window", "4k"),
    )
    assert all(call["prompt_tokens"] <= 4_000 for call in done.json["receipt"]["stages"][-1]["calls"])


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (["--ask", "no-such-program"], "there is no program 'no-such-program'"),
        (["--ask", ""], "there is no program ''"),
        (["--ask", "'open"], "no closing quotation"),
        (["--ask", "cat", "--ask-timeout", "0"], "--ask-timeout takes seconds"),
        (["--ask", "cat", "--ask-timeout", "nan"], "--ask-timeout takes seconds"),
        (["--ask", "cat", "--ask-window", "wide"], "--ask-window: 'wide' is not a number"),
        (["--target", "none"], "--target: 'none' is not a number"),
        (["--pin", "99"], "--pin 99: the 4 messages are counted from 0 to 3"),
        (["--pin", "-5"], "--pin -5: the 4 messages"),
        (["--pin", "first"], "invalid int value"),
        (["--in-place", "-o", "x"], "exclude each other"),
        (["--tools", "{"], "--tools is not JSON"),
        (["--attach", "none.txt"], "--attach: cannot read none.txt"),
    ],
)
def test_wrong_use_of_compact_is_told_in_one_line(capsys, small, args, said):
    done = inside(capsys, "compact", small, *args)
    assert done.status == 2
    assert done.out == ""
    assert done.err.startswith("refold: ")
    assert said in done.err
    assert done.err.count("\n") == 1


def test_a_pinned_message_stays(capsys, large):
    pinned = json.loads(large.read_text())[5]
    done = inside(capsys, "compact", large, "--window", "8k", "--pin", "5", "--pin", "-1")
    assert pinned in done.json


def test_over_budget_is_status_one_and_still_written(capsys, large):
    done = inside(capsys, "compact", large, "--window", "4k", "--system", PROSE * 300)
    assert done.status == 1
    assert isinstance(done.json, list)
    assert "it does not fit" in done.err
    assert "system" in done.err


def test_must_fit_writes_nothing(capsys, large, tmp_path):
    args = ("compact", large, "--window", "4k", "--system", PROSE * 300, "--must-fit", "-o", "out.json")
    done = inside(capsys, *args)
    assert done.status == 1
    assert done.err.startswith("refold: ")
    assert "do not fit into" in done.err
    assert not (tmp_path / "out.json").exists()


def test_verbose_tells_each_stage_and_the_summary(capsys, large):
    err = inside(capsys, "compact", large, "--window", "8k", "-v").err
    assert "digest: done" in err
    assert "summarize: passed over" in err
    assert "## " in err


def test_verbose_without_a_summary(capsys, small):
    err = inside(capsys, "compact", small, "-v").err
    assert err.startswith("nothing was changed: not yet: ")
    assert err.count("\n") == 1


def test_half_characters_go_through(capsys):
    broken = "cut \ud83d in half"
    saved("half.json", json.dumps([user(broken), *talk(60, PROSE * 5)]))
    done = inside(capsys, "compact", "half.json", "--window", "8k", "--pin", "0", "-o", "out.json")
    assert done.status == 0
    assert json.loads(Path("out.json").read_text(encoding="utf-8"))[0] == user(broken)


def test_validate_says_yes(capsys):
    done = inside(capsys, "validate", ANTHROPIC)
    assert done.status == 0
    assert done.out.startswith("yes: anthropic would take these ")


def test_validate_says_no_and_why(capsys):
    calls = [{"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]
    saved("x.json", [user("a"), {"role": "assistant", "content": None, "tool_calls": calls}, user("b")])
    done = inside(capsys, "validate", "x.json", "--format", "openai")
    assert done.status == 1
    assert done.out.splitlines()[-1].startswith("no: openai would refuse this: 1 problem (")
    told = inside(capsys, "validate", "x.json", "--json")
    assert told.status == 1
    assert told.json["valid"] is False
    assert told.json["problems"][0].keys() == {"index", "rule", "message"}


def test_validate_lists_the_first_fifty(capsys):
    done = inside(capsys, "validate", LONG, "--format", "anthropic")
    assert done.status == 1
    assert "more\n" in done.out
    assert len(done.out.splitlines()) == 52


def test_a_list_of_mixed_shapes_is_a_problem_and_not_an_error(capsys):
    saved(
        "x.json",
        [{"role": "model", "parts": [{"text": "a"}]}, {"role": "tool", "tool_call_id": "1", "content": ""}],
    )
    done = inside(capsys, "validate", "x.json")
    assert done.status == 1
    assert done.out.splitlines()[-1].startswith("no: a provider would refuse this")
    assert inside(capsys, "validate", "x.json", "--json").json["format"] is None
    assert inside(capsys, "measure", "x.json").status == 2


def test_validate_of_what_is_no_json_is_wrong_use(capsys):
    saved("x.json", "[{")
    for args in ([], ["--format", "gemini"]):
        done = inside(capsys, "validate", "x.json", *args)
        assert done.status == 2
        assert "x.json: is not JSON" in done.err


def test_models_lists_all(capsys):
    lines = inside(capsys, "models").out.splitlines()
    assert len(lines) > 500
    assert lines[0].split()[:4] == ["model", "context", "input", "output"]
    assert any(line.startswith("anthropic/claude-sonnet-4-5") for line in lines)


def test_models_resolves_a_name_as_the_library_does(capsys):
    done = inside(capsys, "models", "gpt-4o-2099-01-01")
    assert done.out.startswith("gpt-4o-2099-01-01 → openai/gpt-4o\n")
    assert "the longest known beginning of the name" in done.out
    assert "no model in the table has this in its name" in done.out
    found = inside(capsys, "models", "gpt-5", "--json").json["found"]
    window = refold.window("gpt-5")
    assert (found["tokens"], found["output_tokens"], found["source"], found["input_tokens"]) == (
        window.tokens,
        window.output_tokens,
        window.source,
        window.input_tokens,
    )


def test_models_shows_prices_and_caps(capsys):
    out = inside(capsys, "models", "gpt-5").out
    assert "272,000 tokens at most" in out
    assert "for a million tokens" in out
    assert "into it" in inside(capsys, "models", "claude-sonnet-4-5").out


def test_models_without_a_price_or_caps(capsys):
    out = inside(capsys, "models", "ollama:unheard-of").out
    assert "price" not in out.splitlines()[1]
    assert "what this provider's models have" in out


def test_models_takes_patterns(capsys):
    out = inside(capsys, "models", "google/gemini-2.5*").out
    assert all(line.startswith("google/gemini-2.5") for line in out.splitlines()[1:-1])
    assert inside(capsys, "models", "gemini-2.5*", "--json").json["found"] is None


def test_models_includes_what_the_user_set(capsys):
    saved("refold.toml", '[windows."my-model"]\ncontext = "64k"')
    done = inside(capsys, "models", "my-model")
    assert "set in refold.toml" in done.out
    assert "64,000" in done.out
    assert "1 model;" in done.out


def test_models_as_a_policy_sees_them(capsys):
    assert "ripple" in refold.presets.PRESETS
    told = inside(capsys, "models", "unheard-of", "--policy", "ripple", "--json").json["found"]
    assert (told["tokens"], told["source"]) == (32_768, "fallback")
    assert "nobody knows it" in inside(capsys, "models", "unheard-of").out


def test_models_of_a_strict_default_may_find_nothing(capsys, monkeypatch):
    from refold.cli import models

    strict = refold.presets.get("refold", unknown_window=None)
    monkeypatch.setattr(models.knobs, "policy", lambda *_args: strict)
    assert inside(capsys, "models", "unheard-of", "--json").json["found"] is None
