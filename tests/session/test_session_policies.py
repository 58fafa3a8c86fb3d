"""The cases of the systems' documents that need a session; each test names its document."""

import json

import pytest
from talks import SUMMARY, dumped, kinds, opened, reply, sound, stored, talk, usage, user

import refold
from refold import Message, formats
from refold.errors import Overflow, RefoldError
from refold.testing import Scripted

OVER = "This model's maximum context length is 8000 tokens. However, your messages resulted in 9000 tokens."


def small(turns=10):
    return talk(turns, size=240, last=False)


# ----------------------------------------------------------------------------------------------------- Ripple


class TestRipple:
    def test_part_files_and_the_pointer_to_their_folder(self, tmp_path):
        """Ripple, case 6 and "Originals are preserved": one part for each round, the summary names the folder."""
        with opened(policy="ripple", window=2_000, ask=Scripted("CONDENSED")) as session:
            history = small(18)
            assert session.prepare(history).fold
            history += small(18)
            assert session.prepare(history).fold
            files = session.export(str(tmp_path / "out"))
            assert files == ["history/part-1.jsonl", "history/part-2.jsonl", "messages.jsonl", "refold.json"]
            parts = [
                json.loads(line)
                for number in (1, 2)
                for line in (tmp_path / "out" / "history" / f"part-{number}.jsonl").read_text().splitlines()
            ]
            assert all(message in history for message in parts)  # none is a summary or an acknowledgement
            live = [
                json.loads(line) for line in (tmp_path / "out" / "messages.jsonl").read_text().splitlines()
            ]
            assert "history/" in dumped(live[0])
            assert [*parts, *live[2:]] == history
            assert live[-1] == history[-1]

    @pytest.mark.each_value
    @pytest.mark.parametrize("wire", ["openai", "anthropic", "gemini", "responses"])
    @pytest.mark.parametrize("how", ["say", "prepare", "reopened", "edited"])
    def test_a_said_text_that_begins_like_a_summary_is_a_user_turn(self, tmp_path, wire, how):
        """The log knows what is a summary, so that a user may quote one, also with the words that accept it."""
        quoted = "This conversation continues an earlier one whose older messages were summarised: we ship on Friday."
        said = [
            Message("user", quoted),
            Message("assistant", "Understood. I'll continue from the summary above."),
            *(Message(("user", "assistant")[n % 2], f"{n} ".ljust(300, "x")) for n in range(12)),
        ]
        items = formats.get(wire).render(said)
        asked = []
        choices = {
            "policy": "ripple",
            "window": 4_000,
            "store": f"sqlite:{tmp_path}/s.db",
            "format": wire,
            "ask": lambda prompt: asked.append(str(prompt)) or "THE SUMMARY",
        }
        session = refold.open("s", **choices)
        if how == "edited":
            session.prepare(formats.get(wire).render([said[0], Message("assistant", "no")]))
        if how in ("prepare", "edited"):
            session.prepare(items)
        else:
            for item in items:
                session.say(item)
        if how == "reopened":
            session = refold.open("s", **choices)
        assert session.compact().compacted
        assert f"User: {quoted}" in asked[0]
        assert "Assistant: Understood. I'll continue" in asked[0]
        assert "Earlier summary" not in asked[0]
        for item in items[2:]:
            session.say(item)
        session.compact()
        assert "Earlier summary: " in asked[1]

    @pytest.mark.parametrize("wire", ["openai", "refold"])
    def test_a_summary_that_a_program_says_stays_one(self, wire):
        """A system message that begins like a summary is no rule, and a value that is marked is taken as marked."""
        header = "[Conversation Summary — 9 earlier messages compacted]"
        first = Message("system", f"{header}\n\nWE SHIP", source="summarization", meta={"kind": "summary"})
        said = [Message(("user", "assistant")[n % 2], f"{n} ".ljust(300, "x")) for n in range(12)]
        asked = []
        session = refold.open(
            "s",
            policy="ripple",
            window=4_000,
            store="memory:",
            format=wire,
            ask=lambda prompt: asked.append(prompt) or "S",
        )
        session.prepare(formats.get(wire).render([first, *said]))
        assert session.compact().compacted
        assert f"Earlier summary: {header}\n\nWE SHIP" in asked[0]

    def test_one_event_a_compaction_saved_with_the_answer(self):
        """Ripple, case 20."""
        seen = []
        with opened(policy="ripple", window=2_000, ask=Scripted("CONDENSED")) as session:
            session.subscribe(seen.append)
            history = small(18)
            ready = session.prepare(history)
            session.prepare([*ready.messages, reply("final answer")])
            ends = [event for event in seen if event.kind == "compaction_end"]
            assert len(ends) == 1
            assert ends[0].tokens_after < ends[0].tokens_before
            view = session.view()
            assert "CONDENSED" in dumped(view[0])
            assert [message["role"] for message in view[:2]] == ["user", "assistant"]
            assert view[-1] == reply("final answer")

    def test_what_is_saved_is_what_the_outcome_says(self, tmp_path):
        """Ripple, case 21."""
        address = f"sqlite:{tmp_path / 'a.db'}"
        with opened(policy="ripple", store=address, ask=Scripted("CONDENSED")) as session:
            session.prepare(small())
            outcome = session.compact()
            assert outcome.compacted
        with opened(policy="ripple", store=address) as session:
            assert session.view() == outcome.messages

    def test_nothing_to_do_without_a_talk(self):
        """Ripple, case 22: a session in which nothing was said has nothing to compact."""
        model = Scripted("CONDENSED")
        with opened(policy="ripple", ask=model) as session:
            assert not session.compact().compacted
            assert not model.asked

    def test_the_first_words_of_a_restored_talk_are_the_users(self, tmp_path):
        """Ripple, case 25: a title comes from what was said, not from the summary; the log keeps it."""
        address = f"sqlite:{tmp_path / 'a.db'}"
        with opened(policy="ripple", store=address, window=2_000, ask=Scripted("CONDENSED")) as session:
            history = small(18)
            session.prepare(history)
        with opened(policy="ripple", store=address, window=2_000) as session:
            assert session.original(1) == [history[0]]
            assert "CONDENSED" in dumped(session.view()[0])


