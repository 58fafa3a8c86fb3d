"""`refold replay`, driven as people drive it."""

import csv
import io
import json
import re

import pytest
from cli_running import ROOT, process, run_cli, terminal
from test_cli_docs import BLOCK, UPDATE, commands, matches, printed

WORDS = "the work goes on step by step and nobody knows how it will end "


@pytest.fixture
def talk(tmp_path):
    messages = [{"role": "user", "content": "Mend the build."}]
    for turn in range(28):
        messages.append({"role": "assistant", "content": f"I look at src/part_{max(0, turn - 6)}.py"})
        messages.append({"role": "user", "content": f"src/part_{turn}.py: " + WORDS * 30})
    path = tmp_path / "talk.json"
    path.write_text(json.dumps({"model": "claude-sonnet-4-5", "messages": messages}))
    return path


def test_a_table_pictures_and_the_break_even_of_each_fold(talk):
    done = run_cli("replay", talk, "--policy", "refold", "--policy", "opal", "--window", "8k")
    assert done.status == 0
    lines = done.out.splitlines()
    assert "57 messages" in lines[0]
    assert "prices of claude-sonnet-4-5" in lines[0]
    rows = {line.split()[0]: line for line in lines if line.startswith("  ") and "$" in line}
    assert {"none", "refold", "opal"} <= set(rows)
    assert "over" in rows["none"]
    assert "pays after" in done.out
    assert "folds of refold" in done.out
    assert "▴" in done.out
    assert "stand-ins" in done.out


def test_no_compaction_is_always_beside(talk):
    told = run_cli("replay", talk, "--window", "8k", "--json").json
    assert [run["policy"] for run in told["runs"]] == ["none", "refold"]
    assert told["price_of"] == "claude-sonnet-4-5"
    none, refold = (run["totals"] for run in told["runs"])
    assert none["folds"] == 0
    assert refold["tokens_sent"] < none["tokens_sent"]
    assert refold["dollars"] > 0
    assert refold["facts_kept"] is not None


def test_windows_and_prices_of_the_users_file_count(talk, monkeypatch):
    monkeypatch.chdir(talk.parent)
    price = "price = { input = 0.5, output = 1.5, cache_read = 0.05 }"
    (talk.parent / "refold.toml").write_text(f'[windows."my-model"]\ncontext = "64k"\n{price}\n')
    done = run_cli("replay", talk, "--model", "my-model", "--json")
    assert (done.status, done.err) == (0, "")
    assert {run["window"] for run in done.json["runs"]} == {64_000}
    assert all(run["totals"]["dollars"] for run in done.json["runs"])
    other = run_cli(
        "replay", talk, "--model", "gpt-4o", "--price-of", "my-model", "--window", "64k", "--json"
    )
    assert other.json["runs"][0]["totals"]["dollars"] == done.json["runs"][0]["totals"]["dollars"]


def test_several_windows_and_all_policies(talk):
    told = run_cli("replay", talk, "--policy", "all", "--window", "8k", "--window", "64k", "--json").json
    assert {run["window"] for run in told["runs"]} == {8_000, 64_000}
    assert len(told["runs"]) == 16
    assert told["thrifty"] == []


def test_a_chart_has_the_whole_name_of_its_policy(talk):
    charts = run_cli("replay", talk, "--policy", "codebuddy", "--policy", "neurolink", "--window", "8k").out
    lines = charts.partition("\n\n")[2].partition("\n\n")[2].splitlines()
    for name in ("codebuddy", "neurolink"):
        assert any(re.match(rf"  {name} +[▁▂▃▄▅▆▇█.:#]", line) for line in lines)


@pytest.fixture
def long_talk(tmp_path):
    messages = [{"role": "user", "content": "Mend the build."}]
    for turn in range(160):
        messages.append({"role": "assistant", "content": f"I look at src/part_{max(0, turn - 6)}.py"})
        messages.append({"role": "user", "content": f"src/part_{turn}.py: " + WORDS * 30})
    path = tmp_path / "long.json"
    path.write_text(json.dumps({"model": "claude-sonnet-4-5", "messages": messages}))
    return path


def test_it_is_told_what_thrifty_would_save(long_talk):
    """Where a price is known; the table shows only the policies that were named."""
    told = run_cli("replay", long_talk, "--window", "200k", "--without-model", "--json").json
    assert [run["policy"] for run in told["runs"]] == ["none", "refold"]
    (saving,) = told["thrifty"]
    cost = told["runs"][1]["totals"]["dollars"]
    assert (saving["window"], saving["compared_with"]) == (200_000, "refold")
    assert saving["saved"] == pytest.approx(cost - saving["dollars"])
    assert saving["saved"] > 0
    shown = run_cli("replay", long_talk, "--window", "200k", "--without-model").out
    assert re.search(
        rf"\n  thrifty would cost \${saving['dollars']:.2f}, \$\d\.\d\d \(\d\d%\) less than refold, facts",
        shown,
    )
    assert "folds of thrifty" not in shown


def test_nothing_is_told_of_thrifty_where_it_is_named_or_no_price_is_known(long_talk):
    named = run_cli("replay", long_talk, "--window", "200k", "--policy", "thrifty", "--without-model").out
    assert "folds of thrifty" in named
    assert "thrifty would" not in named
    unpriced = run_cli("replay", long_talk, "--window", "200k", "--model", "nobody-knows-me").out
    assert "thrifty" not in unpriced


