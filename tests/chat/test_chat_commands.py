"""The slash commands: what each shows and does, and what a typo is told."""

import json
import re
from dataclasses import replace
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest
from chat_builders import ScriptedUser, do, make_conversation, say

import refold
from refold import presets
from refold.chat import commands, commands_show, tools
from refold.chat.commands import COMMANDS, Leave, Retry
from refold.chat.display import context_line, context_warning, format_tokens
from refold.core.models.prices import Spent
from refold.session.state.accounting import SpendingTotals
from refold.stores import open_store

SUMMARY = (
    "The user asked several questions about the harbour, numbered from 0 on. Each answer told of the quick brown fox"
    " that jumps over the lazy dog, and nothing was decided. The next question about the harbour is open."
)
LONG = "the quick brown fox jumps over the lazy dog " * 20


def filled(turns=6, **more):
    """A chat at which something was said."""
    chat = make_conversation([LONG], **{"window": 200_000, **more})
    for number in range(turns):
        say(chat, f"question {number} about the harbour")
    return chat


def view_of(chat):
    return chat.session.view()


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("/contxt", "there is no command /contxt; did you mean /context?"),
        ("/xyzzy", "there is no command /xyzzy; /help lists them"),
    ],
)
def test_a_typo_is_one_line_with_a_hint(line, told):
    assert do(make_conversation(), line) == told


def test_a_path_is_no_command_and_two_slashes_say_one():
    assert not commands.is_command("/usr/bin/env is a path")
    assert not commands.is_command("//help")
    assert commands.is_command("/ ")  # a slip, and no words for a model
    assert commands.unescape_line("//help") == "/help"
    assert commands.unescape_line("help") == "help"


def test_help_lists_every_command():
    text = do(make_conversation(), "/help")
    assert all(f"/{name}" in text for name in COMMANDS)
    assert do(make_conversation(), "/?") == text


def test_quit_and_retry_are_left_to_who_runs_the_chat():
    for line, error in (("/quit", Leave), ("/exit", Leave), ("/retry", Retry)):
        with pytest.raises(error):
            do(make_conversation(), line)


def test_context_tells_the_size_in_umweltens_words_and_its_parts():
    chat = filled(2)
    text = do(chat, "/context")
    assert text.startswith("[Context: 4 messages, ~")
    assert {"system", "history", "tools", "room", "compacts"} <= {
        line.split()[0] for line in text.splitlines()[1:] if "<" not in line
    }


def with_history(words, *, endpoint="anthropic", **options):
    """A chat with a model that has a price, at an endpoint that may send a bill, and a long history."""
    chat = make_conversation(window=200_000, model="claude-sonnet-4-5", **options)
    chat.session.use(endpoint=endpoint)
    chat.session.say([{"role": "user", "content": "word " * words}, {"role": "assistant", "content": "so"}])
    return chat


@pytest.mark.parametrize("endpoint", ["anthropic", "https://api.anthropic.com"])
def test_context_and_meter_tell_what_thrifty_would_save(endpoint):
    chat = with_history(110_000, endpoint=endpoint)
    assert "thrifty would fold now and save about $0." in do(chat, "/context")
    assert re.search(r" · thrifty would save \$0\.\d\d$", commands_show.status_text(chat))


@pytest.mark.parametrize(
    ("words", "endpoint"), [(10_000, "anthropic"), (110_000, "http://127.0.0.1:8080/v1")]
)
def test_nothing_is_told_of_thrifty_without_a_price_or_something_to_save(words, endpoint):
    chat = with_history(words, endpoint=endpoint)
    assert "thrifty" not in do(chat, "/context") + commands_show.status_text(chat)


def test_the_meter_tells_no_saving_below_a_cent():
    chat = with_history(60_000, ask=lambda _: "short")
    assert "thrifty would fold now and pay for itself after" in do(chat, "/context")
    assert "thrifty" not in commands_show.status_text(chat)


