"""The slash commands: what each shows and does, and what a typo is told."""

from dataclasses import replace

import pytest
from chat_desks import Somebody, desk_of, do, say

import refold
from refold.chat import commands
from refold.chat.commands import COMMANDS, Leave, Retry
from refold.chat.showing import rough, size_line, warning
from refold.stores import open_store

LONG = "the quick brown fox jumps over the lazy dog " * 20


def filled(turns=6, **more):
    """A desk at which something was said."""
    desk = desk_of([LONG], **{"window": 200_000, **more})
    for number in range(turns):
        say(desk, f"question {number} about the harbour")
    return desk


def view_of(desk):
    return desk.session.view()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/contxt", "there is no command /contxt; did you mean /context?"),
        ("/xyzzy", "there is no command /xyzzy; /help lists them"),
    ],
)
def test_a_typo_is_one_line_with_a_hint(line, told):
    assert do(desk_of(), line) == told


def test_a_path_is_no_command_and_two_slashes_say_one():
    assert not commands.is_command("/usr/bin/env is a path")
    assert not commands.is_command("//help")
    assert commands.words_of("//help") == "/help"
    assert commands.words_of("help") == "help"


def test_help_lists_every_command():
    text = do(desk_of(), "/help")
    assert all(f"/{name}" in text for name in COMMANDS)
    assert do(desk_of(), "/?") == text


def test_quit_and_retry_are_left_to_who_runs_the_chat():
    for line, error in (("/quit", Leave), ("/exit", Leave), ("/retry", Retry)):
        with pytest.raises(error):
            do(desk_of(), line)


def test_context_tells_the_size_in_umweltens_words_and_its_parts():
    desk = filled(2)
    text = do(desk, "/context")
    assert text.startswith("[Context: 4 messages, ~")
    assert {"system", "history", "tools", "room", "compacts"} <= {
        line.split()[0] for line in text.splitlines()[1:] if "<" not in line
    }


def test_context_knows_the_tools_before_anything_was_sent():
    assert "tools" in do(desk_of(), "/context")


def test_sizes_are_told_as_people_say_them():
    desk = desk_of(["Hello."])
    say(desk, "hi")
    assert size_line(desk.budget()).text.startswith("[Context: 2 messages, ~")
    assert [rough(size) for size in (5, 999, 1_000, 8_249, 12_000, 2_345_678)] == [
        "5",
        "999",
        "1K",
        "8.2K",
        "12K",
        "2.3M",
    ]


@pytest.mark.parametrize(
    ("used", "told"),
    [
        (5_999, None),
        (6_500, "  Context: 65% used"),
        (
            8_300,
            "  Context usage: 83% of window (8,300 / 10,000 tokens)\n  Auto-compaction will trigger to preserve conversation quality.",
        ),
    ],
)
def test_warnings_are_in_neurolinks_words(used, told):
    """NeuroLink, CLI Session Warnings."""
    budget = refold.measure([], window=10_000, policy="ripple", usage=used)
    word = warning(budget, compacts=True)
    assert (word.text if word else None) == told


def test_a_warning_says_what_to_do_where_nothing_is_folded_by_itself():
    budget = refold.measure([], window=10_000, policy="ripple", usage=8_300)
    assert "/compact folds now" in warning(budget, compacts=False).text


def test_compact_is_accepted():
    desk = filled()
    text = do(desk, "/compact")
    assert text.startswith("Compacted #2-#")
    assert "[Context: " in text
    assert len(desk.session.folds()) == 1
    assert desk.person.asked[-1][1] == ("accept", "edit", "revert")


@pytest.mark.parametrize("answer", ["revert", KeyboardInterrupt()])
def test_compact_is_reverted_to_the_very_state_before(answer):
    desk = filled(person=Somebody(answer))
    do(desk, "/checkpoint here")
    say(desk, "more")
    before, places = view_of(desk), dict(desk.session.state.view.checkpoints)
    assert "Reverted" in do(desk, "/compact truncate")
    assert view_of(desk) == before
    assert dict(desk.session.state.view.checkpoints) == places
    assert desk.session.folds() == []