# -------------------------------------------------------------------------------------------------- CodeBuddy


class TestCodeBuddy:
    def test_a_disposed_service_refuses(self):
        """CodeBuddy, case 22: compact after dispose is an error; a new one works."""
        session = opened(policy="codebuddy", ask=Scripted(SUMMARY))
        session.prepare(small())
        session.close()
        with pytest.raises(RefoldError):
            session.compact()
        with opened(policy="codebuddy", ask=Scripted(SUMMARY)) as session:
            session.prepare(small())
            session.compact()

    def test_how_often_is_limited(self, clock):
        """CodeBuddy's rate limits: here the breaker's, two without a turn and six an hour."""
        model = Scripted(RuntimeError("dead"))
        policy = refold.presets.get("codebuddy", context_window=2_500)
        with opened(policy=policy, window=2_500, ask=model, now=clock) as session:
            history = [user("x" * 8_000), reply("y"), user("z")]
            for _ in range(20):
                session.prepare(history)
            attempts = session.log(kinds=("attempt", "fold"))
            assert sum(one.value.get("trigger") == "threshold" for one in attempts) <= 2


# ------------------------------------------------------------------------------------------------- NeuroLink


class TestNeuroLink:
    def test_a_refusal_for_size_is_no_retry(self):
        """NeuroLink, "Non-Retryable Error Handling" and "Post-Failure Compaction Passthrough": 0.7 of the room."""
        with opened(policy="neurolink", window=20_000) as session:
            history = talk(30, size=800)
            session.prepare(history)
            observed = session.observe(OVER.replace("8000", "16000").replace("9000", "18000"))
            assert observed.send_again
            assert observed.budget.breakdown.total <= 0.7 * observed.budget.room
            for error in ({"error": {"message": "bad request", "status": 400}}, RuntimeError("invalid key")):
                assert not session.observe(error)

    def test_events_of_a_talk_that_cannot_be_helped(self):
        """NeuroLink, case 29: a prompt over the window without a history: a typed error, nothing to send."""
        seen = []
        with opened(policy="neurolink", window=8_000) as session:
            session.subscribe(seen.append)
            ready = session.prepare([], prompt="word " * 20_000)
            assert not ready.outcome.fits
            assert not session.observe(OVER)
            assert seen[-1].kind == "overflow"
            assert not seen[-1].recovered
            with pytest.raises(Overflow):
                session.observe(OVER)

    def test_requests_that_are_sent_are_within_the_window(self):
        """NeuroLink, case 30."""
        for turns in (30, 60, 400):
            with opened(policy="neurolink", window=10_000) as session:
                ready = session.prepare(talk(turns, size=1_000))
                assert refold.measure(ready.messages, window=10_000, policy="neurolink").used <= 10_000

    def test_the_watermark_is_each_sessions_own(self, memory, clock):
        """NeuroLink, case 33: a compaction of one session does not suppress that of another."""
        made = []
        for name in ("A", "B"):
            session = opened(name, store=memory, policy="neurolink", now=clock, ask=Scripted(SUMMARY))
            made.append(session.prepare(talk(40, size=800)).fold)
        assert all(made)

    def test_tags_and_the_effective_history(self, tmp_path):
        """NeuroLink, case 25 and "Non-Destructive History": tagged messages are hidden, untagging restores them."""
        with opened(policy="neurolink", ask=Scripted(SUMMARY)) as session:
            history = talk(40, size=600)
            ready = session.prepare(history)
            session.export(str(tmp_path / "out"), form="neurolink")
            tagged = json.loads((tmp_path / "out" / "tagged.json").read_text())
            listed = tagged["messages"] if isinstance(tagged, dict) else tagged
            assert len(listed) >= len(history)
            session.unfold(ready.fold)
            assert session.view() == history

    def test_stored_sessions(self, memory):
        """NeuroLink, NEUROLINK_MEMORY_ENABLED: sessions are stored by name; a limit of their number is not set."""
        for name in ("a", "b", "c"):
            opened(name, store=memory).say("hi")
        assert {info.name for info in memory.sessions()} == {"a", "b", "c"}

    def test_the_notice_and_the_warning(self):
        """NeuroLink, the terminal loop: over 60 % a notice, from the threshold a warning; told once each."""
        seen = []
        with opened(policy=refold.presets.get("neurolink"), window=20_000) as session:
            session.subscribe(seen.append)
            history = []
            for turn in range(30):
                history += talk(1, size=1_000, last=False, start=turn)
                session.prepare(history)
                if any(event.kind == "compaction_start" for event in seen):
                    break
        levels = [event.level for event in seen if event.kind == "context_warning"]
        assert levels == ["notice", "warning"]