@pytest.mark.parametrize("policy", ["refold", "thrifty", "opal"])
def test_the_chat_counts_as_measure_does(policy):
    """One trigger and one size, also where the provider has reported its count."""
    chat = make_conversation(["Hello."], window=200_000, model="claude-sonnet-4-5", policy=policy)
    say(chat, "word " * 300)
    chat.session.say("And now?")
    sent, report = chat.session.state.request, chat.session.state.accounting.report
    measured = refold.measure(
        chat.session.view(),
        model="claude-sonnet-4-5",
        window=200_000,
        system=sent.system,
        tools=sent.tools,
        policy=policy,
        usage=report.usage,
    )
    budget = chat.budget()
    assert budget.count_source == "usage+estimate"
    assert (budget.used, budget.trigger_tokens) == (measured.used, measured.trigger_tokens)


def test_context_knows_the_tools_before_anything_was_sent():
    assert "tools" in do(make_conversation(), "/context")


def test_sizes_are_told_as_people_say_them():
    chat = make_conversation(["Hello."])
    say(chat, "hi")
    assert context_line(chat.budget()).text.startswith("[Context: 2 messages, ~")
    assert [format_tokens(size) for size in (5, 999, 1_000, 8_249, 12_000, 2_345_678)] == [
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
        (6_500, "  Context: 65% of the room used"),
        (
            8_300,
            "  Context usage: 83% of the room (8,300 / 10,000 tokens)\n  Auto-compaction will trigger to preserve conversation quality.",
        ),
    ],
)
def test_warnings_are_in_neurolinks_words(used, told):
    """NeuroLink, CLI Session Warnings."""
    budget = refold.measure([], window=10_000, policy="ripple", usage=used)
    word = context_warning(budget, compacts=True)
    assert (word.text if word else None) == told


def test_a_warning_says_what_to_do_where_nothing_is_folded_by_itself():
    budget = refold.measure([], window=10_000, policy="ripple", usage=8_300)
    assert "/compact folds now" in context_warning(budget, compacts=False).text


def test_compact_is_accepted():
    chat = filled()
    text = do(chat, "/compact")
    assert text.startswith("Compacted #2-#")
    assert "[Context: " in text
    assert len(chat.session.folds()) == 1
    assert chat.ui.asked[-1][1] == ("accept", "edit", "revert")


def test_compact_tells_why_the_context_may_be_larger_than_before():
    """The tool `recall` comes with the first fold, and a small fold may save less than that."""
    chat = make_conversation(["It is " + "moored well. " * 8], window=200_000, tools=True)
    say(chat, "How do we moor the ship?")
    say(chat, "And the next one?")
    assert "recall" not in str(chat.session.state.request.tools)
    text = do(chat, "/compact truncate")
    sizes = re.search(r": ([\d,]+) → ([\d,]+) tokens, ([\d,]+) of them for the tool recall", text)
    before, after, added = (int(number.replace(",", "")) for number in sizes.groups())
    assert "recall" in str(chat.session.state.request.tools)
    assert after - added < before <= after
    assert "for the tool recall" not in do(filled(tools=True), "/compact truncate")


@pytest.mark.parametrize("answer", ["revert", KeyboardInterrupt()])
def test_compact_is_reverted_to_the_very_state_before(answer):
    chat = filled(ui=ScriptedUser(answer))
    do(chat, "/checkpoint here")
    say(chat, "more")
    before, places = view_of(chat), dict(chat.session.state.view.checkpoints)
    assert "Reverted" in do(chat, "/compact truncate")
    assert view_of(chat) == before
    assert dict(chat.session.state.view.checkpoints) == places
    assert chat.session.folds() == []


def test_compact_is_edited():
    store = open_store("memory:")
    chat = filled(store=store, ui=ScriptedUser("edit", edits=lambda text: "ONLY THIS COUNTS\n" + text[:40]))
    whole = view_of(chat)
    assert "what you wrote" in do(chat, "/compact")
    seen = str(view_of(chat))
    assert "ONLY THIS COUNTS" in seen
    assert "Last words" not in seen
    again = make_conversation(store=store, window=200_000)
    assert view_of(again) == view_of(chat)
    assert [fold.standing for fold in again.session.folds()] == [False, True]
    do(again, "/unfold")
    assert view_of(again) == whole