def test_a_line_for_every_request(talk):
    done = run_cli("replay", talk, "--window", "8k", "--csv", "--without-model")
    rows = list(csv.DictReader(io.StringIO(done.out)))
    assert len(rows) == 2 * 28
    assert {row["policy"] for row in rows} == {"none", "refold"}
    assert all(
        int(row["tokens"]) == sum(int(row[key]) for key in ("cache_read", "cache_write", "fresh"))
        for row in rows
    )


def test_a_page_is_written_whole(talk, tmp_path):
    out = tmp_path / "page.html"
    done = run_cli("replay", talk, "--window", "8k", "--html", out)
    assert (done.status, done.out) == (0, "")
    assert str(out) in done.err
    assert out.read_text().count("<svg") == 2
    assert run_cli("replay", talk, "--window", "8k", "--html", talk).status == 2


def test_without_a_price_the_money_is_left_out(tmp_path):
    path = tmp_path / "plain.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}, {"role": "assistant", "content": "ho"}]))
    done = run_cli("replay", path)
    assert "no price is known" in done.out
    assert "$" not in done.out
    assert "$" in run_cli("replay", path, "--price-of", "gpt-4o").out


@pytest.mark.parametrize(
    ("args", "why"),
    [
        (["--json", "--csv"], "exclude each other"),
        (["--ask", "local", "--without-model"], "exclude each other"),
        (["--cache-seconds", "0"], "--cache-seconds takes"),
        (["--price-of", "nobody-knows-this"], "no price is known for nobody-knows-this"),
        (["--window", "wide"], "--window"),
        (["--policy", "refld"], "did you mean refold?"),
        (["--set", "keep_tokns=1"], "did you mean keep_tokens?"),
    ],
)
def test_wrong_use_is_one_line(talk, args, why):
    done = run_cli("replay", talk, *args)
    assert done.status == 2 or "did you mean" in why
    assert why in done.err
    assert done.err.count("\n") == 1


def test_nothing_to_replay(tmp_path):
    path = tmp_path / "one.json"
    path.write_text(json.dumps([{"role": "user", "content": "hi"}]))
    done = run_cli("replay", path)
    assert done.status == 2
    assert "holds no answer of a model" in done.err


def test_an_agents_transcript_brings_its_reports_and_times():
    path = ROOT / "examples" / "transcripts" / "claude-code.jsonl"
    told = run_cli("replay", path, "--window", "32k", "--json").json
    assert told["format"] == "anthropic"
    assert told["runs"][0]["totals"]["requests"] > 3


def test_somebody_is_asked_only_where_they_are_named(talk, tmp_path):
    answerer = tmp_path / "answer"
    answerer.write_text("#!/bin/sh\ncat > /dev/null\necho They mend the build, file by file, and go on.\n")
    answerer.chmod(0o755)
    args = ("replay", talk, "--window", "8k", "--policy", "opal", "--json")
    asked = run_cli(*args, "--ask", answerer).json["runs"][1]
    assert asked["summaries"] == str(answerer)
    assert asked["totals"]["summarising"]["calls"] >= 1
    assert run_cli(*args).json["runs"][1]["summaries"] == "stand-in"


def test_plain_characters_in_a_plain_locale(talk):
    done = process("replay", talk, "--window", "8k", env={"LANG": "C", "LC_ALL": "C"})
    assert done.status == 0
    assert done.out.isascii()
    assert "#" in done.out
    assert "^" in done.out
    assert "\x1b" not in done.out
    assert done.err == ""


def test_a_terminal_shows_colours_and_how_far_it_is(talk):
    done = terminal("replay", talk, "--window", "8k")
    assert "\x1b[32m" in done.out
    assert "replaying under" in done.out
    assert "\x1b[" not in terminal("replay", talk, "--window", "8k", "--no-color").out.replace("\x1b[2K", "")


@pytest.mark.few_values(1)
@pytest.mark.parametrize("priced", [True, False])
def test_every_cell_of_a_table_stands_under_its_title(talk, priced):
    """Also where a cell is empty, and where there is no price."""
    if not priced:
        talk.write_text(json.dumps(json.loads(talk.read_text())["messages"]))
    shown = run_cli("replay", talk, "--window", "8k", "--policy", "refold", "--policy", "opal").out
    lines = shown.splitlines()
    heads = [number for number, line in enumerate(lines) if line.endswith("  by")]
    assert heads
    for number in heads:
        stages = [line[lines[number].rindex("by") :] for line in lines[number + 1 :]]
        assert all(re.match(r"[a-z]", one) for one in stages[: stages.index("")])
    head = next(line for line in lines if line.startswith("  policy"))
    end = head.index("largest") + len("largest")
    for line in lines[lines.index(head) + 1 :][:3]:
        assert line[end - 1].isdigit()
        assert line[end:] in ("", "  over")
    assert ("cost" in head, "paid" in head) == (priced, priced)


def test_the_page_about_it_shows_what_is_printed(tmp_path):
    """Every command in docs/replay.md; REFOLD_UPDATE_DOCS=1 writes what is printed now into the page."""
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    page = ROOT / "docs" / "replay.md"
    text = page.read_text(encoding="utf-8")
    for block in BLOCK.findall(text):
        ((command, shown),) = commands(block)
        real = printed(command)
        if UPDATE:
            page.write_text(text.replace(block, "\n".join([f"$ {command}", *real]) + "\n"), encoding="utf-8")
        assert UPDATE or (len(shown) > 10 and matches(without_pictures(shown), without_pictures(real)))


def without_pictures(lines):
    return [line for line in lines if not set(line) & set("▁▂▃▄▅▆▇▴")]