# ------------------------------------------------------------------------------------------------------ Opal


class TestOpal:
    def test_the_chain_of_messages(self):
        """Opal, case 4: the first has no parent, each next one the one before; also after a second round."""
        with opened(policy="opal", window=4_000, ask=Scripted(SUMMARY)) as session:
            history = talk(25, size=400)
            for end in (30, 51):
                session.prepare(history[:end])
                said = session.log(kinds=("said",))
                assert [one.parent for one in said] == ["", *(one.name for one in said[:-1])]

    def test_the_talk_goes_on_after_compaction(self):
        """Opal, case 25: two messages more a turn, the same seen by every session."""
        with opened(policy="opal", window=4_000, ask=Scripted(SUMMARY)) as session:
            ready = session.prepare(talk(25, size=400))
            assert ready.fold
            again = session.prepare([*ready.messages, reply("a"), user("b")])
            assert len(again.messages) == len(ready.messages) + 2
            other = opened(policy="opal", store=session.state.store, window=4_000)
            assert other.view() == again.messages

    def test_usage_over_several_turns(self):
        """Opal, case 23: (100, 50) and (200, 80) are 300 and 130 in all, 200 the last."""
        with opened(policy="opal") as session:
            session.prepare([user("hi")])
            session.observe({"prompt_tokens": 100, "completion_tokens": 50})
            observed = session.observe({"usage": {"input_tokens": 200, "output_tokens": 80}})
            totals = session.stats().totals
            assert (totals.input, totals.output) == (300, 130)
            assert observed.usage.context == 200
            for empty in (None, {}):
                session.observe(empty)
            assert session.stats().totals == totals

    def test_without_a_talk_a_refusal_stays_a_refusal(self):
        """Opal, case 26: nothing to fold: the answer is no, and an event tells."""
        seen = []
        with opened(policy="opal") as session:
            session.subscribe(seen.append)
            assert not session.observe("context_length_exceeded")
            assert [event.kind for event in seen][-1] == "overflow"

    def test_a_refused_turn_is_answered(self):
        """Opal, cases 28 and 30: rejected, folded, the same turn again; not counted as a retry."""
        with opened(policy="opal", window=16_000, ask=Scripted(SUMMARY)) as session:
            history = talk(20, size=800)
            assert session.prepare(history).messages is history
            observed = session.observe(RuntimeError(f"500: context_length_exceeded {OVER}"))
            assert observed
            assert observed.messages[-1] == history[-1]
            assert not sound(observed.messages)
            assert session.state.accounting.breaker.attempts == ()  # an emergency is no attempt

    def test_the_base_is_reset_by_a_compaction(self):
        """Opal, "Hybrid estimation": what was reported before a fold is no base any more."""
        with opened(policy="opal", window=4_000, ask=Scripted(SUMMARY)) as session:
            history = small(4)
            session.prepare(history)
            session.observe(usage(3_900))
            ready = session.prepare([*history, reply("a"), user("b")])
            assert ready.budget.used < 3_900 or ready.fold is None