def test_compact_is_edited():
    store = open_store("memory:")
    desk = filled(store=store, person=Somebody("edit", edits=lambda text: "ONLY THIS COUNTS\n" + text[:40]))
    whole = view_of(desk)
    assert "what you wrote" in do(desk, "/compact")
    seen = str(view_of(desk))
    assert "ONLY THIS COUNTS" in seen
    assert "Last words" not in seen
    again = desk_of(store=store, window=200_000)
    assert view_of(again) == view_of(desk)
    assert [fold.standing for fold in again.session.folds()] == [False, True]
    do(again, "/unfold")
    assert view_of(again) == whole


def test_an_edit_that_changes_nothing_leaves_the_fold():
    desk = filled(person=Somebody("edit", edits=lambda text: text))
    assert "stays as it is" in do(desk, "/compact")
    assert len(desk.session.folds()) == 1


def test_a_summary_of_a_model_is_edited_inside_its_frame():
    summary = "## Goal\nMend the harbour.\n## Next\nNothing."
    policy = "through-line-and-facts"
    desk = filled(policy=policy, ask=lambda _ask: summary, person=Somebody("edit", edits="Mended."))
    do(desk, "/compact")
    seen = str(view_of(desk))
    assert "Mended." in seen
    assert "Mend the harbour" not in seen


def test_compact_lists_the_strategies():
    text = do(desk_of(), "/compact help")
    assert "through-line-and-facts – Summarize segment" in text
    assert "truncate – Replace segment" in text
    assert "Usage: /compact [strategyId]" in text


def test_compact_with_nothing_to_do_says_so():
    assert do(desk_of(), "/compact") == "nothing was said yet: there is nothing to compact"
    assert "did you mean truncate?" in do(filled(1), "/compact trunkate")


def test_a_second_compact_has_nothing_new():
    """To fold again what was just folded halves the view and helps nobody; a strategy by name may."""
    desk = filled()
    do(desk, "/compact")
    seen, name = view_of(desk), desk.session.folds()[0].name.removeprefix("b2:")[:8]
    told = f"there is nothing new to compact: nothing was said since fold {name};"
    assert do(desk, "/compact").startswith(told)
    assert do(desk, "/plan").startswith(told)
    assert view_of(desk) == seen
    assert "Compacted" in do(desk, "/compact refold")
    do(desk, "/unfold")
    do(desk, "/unfold")
    assert "Compacted" in do(desk, "/compact")
    say(desk, "something new about the harbour, at length: " + LONG)
    assert "Compacted" in do(desk, "/compact")


def test_what_has_to_stay_is_told_in_a_few_words():
    desk = desk_of()
    say(desk, "hi")
    assert do(desk, "/compact") == "nothing was folded: what is in view has to stay"
    assert do(desk, "/plan") == "Nothing would change: what is in view has to stay"


def test_compact_by_strategy():
    desk = filled()
    do(desk, "/compact truncate")
    assert "(Earlier conversation omitted" in str(view_of(desk))


def test_a_cancelled_compaction_changes_nothing():
    def ask(_question):
        raise KeyboardInterrupt

    desk = filled(ask=ask)
    head = desk.store.head("talk")
    assert "cancelled" in do(desk, "/compact through-line-and-facts")
    assert desk.store.head("talk") == head


def test_unfold_brings_everything_back():
    desk = filled()
    whole = view_of(desk)
    assert "nothing to undo" in do(desk, "/unfold")
    do(desk, "/compact")
    name = desk.session.folds()[0].name.removeprefix("b2:")[:8]
    assert f"unfolded {name} (#2-#" in do(desk, f"/unfold {name}")
    assert view_of(desk) == whole
    assert "already" in do(desk, f"/unfold {name}")
    assert "/folds" in do(desk, "/unfold nonsense")


def test_unfolding_what_does_not_fit_says_that_it_will_be_folded_again():
    desk = filled(4, window=1_500)
    assert desk.session.folds()
    assert "fold again" in do(desk, "/unfold")