def test_an_edit_that_changes_nothing_leaves_the_fold():
    chat = filled(ui=ScriptedUser("edit", edits=lambda text: text))
    assert "stays as it is" in do(chat, "/compact")
    assert len(chat.session.folds()) == 1


def test_a_summary_of_a_model_is_edited_inside_its_frame():
    summary = "## Goal\nMend the harbour.\n## Next\nNothing."
    policy = "through-line-and-facts"
    chat = filled(policy=policy, ask=lambda _ask: summary, ui=ScriptedUser("edit", edits="Mended."))
    do(chat, "/compact")
    seen = str(view_of(chat))
    assert "Mended." in seen
    assert "Mend the harbour" not in seen


def test_an_edit_that_is_given_up_asks_again():
    """Ctrl-C in the editor keeps nothing: the question is still open, and may be answered otherwise."""
    user = ScriptedUser("edit", "edit", "revert", edits=[None, KeyboardInterrupt()])
    chat = filled(ui=user)
    before = view_of(chat)
    assert "Reverted" in do(chat, "/compact")
    assert len(user.asked) == 3
    assert view_of(chat) == before
    assert chat.session.folds() == []


@pytest.mark.parametrize("line", ["what is left?", "/quit", "edit the harbour plan", "// a path"])
def test_another_line_accepts_the_fold_and_is_done_next(line):
    chat = filled(ui=ScriptedUser(line))
    do(chat, "/compact")
    assert chat.next_line == line
    (fold,) = chat.session.folds()
    assert fold.standing


def test_edit_is_a_line_as_any_other_where_no_summary_is_offered():
    words = " ".join(f"lorem{number} ipsum dolor sit amet" for number in range(120))
    chat = make_conversation([words], window=4_000, ui=ScriptedUser("edit", edits="my own summary"))
    for number in range(4):
        say(chat, f"tell me about berth {number}")
    assert "what you wrote" not in do(chat, "/compact")
    assert chat.ui.asked == [("accept or revert?", ("accept", "revert"))]
    assert "my own summary" not in str(view_of(chat))
    assert chat.next_line == "edit"
    assert chat.session.folds()[-1].standing


def test_a_fold_of_a_fold_counts_every_message_it_stands_for():
    chat = filled(3)
    assert "Compacted #1-#6 (6 messages) into 1 message:" in do(chat, "/compact truncate")
    say(chat, "one more question about the harbour")
    assert "Compacted #1-#8 (8 messages) into 1 message:" in do(chat, "/compact truncate")


@pytest.mark.parametrize("policy", ["refold", "ripple", "umwelten"])
def test_both_lines_after_a_fold_give_one_size(policy):
    chat = filled(policy=policy, ask=lambda _: SUMMARY)
    used = chat.budget().used
    text = do(chat, "/compact")
    before, after = re.search(r": ([\d,]+) → ([\d,]+) tokens\.", text).groups()
    assert int(before.replace(",", "")) == used
    assert f"~{format_tokens(int(after.replace(',', '')))} tokens, " in text


@pytest.mark.parametrize(
    ("policy", "name"), [("umwelten", "through-line-and-facts"), ("opal", "opal"), ("refold", "refold")]
)
def test_the_default_strategy_has_a_name_of_the_list(policy, name):
    text = do(make_conversation(policy=policy), "/compact help")
    assert text.endswith(f"(default: {name})")
    assert f"  {name} – " in text


def test_compact_lists_the_strategies():
    text = do(make_conversation(), "/compact help")
    assert "through-line-and-facts – Summarize segment" in text
    assert "truncate – Replace segment" in text
    assert "thrifty – the default with at most 48,000 tokens of history" in text
    assert "opal – one structured summary that is updated each time, a split turn told in two" in text
    assert "Usage: /compact [strategyId]" in text


def test_compact_with_nothing_to_do_says_so():
    assert do(make_conversation(), "/compact") == "nothing was said yet: there is nothing to compact"
    assert "did you mean truncate?" in do(filled(1), "/compact trunkate")


