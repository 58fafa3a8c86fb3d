"""The measure of a view by a reader's surprise, with a reader that only counts words it has not seen."""

import argparse
import json
import sys

import pytest
from bench import (
    peering,
    processes,
    surprise,
    surprise_cases,
    surprise_model,
    surprise_summaries,
    surprise_table,
    surprise_views,
)
from bench.surprise_cases import AGENT_RUNS, LONG, TALKS, TRANSCRIPTS
from bench.surprise_model import ChatPrompt, Piece
from bench.surprise_views import PreparedCase, ViewMaker
from word_reader import WordReader

from refold.evals.datasets import Dataset, Run, Talk
from refold.evals.peers import PeerFailed


def make_run(steps=40, words=400, name="run"):
    """An agent that reads a file in each step and uses its name three steps later."""
    messages = [
        {"role": "system", "content": "You are an agent."},
        {"role": "user", "content": "Port the parser."},
    ]
    for step in range(steps):
        messages.append({"role": "assistant", "content": f"open file_{step} after value_{max(0, step - 3)}"})
        messages.append({"role": "user", "content": f"value_{step} " + f"line_{step} " * words})
    return Run(name, messages)


def make_options(**changed):
    values = {
        "cuts": 3,
        "kind": surprise_cases.KINDS,
        "most_tokens": surprise_cases.MOST_TOKENS,
        "seed": 3,
        "jobs": 1,
        "share": (0.25,),
        "window": (),
        "summaries": False,
        "methods": (*surprise_views.PLAIN_METHODS, *surprise_summaries.SUMMARY_METHODS),
        "views": None,
    }
    return argparse.Namespace(**values | changed)


@pytest.fixture
def cases():
    return list(surprise_cases.make_cases(WordReader(), AGENT_RUNS, [make_run()]))


def test_cuts_stand_before_an_action_and_have_the_right_size(cases):
    assert len(cases) == 2
    for case in cases:
        assert surprise_cases.LEAST_TOKENS <= case.tokens <= surprise_cases.MOST_TOKENS
        assert case.following[0].is_scored


def test_one_reading_scores_first_and_later_actions_apart(cases):
    """Three actions are first; both parts together are the surprise at all actions."""
    case = cases[0]
    actions = [piece for piece in case.following if piece.is_scored]
    alone = WordReader().surprise([], case.following)
    got = surprise.score(WordReader(), [], case)
    assert len(actions) == surprise_cases.MOST_ACTIONS
    assert got.first + got.later == sum(alone)
    first_end = case.following.index(actions[2]) + 1
    assert got.first == sum(alone[:first_end])


def test_the_whole_prefix_keeps_everything_and_the_head_nothing(cases):
    views = {"whole, 100%": cases[0].prefix, "head, 0%": surprise_cases.find_head(cases[0].prefix)}
    scores = [surprise.score_case(WordReader(), PreparedCase(cases[0], views, cases[0].prefix))]
    rows = {row["method"]: row for row in surprise.make_rows(scores, {})}
    assert rows["whole"]["first"] == {"share": 1.0, "low": 1.0, "high": 1.0}
    assert rows["head"]["first"] == {"share": 0.0, "low": 0.0, "high": 0.0}


def test_every_view_of_one_share_stays_within_its_budget(cases):
    reader = WordReader()
    views = ViewMaker(reader, shares=(0.25,), windows=()).make_views(cases[0])
    budget = int(cases[0].tokens * 0.25)
    assert set(views) == {f"{method}, 25%" for method in surprise_views.PLAIN_METHODS}
    for name, view in views.items():
        assert surprise_cases.count_messages(reader, view) <= budget * surprise_views.SLACK, name