# -------------------------------------------------------------------------------------------------- Umwelten


class TestUmwelten:
    def test_the_checkpoint_moves_by_itself(self):
        """Umwelten, "Checkpoint Update": future compactions do not take the same again."""
        model = Scripted(SUMMARY)
        with opened(policy="umwelten", ask=model, window=100_000) as session:
            history = small(6)
            session.prepare(history[:4])
            session.checkpoint("thread")
            session.prepare(history)
            assert session.compact().compacted
            assert session.state.view.checkpoints == {"thread": 12}
            assert session.view()[:4] == history[:4]
            asked = model.asked[0]
            assert "question 2" in asked
            assert "question 0" not in asked

    def test_clearing_is_a_new_beginning_and_nothing_is_lost(self):
        """Umwelten, clearing: the view is empty, the log is not."""
        with opened(policy="umwelten") as session:
            session.prepare(small())
            session.rewind("start")
            assert session.view() == []
            assert session.recall("question 3")
            before = stored(session)
            session.say("a new beginning")
            assert stored(session) == before + 1

    def test_frozen_transcripts_are_kept_whole(self, tmp_path):
        """Umwelten, cases 24 and 25: what was there before a compaction can be read after it, in order."""
        with opened(policy="umwelten", ask=Scripted(SUMMARY), window=100_000) as session:
            history = small(6)
            for end in (6, 12):
                session.prepare([*session.view(), *history[end - 6 : end]])
                session.compact()
            assert session.original("#1-#12") == history
            session.export(str(tmp_path / "out"))
        with opened("again") as session:
            session.import_from(str(tmp_path / "out"))
            assert session.original("#1-#12") == history


# ---------------------------------------------------------------------------------------------------- Refold


class TestRefold:
    def test_compaction_through_the_levels(self):
        """Refold's default, "levels" and "when": notice, warning, then a fold to the target."""
        seen = []
        with opened(window=20_000) as session:
            session.subscribe(seen.append)
            history = []
            for turn in range(60):
                history += talk(1, size=1_000, last=False, start=turn)
                ready = session.prepare([*history, user("and?")])
                history.append(user("and?"))
                if ready.fold:
                    break
            assert ready.budget.used <= 0.55 * ready.budget.room + 1
            assert kinds(session, "fold") == ["fold"]
        told = [event.level for event in seen if event.kind == "context_warning"]
        assert told == ["notice", "warning"]


# -------------------------------------------------------------------------------------------------- all of them


@pytest.mark.each_value
@pytest.mark.parametrize("policy", refold.presets.names())
@pytest.mark.parametrize("ask", [None, SUMMARY], ids=["alone", "asking"])
@pytest.mark.parametrize("keep", [0, 1, 4])
def test_who_keeps_the_last_messages_keeps_the_last_request_before_them(policy, ask, keep):
    """Opal would quote it in its summary; Umwelten's thread would have it condensed."""
    history = [*talk(8), *calls_of_tools(6)]
    with opened(policy=policy, window=100_000, ask=ask and Scripted(ask)) as session:
        session.say(history)
        session.compact(keep=keep)
        view = session.view()
        assert history[16] in view
        assert view[len(view) - keep :] == history[len(history) - keep :]
        assert sound(view) == []


def calls_of_tools(turns):
    """A task in progress: calls and their results, behind the last request."""
    done = []
    for number in range(turns):
        call = {"id": f"c{number}", "type": "function", "function": {"name": "read", "arguments": "{}"}}
        done.append({"role": "assistant", "content": None, "tool_calls": [call]})
        done.append({"role": "tool", "tool_call_id": f"c{number}", "content": f"line {number} " * 40})
    return done