def test_a_second_compact_has_nothing_new():
    """To fold again what was just folded halves the view and helps nobody; a strategy by name may."""
    chat = filled()
    do(chat, "/compact")
    seen, name = view_of(chat), chat.session.folds()[0].name.removeprefix("b2:")[:8]
    told = f"there is nothing new to compact: nothing was said since fold {name};"
    assert do(chat, "/compact").startswith(told)
    assert do(chat, "/plan").startswith(told)
    assert view_of(chat) == seen
    assert "Compacted" in do(chat, "/compact refold")
    do(chat, "/unfold")
    do(chat, "/unfold")
    assert "Compacted" in do(chat, "/compact")
    say(chat, "something new about the harbour, at length: " + LONG)
    assert "Compacted" in do(chat, "/compact")


@pytest.mark.parametrize("has_summariser", [False, True])
@pytest.mark.parametrize("policy", ["refold", "thrifty", "opal", "truncate"])
def test_a_word_is_too_little_to_fold(policy, has_summariser):
    chat = make_conversation(policy=policy, ask=(lambda _: SUMMARY) if has_summariser else None)
    say(chat, "Hi.")
    said = tools.measure_now(chat).breakdown.history
    assert do(chat, "/compact") == f"nothing was folded: there is too little to fold yet ({said} tokens)"
    assert do(chat, "/plan") == f"Nothing would change: there is too little to fold yet ({said} tokens)"


def test_the_lines_of_the_first_steps_fold_and_the_page_says_what_to_do_if_not():
    page = (Path(__file__).parents[2] / "docs" / "start" / "chat.md").read_text(encoding="utf-8")
    chat = make_conversation(
        ["It is a place, or a thing, that many people know and like. " * 2], window=2_000
    )
    for line in re.findall(r"^› ([^/].*)", page, re.MULTILINE):
        say(chat, line)
    assert do(chat, "/compact").startswith("Compacted #2-#6 (4 messages) into 1 message")
    assert "`there is too little to fold yet`? Then" in page
    assert re.search(r"#3 +user +folded +The code of the door is 4711", do(chat, "/recall 4711"))


def test_too_little_is_not_the_reason_where_pins_keep_everything():
    chat = filled(2, policy="opal")
    for number in range(1, 5):
        do(chat, f"/pin #{number}")
    told = do(chat, "/compact")
    assert told.startswith("nothing was folded: ")
    assert "too little" not in told


@pytest.mark.parametrize("strategy", ["truncate", "through-line-and-facts"])
def test_a_checkpoint_at_the_end_is_the_reason_where_nothing_stands_behind_it(strategy):
    chat = filled(6, ask=lambda _: SUMMARY)
    do(chat, "/checkpoint here")
    why = "no whole answer came since the checkpoint; /compact refold takes what is older, too"
    assert do(chat, f"/compact {strategy}") == f"nothing was folded: {why}"
    assert do(chat, f"/plan {strategy}") == f"Nothing would change: {why}"


def test_a_policy_that_needs_a_summariser_says_who_is_missing():
    chat = filled(6, policy="ripple", ask=None)
    told = do(chat, "/compact")
    assert told == "nothing was folded: summarize: no summariser was named (--ask names one)"


@pytest.mark.parametrize("policy", ["codebuddy", "umwelten"])
def test_the_reason_why_nothing_was_folded_is_told_as_the_library_gives_it(policy):
    chat = filled(1, policy=policy, ask=lambda _: "a summary longer than the talk " * 99)
    why = chat.session.compact().reason.removeprefix("nothing to compact: ")
    assert do(chat, "/compact") == f"nothing was folded: {why}"
    assert why == chat.session.log(kinds=["attempt"])[-1].value["reason"].removeprefix("nothing to compact: ")


def test_a_summary_that_saves_nothing_is_told_as_the_reason():
    chat = filled(1, policy="umwelten", ask=lambda _: "a summary longer than the talk " * 99)
    assert "through-line-and-facts: the summary was not smaller: " in do(chat, "/compact")


def test_a_plan_that_changes_nothing_has_its_reason():
    chat = make_conversation(policy="ripple", ask=lambda _: "short")
    say(chat, "hi")
    assert do(chat, "/plan") == "Nothing would change: there is too little to fold yet (3 tokens)"