def test_folds_are_listed():
    desk = filled()
    assert do(desk, "/folds") == "nothing is folded"
    do(desk, "/compact")
    assert "stands" in do(desk, "/folds")
    do(desk, "/unfold")
    assert "unfolded" in do(desk, "/folds")


def test_recall_finds_what_was_folded():
    desk = filled()
    do(desk, "/compact")
    assert "folded" in do(desk, "/recall fox")
    assert "question 0 about the harbour" in do(desk, "/recall #1-#2")
    assert do(desk, "/recall xylophone") == "nothing was found"
    assert "say what to look for" in do(desk, "/recall")


def test_plan_changes_nothing():
    desk = filled()
    before = desk.store.head("talk")
    text = do(desk, "/plan")
    assert "leaves by" in text
    assert "costs no question" in text
    assert desk.store.head("talk") == before
    assert "nothing was said yet" in do(desk_of(), "/plan")
    assert "there is no policy" in do(desk, "/plan nonsense")


def test_pins_stay():
    desk = filled()
    assert "#3 stays" in do(desk, "/pin #3")
    do(desk, "/compact truncate")
    assert "question 1" in str(view_of(desk))
    assert "may be folded again" in do(desk, "/unpin #3")
    assert "no message" in do(desk, "/pin #99")


def test_checkpoint_and_rewind():
    desk = filled(2)
    assert do(desk, "/checkpoint here").startswith(
        "Checkpoint set: here. Future /compact will condense from here to end of current thread."
    )
    whole = view_of(desk)
    say(desk, "a wrong way")
    text = do(desk, "/rewind here")
    assert "stands behind #4 now, before it was #6" in text
    assert view_of(desk) == whole
    back = next(word for word in text.split() if word.startswith("b2:"))
    do(desk, f"/rewind {back}")
    assert len(view_of(desk)) == 6
    assert "a checkpoint (here)" in do(desk, "/rewind")
    assert "no handle" in do(desk, "/rewind nowhere")


def test_model_tells_and_changes_whom_one_talks_to():
    desk = filled(1)
    assert do(desk, "/model") == "scripted: window 200K (given), openai, tools"
    old = desk.talker
    assert do(desk, "/model other").startswith("other: ")
    assert old.closed
    assert desk.session.model == "other"
    say(desk, "who are you?")
    assert len(view_of(desk)) == 4


def test_a_model_that_cannot_be_opened_changes_nothing():
    desk = filled(1)
    old, session = desk.talker, desk.session

    def refuse(_address):
        raise refold.RefoldError("there is no such model")

    object.__setattr__(desk.setting, "talker", refuse)
    assert do(desk, "/model other") == "there is no such model"
    assert (desk.talker, desk.session) == (old, session)
    assert not old.closed


def test_cost_tells_tokens():
    desk = filled(2)
    text = do(desk, "/cost")
    assert "requests  2" in text
    assert "folds  0" in text


def test_cost_says_so_where_no_usage_is_reported():
    """A server that does not count has not read nothing."""

    def play(talker, sent):
        reply = talker.reply(sent, "Hello.")
        yield replace(reply, usage=None, response={**reply.response, "usage": None})

    desk = desk_of([play])
    assert "read  0  tokens" in do(desk, "/cost")
    say(desk, "hi")
    text = do(desk, "/cost")
    assert "read  not reported" in text
    assert "written  not reported" in text
    assert " 0  tokens" not in text


def test_to_rewind_to_where_one_is_changes_nothing():
    desk = filled(2)
    assert do(desk, "/rewind #4") == "stands behind #4, as before"


def test_sessions_are_listed_and_resumed():
    desk = filled(1)
    assert "session other begins" in do(desk, "/resume other")
    say(desk, "hi")
    text = do(desk, "/sessions")
    assert "talk" in text
    assert "other ◂" in text
    assert "session talk goes on: 2 messages, 0 folds" in do(desk, "/resume talk")
    assert "say which one" in do(desk, "/resume")


def test_a_session_is_exported(tmp_path):
    desk = filled(1)
    assert "2 messages written to" in do(desk, f"/export {tmp_path / 'out'}")
    assert (tmp_path / "out" / "messages.jsonl").exists()