def test_a_mixture_ends_with_the_plain_tail(cases):
    reader, budget = WordReader(), int(cases[0].tokens * 0.25)
    tail = surprise_views.keep_tail(reader, cases[0].prefix, budget // 2, [])
    mixed = surprise_views.mix_digest_and_tail(reader, cases[0].prefix, budget, 0.5)
    assert mixed[-len(tail) :] == tail
    assert mixed[0] == cases[0].prefix[0]


def test_methods_are_chosen_by_name(cases):
    maker = ViewMaker(WordReader(), methods=("tail",), shares=(0.1,), windows=(8_000,))
    assert set(maker.make_views(cases[0])) == {"tail, 10%", "tail, session 8k"}


def test_a_session_is_measured_beside_baselines_of_its_own_size(cases):
    views = ViewMaker(WordReader(), shares=(), windows=(8_000,)).make_views(cases[0])
    assert set(views) == {"refold, session 8k", "tail, session 8k", "head and tail, session 8k"}
    sizes = {name: surprise_cases.count_messages(WordReader(), view) for name, view in views.items()}
    assert sizes["refold, session 8k"] < cases[0].tokens
    assert max(sizes.values()) == sizes["refold, session 8k"]


def test_a_window_in_which_nothing_folds_is_named_in_the_table():
    maker = ViewMaker(WordReader(), shares=(0.25,), windows=(1_000_000,))
    views = surprise.make_all_views(maker, Dataset(runs=[make_run()]), make_options(kind=(AGENT_RUNS,)))
    scores = [surprise.score_case(WordReader(), each) for each in views.prepared]
    last = surprise.make_rows(scores, views.notes)[-1]
    assert (last["size"], last["note"]) == ("session 1000k", "nothing folds in 2 cuts")


def test_long_recordings_are_cut_at_the_folds_of_a_session():
    """The reader takes less than the prefix: 100 % is the newest part that it takes."""
    maker = ViewMaker(WordReader())
    found, note = surprise_views.prepare_long(maker, [make_run(steps=60, words=100)], 6_000, 3_000)
    assert note == ""
    assert len(found) >= 2
    for each in found:
        assert each.case.kind == LONG
        assert surprise_cases.count_messages(WordReader(), each.reference) <= 3_000
        assert set(each.views) == {"refold, session 6k", "tail, session 6k", "head and tail, session 6k"}


def test_views_that_no_reader_takes_are_named_and_not_invented():
    maker, runs = ViewMaker(WordReader()), [make_run(steps=60, words=100)]
    found, note = surprise_views.prepare_long(maker, runs, 6_000, 100)
    assert not found
    assert note.endswith("folds, but no view fits the reader's 100 tokens")
    found, note = surprise_views.prepare_long(maker, runs, 1_000_000, 3_000)
    assert (found, note) == ([], "nothing folds: the recordings are shorter than the window")


class OffPeer:
    """Another library that returns more or fewer tokens than it was asked for."""

    name = "other"

    def __init__(self, factor):
        self.factor = factor

    def fold(self, messages, budget, ask):
        if self.factor is None:
            raise PeerFailed("it failed")
        return surprise_views.keep_tail(WordReader(), messages, int(budget * self.factor), [])


@pytest.mark.parametrize("factor", [0.1, 1.5])
def test_a_peer_gets_the_same_tokens(cases, factor):
    budget = int(cases[0].tokens * 0.25)
    view = surprise_views.fold_with_peer(WordReader(), OffPeer(factor), cases[0].prefix, budget)
    assert (
        budget * surprise_views.FULL
        <= surprise_cases.count_messages(WordReader(), view)
        <= budget * surprise_views.SLACK
    )


class TriggerPeer(OffPeer):
    """A library that keeps everything below its trigger, and a quarter of it above."""

    def fold(self, messages, budget, ask):
        if surprise_cases.count_messages(WordReader(), messages) <= budget:
            return messages
        return super().fold(messages, budget, ask)


def test_a_peer_with_a_trigger_gets_the_same_tokens(cases):
    """A quarter of the prefix is left just before the trigger is no longer reached."""
    budget = int(cases[0].tokens * 0.25)
    view = surprise_views.fold_with_peer(WordReader(), TriggerPeer(0.25), cases[0].prefix, budget)
    assert budget * surprise_views.FULL <= surprise_cases.count_messages(WordReader(), view) <= budget


class StubbornPeer(OffPeer):
    """A library that keeps everything, and refuses a target of nothing."""

    def fold(self, messages, budget, ask):
        assert budget > 0
        return messages


def test_a_peer_that_stays_larger_has_no_view(cases):
    budget = int(cases[0].tokens * 0.25)
    assert surprise_views.fold_with_peer(WordReader(), StubbornPeer(1), cases[0].prefix, budget) is None


def test_a_peer_that_fails_has_no_view(cases):
    maker = ViewMaker(WordReader(), methods=(), shares=(0.25,), windows=(), peers=(OffPeer(None),))
    assert maker.make_views(cases[0]) == {}


def test_views_are_the_same_after_a_file(cases, tmp_path):
    maker = ViewMaker(WordReader(), shares=(0.25,), windows=())
    prepared = [PreparedCase(case, maker.make_views(case), case.prefix) for case in cases]
    surprise.write_views(tmp_path / "views.json.gz", surprise.Views(prepared, {"a, b": "c"}))
    assert surprise.read_views(tmp_path / "views.json.gz") == surprise.Views(prepared, {"a, b": "c"})


def make_prepared(case, name, reference=None):
    return PreparedCase(case, {name: [{"role": "user", "content": name}]}, reference or case.prefix)


def test_views_of_the_same_cut_are_united_from_several_files(cases):
    """The first cut is in both files; a view of one name is that of the later file."""
    ours = surprise.Views([make_prepared(cases[0], "refold, 25%")], {"a": "ours", "b": "ours"})
    later = make_prepared(cases[0], "refold, 25%")
    later.views["other, 25%"] = [{"role": "user", "content": "peer"}]
    later.views["refold, 25%"] = [{"role": "user", "content": "new"}]
    theirs = surprise.Views([make_prepared(cases[1], "other, 25%"), later], {"b": "theirs"})
    merged = surprise.merge_views([ours, theirs])
    assert [each.case for each in merged.prepared] == cases
    assert merged.prepared[0].views == later.views
    assert set(merged.prepared[1].views) == {"other, 25%"}
    assert merged.notes == {"a": "ours", "b": "theirs"}


def test_views_with_another_reference_are_not_united(cases):
    """100 % is something else there."""
    apart = make_prepared(cases[0], "b, 25%", reference=cases[0].prefix[1:])
    views = [surprise.Views([make_prepared(cases[0], "a, 25%")]), surprise.Views([apart])]
    assert [set(each.views) for each in surprise.merge_views(views).prepared] == [{"a, 25%"}, {"b, 25%"}]


def test_the_program_unites_files_of_views_of_several_calls(tmp_path, monkeypatch, capsys):
    """Views of other libraries are made alone, without sessions, and scored beside ours."""
    (tmp_path / "run.json").write_text(json.dumps(make_run().messages))
    monkeypatch.setattr(surprise, "ReaderModel", lambda model, cache: WordReader(name=model.stem))
    monkeypatch.setattr(surprise, "open_peers", lambda wanted, methods: [OffPeer(1)] * (wanted == "all"))
    call = ["surprise", str(tmp_path), "--model", "a.gguf", "--jobs", "1", "--kind", AGENT_RUNS]
    call += ["--share", "0.25", "--window", "1000000"]
    ours, theirs = str(tmp_path / "ours.gz"), str(tmp_path / "theirs.gz")
    for more in (
        ["--methods", "tail", "--cuts", "1", "--write-views", ours],
        ["--methods", "peers", "--peers", "all", "--cuts", "2", "--write-views", theirs],
        ["--read-views", ours, "--read-views", theirs, "--json", str(tmp_path / "out.json")],
    ):
        monkeypatch.setattr(sys, "argv", [*call, *more])
        surprise.main()
    rows = json.loads((tmp_path / "out.json").read_text())["readers"][0]["rows"]
    shown = [(row["method"], row["size"], row["cuts"]) for row in rows]
    assert shown == [("tail", "25%", 1), ("other", "25%", 2), ("all", "session 1000k", 0)]
    assert f"{ours} lacks 1 of 2 cuts" in capsys.readouterr().err


def test_peers_that_can_be_told_no_size_or_ask_a_model_are_not_opened(monkeypatch):
    """No environment is made for them."""
    made = []
    monkeypatch.setattr(peering.Pin, "ready", False)
    monkeypatch.setattr(peering, "made", lambda pin, told: made.append(pin.name) or "no network")
    assert surprise.open_peers("all", ["peers"]) == []
    assert "langchain" in made
    assert not {"langmem", "headroom", "openai-agents"} & {*made}
    monkeypatch.setattr(peering, "made", lambda pin, told: "")
    names = [peer.name for peer in surprise.open_peers("all", ["peers"])]
    assert "langchain trim" in names
    assert not {"langchain summarization", "langchain editing"} & {*names}
    assert [peer.name for peer in surprise.open_peers("all", ["litellm trim"])] == ["litellm trim"]


def test_several_processes_give_the_same_views_in_order():
    assert list(processes.map_in_processes(str.upper, ["a", "b", "c"], 2)) == ["A", "B", "C"]


@pytest.mark.campaign
def test_summaries_are_written_by_the_reader_and_stand_in_the_view(cases):
    reader = WordReader(reply=lambda prompt: "The parser was ported up to value_3 by hand.")
    views = surprise.Views([PreparedCase(case, {}, case.prefix) for case in cases])
    added = surprise.add_summaries(reader, views, make_options())
    for each in added.prepared:
        assert set(each.views) == {"refold with summary, 25%", "summary and tail, 25%"}
        for name, view in each.views.items():
            text = " ".join(surprise_cases.template_texts(view))
            assert "ported up to value_3" in text, name
            budget = int(each.case.tokens * 0.25)
            assert surprise_cases.count_messages(reader, view) <= budget * surprise_views.SLACK, name
    assert len(reader.prompts) == len(set(reader.prompts))


def test_a_plain_summary_is_asked_for_what_left_in_parts_that_the_reader_takes(cases):
    reader = WordReader(window=6_000, reply=lambda prompt: "short")
    rounds = surprise_summaries.SummaryRounds(reader, 1, lambda text: None)
    surprise_summaries.make_summary_views(rounds, cases[:1], (0.25,), (), ("summary and tail",))
    assert len(reader.prompts) >= 2
    assert all(reader.count(prompt.text) <= 6_000 for prompt in reader.prompts)
    assert not any("line_19" in prompt.text for prompt in reader.prompts)


@pytest.mark.campaign
def test_a_session_that_folds_shows_the_summary_that_the_reader_wrote(cases):
    """The size of the window decides; a window that holds the prefix has no row."""
    reader = WordReader(reply=lambda prompt: "The parser was ported up to value_3 by hand.")
    rounds = surprise_summaries.SummaryRounds(reader, 1, lambda text: None)
    windows = (16_000, 1_000_000)
    made = surprise_summaries.make_summary_views(rounds, cases[:1], (), windows, ("refold with summary",))
    assert list(made) == [(0, "refold with summary, session 16k")]
    assert "ported up to value_3" in " ".join(surprise_cases.template_texts(*made.values()))


def test_a_tail_cuts_the_message_at_its_edge():
    messages = [{"role": "user", "content": "a " * 500}, {"role": "assistant", "content": "last word"}]
    view = surprise_views.keep_tail(WordReader(), messages, 200, [])
    assert [message["content"][:1] for message in view] == ["…", "l"]


def test_a_long_result_between_actions_is_shown_by_its_ends():
    messages = [{"role": "assistant", "content": "run"}, {"role": "tool", "content": "x " * 5_000}]
    pieces = list(surprise_cases.continue_from(WordReader(), messages))
    assert [piece.is_scored for piece in pieces] == [True, False]
    assert "…" in pieces[1].text
    assert isinstance(pieces[1], Piece)


def test_intervals_are_drawn_over_runs_not_over_cuts():
    """Ten cuts of one run are one run: nothing can be drawn differently."""
    one_run = [("run", (float(number), 10.0)) for number in range(10)]
    assert surprise_table.measure_share(one_run) == {"share": 0.45, "low": 0.45, "high": 0.45}
    many = [(str(number), (float(number), 10.0)) for number in range(10)]
    share = surprise_table.measure_share(many)
    assert share["low"] < share["share"] < share["high"]


def test_a_table_goes_between_the_markers_of_a_page(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("above\n<!-- begin a -->\nold\n<!-- end a -->\nbelow\n")
    surprise_table.write_markdown(page, "a", "program", ["| new |\n"])
    expected = "above\n<!-- begin a -->\nMade by `program`.\n\n| new |\n<!-- end a -->\nbelow\n"
    assert page.read_text() == expected
    surprise_table.write_markdown(page, "other", "program", ["| new |\n"])
    assert page.read_text() == "Made by `program`.\n\n| new |\n"


def test_prompts_in_one_batch_have_similar_size_and_fit():
    batches = surprise_model.make_batches([10, 5_000, 12, 4_900, 4_800], 10_000)
    assert batches == [[0, 2], [4, 3], [1]]


def test_a_prompt_has_the_chat_template():
    assert surprise_model.format_prompt(ChatPrompt("", "hi")) == (
        "<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    )


@pytest.mark.campaign
def test_the_program_writes_one_table_for_each_reader(tmp_path, monkeypatch, capsys):
    (tmp_path / "run.json").write_text(json.dumps(make_run().messages))
    monkeypatch.setattr(
        surprise,
        "ReaderModel",
        lambda model, cache: WordReader(name=model.stem, reply=lambda prompt: "Done."),
    )
    words = [str(tmp_path), "--model", "a.gguf", "--model", "b.gguf", "--cuts", "1", "--jobs", "1"]
    words += ["--kind", AGENT_RUNS, "--share", "0.25", "--window", "16000", "--summaries"]
    words += ["--json", str(tmp_path / "out.json"), "--markdown", str(tmp_path / "out.md")]
    monkeypatch.setattr(sys, "argv", ["surprise", *words, "--views", str(tmp_path / "examples")])
    surprise.main()
    result = json.loads((tmp_path / "out.json").read_text())
    assert [each["model"] for each in result["readers"]] == ["a", "b"]
    assert {row["method"] for row in result["readers"][0]["rows"]} >= {"refold", "tail", "summary and tail"}
    table = (tmp_path / "out.md").read_text()
    assert "**agent runs, read by b**" in table
    assert "| refold | 25% |" in table
    assert "refold with summary" in capsys.readouterr().out
    assert (tmp_path / "examples" / "00-refold-25.txt").exists()


def test_transcripts_begin_with_the_user_and_fit_the_reader():
    run = make_run(steps=120)
    cases = list(surprise_cases.make_cases(WordReader(), TRANSCRIPTS, [run], 10_000))
    assert len(cases) > 10
    assert len(cases) == len({case.prefix[-1]["content"] for case in cases})
    for case in cases:
        assert case.prefix[0]["role"] == "user"
        assert case.tokens <= 10_000


def test_talks_are_cut_before_an_answer_and_have_one_size():
    """A view of a tenth of it is as small as a small model's window."""
    said = [("user", "question"), ("assistant", "answer")] * 200
    talk = Talk(
        "talk", [{"role": role, "content": f"{word} {at} " * 60} for at, (role, word) in enumerate(said)]
    )
    options = make_options(kind=(TALKS,), cuts=9)
    cases = surprise.choose_cases(WordReader(), Dataset(longmemeval=[talk]), options)
    assert len(cases) == len(surprise_cases.CUTS[TALKS])
    for case in cases:
        assert case.prefix[-1]["role"] == "user"
        assert surprise_cases.LEAST_TOKENS <= case.tokens <= surprise_cases.STRETCHES[TALKS]