def test_a_plan_begins_at_the_checkpoint_where_the_fold_does():
    chat = filled(3, policy="umwelten", ask=lambda _: SUMMARY)
    do(chat, "/checkpoint here")
    say(chat, "one more question about the harbour")
    assert re.search(r"leaves by summarize +2 messages", do(chat, "/plan"))
    assert "Compacted #7-#8 (2 messages)" in do(chat, "/compact")


def out_of_order(_question):
    raise RuntimeError("out of order")


def test_compact_with_a_broken_model_says_so_and_keeps_everything():
    chat = filled(ask=out_of_order)
    before = view_of(chat)
    told = do(chat, "/compact")
    assert told == "nothing was folded: summarize: the model failed: RuntimeError: out of order"
    assert view_of(chat) == before


def test_compact_with_a_broken_model_and_a_full_window_says_that_no_model_wrote_the_summary():
    chat = filled(ask=out_of_order)
    chat.session.use(window=1_500)
    told = do(chat, "/compact")
    assert "Compacted" in told
    assert "without a summary by the model: the model failed: RuntimeError: out of order" in told


def test_compact_by_strategy():
    chat = filled()
    do(chat, "/compact truncate")
    assert "(Earlier conversation omitted" in str(view_of(chat))


def test_a_cancelled_compaction_changes_nothing():
    def ask(_question):
        raise KeyboardInterrupt

    chat = filled(ask=ask)
    before = view_of(chat)
    assert "cancelled" in do(chat, "/compact through-line-and-facts")
    assert view_of(chat) == before
    assert [entry.kind for entry in chat.session.log()][-1] == "attempt"


def test_unfold_brings_everything_back():
    chat = filled()
    whole = view_of(chat)
    assert "nothing to undo" in do(chat, "/unfold")
    do(chat, "/compact")
    name = chat.session.folds()[0].name.removeprefix("b2:")[:8]
    assert f"unfolded {name} (#2-#" in do(chat, f"/unfold {name}")
    assert view_of(chat) == whole
    assert "already" in do(chat, f"/unfold {name}")
    assert "/folds" in do(chat, "/unfold nonsense")


def test_unfolding_what_does_not_fit_says_that_it_will_be_folded_again():
    chat = filled(4, window=1_500)
    assert chat.session.folds()
    assert "fold again" in do(chat, "/unfold")


def test_folds_are_listed():
    chat = filled()
    assert do(chat, "/folds") == "nothing is folded"
    do(chat, "/compact")
    assert "stands" in do(chat, "/folds")
    do(chat, "/unfold")
    assert "unfolded" in do(chat, "/folds")


def test_recall_finds_what_was_folded():
    chat = filled()
    do(chat, "/compact")
    assert "folded" in do(chat, "/recall fox")
    assert "question 0 about the harbour" in do(chat, "/recall #1-#2")
    assert do(chat, "/recall xylophone") == "nothing was found"
    assert "say what to look for" in do(chat, "/recall")


def test_what_stands_on_a_branch_that_was_left_is_listed_by_a_short_name():
    """The line below the list reads it, by its number on its own branch; another such word is looked for."""
    chat = make_conversation(["the quick brown fox"], window=200_000)
    for number in range(3):
        say(chat, f"question {number} about the harbour, deadbeef{number}")
    do(chat, "/rewind #4")
    listed = do(chat, "/recall question 2")
    name, how = (
        re.search(r"^([0-9a-f]{8})  user  on another branch  question 2 about", listed)[1],
        listed[-40:],
    )
    assert how.endswith(f"/recall {name} shows all of it")
    shown = "#5 user: question 2 about the harbour, deadbeef2"
    [hit] = [hit for hit in chat.session.recall("question 2") if name in hit.handle]
    assert do(chat, f"/recall {name}") == do(chat, f"/recall {hit.handle}") == shown
    assert "on another branch  question 2" in do(chat, "/recall deadbeef2")
    assert do(chat, "/recall 00000000") == "nothing was found"


def test_a_plan_and_the_context_count_alike():
    """Also where the provider has reported another number than the estimate."""
    chat = filled()
    session = chat.session
    session.prepare()
    session.observe({"usage": {"prompt_tokens": session.budget().used * 2, "completion_tokens": 5}})
    used = tools.measure_now(chat).used
    assert f"{used:,} → " in do(chat, "/plan truncate")


def test_plan_changes_nothing():
    chat = filled()
    before = chat.store.head("talk")
    text = do(chat, "/plan")
    assert "leaves by" in text
    assert "costs no question" in text
    assert chat.store.head("talk") == before
    assert "nothing was said yet" in do(make_conversation(), "/plan")
    assert "there is no policy" in do(chat, "/plan nonsense")


def test_pins_stay():
    chat = filled()
    assert "#3 stays" in do(chat, "/pin #3")
    do(chat, "/compact truncate")
    assert "question 1" in str(view_of(chat))
    assert "may be folded again" in do(chat, "/unpin #3")
    assert "no message" in do(chat, "/pin #99")


def test_a_fold_that_stands_again_after_a_step_back_is_told():
    chat = filled()
    do(chat, "/compact truncate")
    do(chat, "/checkpoint folded")
    do(chat, "/unfold")
    text = do(chat, "/rewind folded")
    undo = text.split("which was undone, stands again: ")[1].split(" undoes it")[0]
    assert "unfolded" in do(chat, undo).lower()
    assert "stands again" not in do(chat, "/rewind #2")


def test_checkpoint_and_rewind():
    chat = filled(2)
    assert "'start' names a message, an entry, the start or nothing" in do(chat, "/checkpoint start")
    assert do(chat, "/checkpoint here").startswith("Checkpoint set: here. ")
    whole = view_of(chat)
    say(chat, "a wrong way")
    text = do(chat, "/rewind here")
    assert "stands behind #4 now, before it was #6" in text
    assert view_of(chat) == whole
    back = text.split("/rewind ")[1].split()[0]
    do(chat, f"/rewind {back}")
    assert len(view_of(chat)) == 6
    assert "a checkpoint (here)" in do(chat, "/rewind")
    assert "'nowhere' is no checkpoint of this session, which has 'here';" in do(chat, "/rewind nowhere")
    do(chat, "/rewind #2")
    assert "a checkpoint (here)" in do(chat, "/rewind")
    assert "stands behind #4 now, before it was #2" in do(chat, "/rewind here")


PROMISE = "Future /compact will condense from here to end of current thread."


@pytest.mark.few_values(3)
@pytest.mark.parametrize("policy", [*presets.PRESETS, "truncate"])
def test_a_checkpoint_promises_what_compact_does(policy):
    promised = policy in ("umwelten", "truncate")
    chat = filled(6, policy=policy, window=8_192, ask=lambda _: SUMMARY)
    told = do(chat, "/checkpoint here")
    assert (PROMISE in told) == promised
    for number in range(6):
        say(chat, f"new question {number} about the harbour")
    segment = chat.session.segment()
    if promised:
        assert (segment.start, segment.end) == (12, 24)
    else:
        assert f"/compact by {policy} takes older messages too" in told
        assert segment is None or segment.start < 12
        thread = chat.session.segment("through-line-and-facts")
        assert (thread.start, thread.end) == (12, 24)


def test_model_tells_and_changes_whom_one_talks_to():
    chat = filled(1)
    assert do(chat, "/model") == "scripted: window 200K (given), openai, tools"
    old = chat.client
    assert do(chat, "/model other").startswith("other: ")
    assert old.closed
    assert chat.session.model == "other"
    say(chat, "who are you?")
    assert len(view_of(chat)) == 4


def test_a_model_that_cannot_be_opened_changes_nothing():
    chat = filled(1)
    old, session = chat.client, chat.session

    def refuse(_address):
        raise refold.RefoldError("there is no such model")

    object.__setattr__(chat.settings, "open_client", refuse)
    assert do(chat, "/model other") == "there is no such model"
    assert (chat.client, chat.session) == (old, session)
    assert not old.closed


def test_cost_tells_tokens():
    chat = filled(2)
    text = do(chat, "/cost")
    assert "requests  2" in text
    assert "folds  0" in text


def test_cost_says_how_many_requests_have_no_price():
    """A session of a provider goes on with an own server: what it cost is not the price of all."""
    chat = filled(2)
    assert "spent  no price known  2 requests" in do(chat, "/cost")
    own = Spent(calls=3, dollars=1.5, unpriced=2)
    chat.session.state.accounting.replace_spending(SpendingTotals(own=own))
    assert "spent  $1.5000  3 requests, 2 of them without a price" in do(chat, "/cost")


def test_cost_says_so_where_no_usage_is_reported():
    """A server that does not count has not read nothing."""

    def play(client, sent):
        reply = client.reply(sent, "Hello.")
        yield replace(reply, usage=None, response={**reply.response, "usage": None})

    chat = make_conversation([play])
    assert "read  0  tokens" in do(chat, "/cost")
    say(chat, "hi")
    text = do(chat, "/cost")
    assert "read  not reported" in text
    assert "written  not reported" in text
    assert " 0  tokens" not in text


def test_to_rewind_to_where_one_is_changes_nothing():
    chat = filled(2)
    assert do(chat, "/rewind #4") == "stands behind #4, as before"


def test_sessions_are_listed_and_resumed():
    chat = filled(1)
    assert "session other begins" in do(chat, "/resume other")
    say(chat, "hi")
    text = do(chat, "/sessions")
    assert "talk" in text
    assert "other ◂" in text
    text = do(chat, "/resume talk")
    assert "session talk goes on: 2 messages, 0 folds" in text
    assert "say which one" in do(chat, "/resume")


def test_a_session_is_exported(tmp_path):
    chat = filled(1)
    assert "2 messages written to" in do(chat, f"/export {tmp_path / 'out'}")
    assert (tmp_path / "out" / "messages.jsonl").exists()


def test_a_continued_session_shows_its_last_turns_folded_or_not():
    chat = make_conversation(["one\ntwo", "\n".join(map(str, range(20))), "last"], policy="truncate")
    for words in ("first question", "second question", "third question"):
        say(chat, words)
    size = context_line(tools.measure_now(chat)).text
    do(chat, "/compact")
    folded = context_line(tools.measure_now(chat)).text
    do(chat, "/resume other")
    text = do(chat, "/resume talk")
    assert "first question" not in text
    assert "› second question\n0\n1\n2\n" in text
    assert "7\n[and 12 more lines]\n› third question\nlast\n" in text
    assert text.endswith(folded)
    do(chat, "/unfold")
    do(chat, "/resume other")
    assert do(chat, "/resume talk").endswith(size)


def test_web_shows_this_session_in_a_page_that_ends_with_the_chat(tmp_path, monkeypatch):
    """The page has the store of the chat, also one in memory; a second call opens the same page."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER"):
        monkeypatch.delenv(name, raising=False)
    chat = filled(1)
    address = do(chat, "/web")
    assert address.endswith("#/s/talk")
    assert do(chat, "/web").endswith(address)
    origin, _, token = address.partition("#")[0].partition("/inspect?token=")
    cookie = f"refold-inspect-{origin.rpartition(':')[2]}={token}"
    request = Request(f"{origin}/inspect/api/sessions/talk", headers={"Cookie": cookie})
    with urlopen(request) as reply:
        assert json.load(reply)["said"] == 2
    chat.close()
    with pytest.raises(URLError):
        urlopen(request)


def test_an_open_breaker_stands_in_the_meter_and_in_context():
    chat = make_conversation(["y" * 80], policy="ripple", window=2_000, ask=lambda _: 1 / 0, tools=False)
    assert "until" not in commands_show.status_text(chat)
    while not chat.explained.breaker:
        say(chat, "x" * 80)
    until = chat.paused_until
    assert commands_show.status_text(chat).startswith(f"no folds until {until} · ")
    text = do(chat, "/context")
    assert re.search(rf"compacts +at [\d,]+ tokens, not before {until}\n", text)
    assert f"Auto-compaction pauses until {until}: /compact folds now." in text
