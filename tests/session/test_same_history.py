"""One history in other JSON: no branch, no fold lost, no summary stored as somebody's words."""

import copy
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import pytest
from talks import SHAPES, SUMMARY, kinds, opened, reply, sound, stored, talk, user, values, wired

from refold.stores import open_store
from refold.testing import Scripted
from sample_sizes import cover_pairs

OLD_LOGS = Path(__file__).parents[1] / "surface" / "logs" / "jsonl"


def rewrite_content(content):
    """A string as one text block and one text block as a string."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    if isinstance(content, list) and len(content) == 1 and set(content[0]) == {"type", "text"}:
        return content[0]["text"]
    return content


def is_converse(content):
    """True for blocks without a type."""
    return isinstance(content, list) and "type" not in content[0]


def rewrite(message):
    """A message as another program writes it: other blocks, nulls, other order, other spaces in arguments."""
    changed = json.loads(json.dumps(message))
    if changed.get("type") in (None, "message") and "content" in changed:
        changed["content"] = rewrite_content(changed["content"])
        changed["refusal"] = None
    for call in changed.get("tool_calls") or ():
        call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=1)
    if changed.get("type") == "function_call":
        changed["arguments"] = json.dumps(json.loads(changed["arguments"]), indent=1)
    if "type" in changed:
        changed["id"], changed["status"] = "item_1", "completed"
    for block in changed["content"] if isinstance(changed.get("content"), list) else ():
        if isinstance(block, dict) and block.get("type") == "tool_result":
            block["is_error"], block["content"] = False, rewrite_content(block["content"])
    for part in changed.get("parts", ()):
        part["thoughtSignature"] = "s"
    if is_converse(changed.get("content")):
        changed["content"].append({"cachePoint": {"type": "default"}})
    return dict(reversed(changed.items()))


@pytest.mark.few_values(3)
@pytest.mark.parametrize("shape", [*SHAPES, "converse"])
@pytest.mark.parametrize("turns", [4, 30], ids=["unfolded", "folded"])
def test_a_history_that_was_written_anew_continues(shape, turns):
    history = wired(values(turns), shape)
    session = opened(window=6_000, format=shape)
    session.prepare(history[:-1])
    before, folds = stored(session), [fold.name for fold in session.folds()]
    ready = session.prepare([rewrite(message) for message in history])
    assert stored(session) == before + 1
    assert [fold.name for fold in session.folds()][: len(folds)] == folds
    assert len(kinds(session, "said")) == len([m for m in history if m.get("role") != "system"])
    assert ready.messages[-1] == rewrite(history[-1])


@pytest.mark.few_values(2)
@pytest.mark.parametrize("shape", SHAPES)
def test_after_a_restart_the_names_find_it(shape):
    store = open_store("memory:")
    history = wired(values(30), shape)
    first = opened(window=6_000, format=shape, store=store)
    first.prepare(history[:-1])
    folds = [fold.name for fold in first.folds()]
    again = opened(window=6_000, format=shape, store=store)
    again.prepare([rewrite(message) for message in history])
    assert [fold.name for fold in again.folds()][: len(folds)] == folds
    assert len(kinds(again, "said")) == len(history)


def test_after_a_restart_equal_messages_are_not_taken_for_the_view():
    store, words = open_store("memory:"), "read the file and tell me"
    history = [user(words)] * 3
    for number in range(6):
        call = {"type": "tool_use", "id": f"c{number}", "name": "read_file", "input": {"path": "a.py"}}
        result = {"type": "tool_result", "tool_use_id": f"c{number}", "content": words}
        history += [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]
    first = opened(window=240, format="anthropic", store=store)
    view = first.prepare(history).messages
    before, folds = stored(first), [fold.name for fold in first.folds()]
    assert view[:2] == history[:2]
    assert view[2] != history[2]  # the view leaves out one of the three, and begins as the history does
    again = opened(window=240, format="anthropic", store=store)
    again.prepare(history)
    assert [fold.name for fold in again.folds()] == folds
    assert stored(again) == before


@pytest.mark.parametrize("shape", ["openai", "anthropic"])
def test_a_view_that_was_written_anew_is_no_word_of_the_user(shape):
    session = opened(window=4_000, ask=Scripted(SUMMARY), format=shape)
    view, said = [], 0
    for number in range(30):
        view = [rewrite(message) for message in view]
        view += talk(1, size=700, last=False, start=number)[:1]
        ready = session.prepare(view)
        view = [*copy.deepcopy(ready.messages), {"role": "assistant", "content": f"answer {number} " * 30}]
        said += 2
    assert len(session.folds()) >= 2
    assert len(kinds(session, "said")) == said - 1
    assert not any("<refold-summary" in entry.body for entry in session.log(kinds=["said"]))


def test_a_field_that_no_format_reads_tells_messages_apart():
    session = opened(format="openai")
    spoken = [
        [*talk(0), {"role": "assistant", "content": None, "audio": {"id": name}}] for name in ("a", "b")
    ]
    for given in spoken:
        session.prepare(given)
        assert session.log(kinds=["said"])[-1].value["audio"] == given[-1]["audio"]


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_that_a_client_drops_begins_no_branch(field):
    session = opened(format="openai")
    answer = {"role": "assistant", "content": "Because.", field: "Hm."}
    session.prepare([*talk(1), answer])
    kept = session.log(kinds=["said"])
    del answer[field]
    session.prepare([*talk(1), answer, *talk(1, start=1)])
    assert session.log(kinds=["said"])[: len(kept)] == kept


@dataclass
class Words:
    """A message of an SDK."""

    role: str
    content: str


@pytest.mark.parametrize("as_new_list", [False, True])
def test_an_object_that_was_changed_since_is_read_again(as_new_list):
    session = opened(format="openai")
    growing = Words("assistant", "The ans")
    given = [Words("user", "Why?"), growing]
    session.prepare(given)
    growing.content = "The answer."
    given.append(Words("user", "Thanks."))
    session.prepare(list(given) if as_new_list else given)
    assert [message["content"] for message in session.view()] == ["Why?", "The answer.", "Thanks."]


class TestMovingMark:
    def history(self, turns):
        done = [{"role": "user", "content": [{"type": "text", "text": "Count"}]}]
        for number in range(turns):
            use = {"type": "tool_use", "id": f"t{number}", "name": "ls", "input": {"n": number}}
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"line {number}\n" * 120}
            done += [{"role": "assistant", "content": [use]}, {"role": "user", "content": [result]}]
        done[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return done

    def test_one_that_the_caller_puts_into_what_it_was_given_does_not_come_back(self):
        """Of a long view only some copies are compared in a turn."""
        with opened(window=30_000, format="anthropic") as session:
            for turns in range(150, 156):
                ready = session.prepare(whole := unmarked(self.history(turns)))
                assert not count_marks(ready.messages)
                made = [message for message in ready.messages if message not in whole]
                made[0]["content"] = [{"type": "text", "text": "x", "cache_control": {"type": "ephemeral"}}]
        assert len(ready.messages) > 128  # twice as many as are compared

    def test_it_reads_nothing_from_the_store_and_is_sent_where_it_is_now(self):
        store = CountingStore(open_store("memory:"))
        session = opened(window=8_000, format="anthropic", store=store)
        for turns in range(1, 40):
            folds, store.reads = len(session.folds()), 0
            ready = session.prepare(self.history(turns))
            marked = [m for m in ready.messages if "cache_control" in json.dumps(m)]
            assert marked == ready.messages[-1:]
            if len(session.folds()) == folds:
                assert store.reads <= 4, turns  # folds() and a look at the head, whatever the length
        assert len(session.folds()) > 1


def count_marks(value):
    """How many cache marks stand in messages; what tools are given is not looked at."""
    if isinstance(value, list):
        return sum(map(count_marks, value))
    if not isinstance(value, dict):
        return 0
    own = sum(key in value for key in ("cache_control", "cachePoint"))
    return own + sum(count_marks(inner) for key, inner in value.items() if key != "input")


def unmarked(value):
    """A value without its cache marks."""
    if isinstance(value, list):
        return [unmarked(inner) for inner in value if not (isinstance(inner, dict) and "cachePoint" in inner)]
    if not isinstance(value, dict):
        return value
    return {key: unmarked(inner) for key, inner in value.items() if key != "cache_control"}


READ = {"small": (250, "/a/{}.py"), "large": (1_500, "/a/{}.py"), "the same file": (3_500, "/a.py")}
"""How long each result is, and the file that is read."""


class TestMarksOfFolds:
    """A provider refuses a request with more than four marks: a view never has more than the caller's list."""

    def read(self, wire, number, size, path):
        words = f"line {number} of it\n" * (size // 4)
        path = {"path": path.format(number), "cache_control": {"type": "ours"}}
        if wire == "converse":
            call = {"toolUse": {"toolUseId": f"t{number}", "name": "read", "input": path}}
            result = {"toolResult": {"toolUseId": f"t{number}", "content": [{"text": words}]}}
        elif wire == "openai":
            function = {"name": "read", "arguments": json.dumps(path)}
            call = {"id": f"t{number}", "type": "function", "function": function}
            result = {"type": "text", "text": words}
            return [
                {"role": "assistant", "content": None, "tool_calls": [call]},
                {"role": "tool", "tool_call_id": f"t{number}", "content": [result]},
            ]
        else:
            call = {"type": "tool_use", "id": f"t{number}", "name": "read", "input": path}
            result = {"type": "tool_result", "tool_use_id": f"t{number}", "content": words}
        return [{"role": "assistant", "content": [call]}, {"role": "user", "content": [result]}]

    def mark(self, wire, messages):
        messages = copy.deepcopy(messages)
        if wire == "converse":
            messages[-1]["content"].append({"cachePoint": {"type": "default"}})
        else:
            messages[-1]["content"][-1]["cache_control"] = {"type": "ephemeral"}
        return messages

    def start(self, wire):
        text = {"text": "Read them."} if wire == "converse" else {"type": "text", "text": "Read them."}
        return [{"role": "user", "content": [text]}]

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize(
        ("wire", "kind", "way"),
        cover_pairs(["anthropic", "converse", "openai"], READ, ["list", "reopened", "view", "both"]),
    )
    def test_a_view_has_the_one_mark_that_the_caller_sends(self, tmp_path, wire, kind, way):
        def reopened():
            return opened(store=f"sqlite:{tmp_path}/store.db", format=wire)

        size, path = READ[kind]
        session, said, view, before = reopened(), self.start(wire), self.start(wire), []
        for turn in range(14):
            new = self.read(wire, turn, size, path)
            said, view = said + new, view + new
            if way == "reopened" and turn % 4 == 3:
                session.close()
                session = reopened()
            given = view if way == "view" or (way == "both" and turn % 3) else said
            ready = session.prepare(self.mark(wire, given))
            assert count_marks(ready.messages) == count_marks(ready.messages[-1]) == 1
            bare = unmarked(ready.messages)
            assert ready.fold or bare[: len(before)] == before
            before = view = bare
        assert session.folds()
        session.close()
        with reopened() as session:
            assert count_marks(session.view()) == 0
            assert unmarked(session.view()) == before

    def test_folds_of_older_versions_that_hold_marks_show_none(self, tmp_path, monkeypatch):
        store, said = f"sqlite:{tmp_path}/store.db", self.start("anthropic")
        with monkeypatch.context() as older:
            older.setattr("refold.session.steps.install_fold.split_cache_marks", lambda item: (item, []))
            with opened(store=store, format="anthropic") as session:
                for turn in range(6):
                    said += self.read("anthropic", turn, 3_500, "/a.py")
                    session.prepare(self.mark("anthropic", said))
                assert any("ephemeral" in entry.body for entry in session.log(kinds=["fold"]))
        with opened(store=store, format="anthropic") as session:
            assert count_marks(session.view()) == 0
            assert count_marks(session.prepare(self.mark("anthropic", said)).messages) == 1

    def test_what_is_unfolded_or_pinned_comes_back_without_its_mark(self):
        said = self.start("anthropic")
        with opened(format="anthropic") as session:
            for turn in range(14):
                said += self.read("anthropic", turn, 1_500, "/a/{}.py")
                session.prepare(self.mark("anthropic", said))
            session.pin("#5")
            assert count_marks(session.view()) <= 1
            session.unfold()
            assert count_marks(session.view()) <= 1
            assert count_marks(session.prepare(self.mark("anthropic", said)).messages) == 1

    def test_the_callers_marks_on_messages_that_stay_stay(self):
        said = self.start("anthropic")
        with opened(format="anthropic") as session:
            for turn in range(14):
                said += self.read("anthropic", turn, 1_500, "/a/{}.py")
                marked = self.mark("anthropic", [*self.mark("anthropic", said[:1]), *said[1:]])
                ready = session.prepare(marked)
                kept = [place for place in ready.origins if place is not None]
                assert [ready.messages[ready.origins.index(place)] for place in kept] == [
                    marked[place] for place in kept
                ]
                assert count_marks(ready.messages) == (2 if 0 in kept else 1)


class CountingStore:
    """A store that counts how often it is read."""

    def __init__(self, store):
        self.store, self.reads = store, 0

    def read(self, *values, **choices):
        self.reads += 1
        return self.store.read(*values, **choices)

    def __getattr__(self, name):
        return getattr(self.store, name)


class TestEnvironment:
    def history(self, turns, day):
        reminder = f"<system-reminder>Today's date is 2026-11-{day}.</system-reminder>"
        parts = [{"type": "text", "text": reminder}, {"type": "text", "text": "Answer my questions."}]
        first, *rest = talk(turns, size=800)
        return [{"role": "user", "content": parts}, {"role": "assistant", "content": "Ask."}, first, *rest]

    @pytest.mark.parametrize("restarted", [False, True])
    def test_another_day_keeps_every_fold_and_is_sent(self, restarted):
        store, model = open_store("memory:"), Scripted(SUMMARY)
        session = opened(ask=model, format="anthropic", store=store)
        session.prepare(self.history(40, 15))
        folds, asked = [fold.name for fold in session.folds()], len(model.asked)
        if restarted:
            session = opened(ask=model, format="anthropic", store=store)
        ready = session.prepare(self.history(40, 16) + talk(1, start=41)[1:])
        assert folds
        assert [fold.name for fold in session.folds()] == folds
        assert len(model.asked) == asked
        assert "2026-11-15" not in json.dumps(ready.messages)


@pytest.mark.few_values(3)
@pytest.mark.parametrize(
    ("shape", "added", "restarted"), cover_pairs([*SHAPES, "converse"], ["first", "later"], [False, True])
)
def test_a_field_that_only_one_side_has_begins_no_branch(shape, added, restarted):
    """Clients add fields of their own, and drop those that they do not know."""
    plain = wired(values(30), shape)
    own = {"client": {"seen": True}}
    marked = [
        {**message, **(own if "role" in message else {})} for message in plain
    ]  # fields of items are read
    first, later = (marked, plain) if added == "first" else (plain, marked)
    store = open_store("memory:")
    session = opened(window=6_000, format=shape, store=store)
    session.prepare(first)
    folds, before = session.folds(), len(kinds(session, "said"))
    if restarted:
        session = opened(window=6_000, format=shape, store=store)
    session.prepare(later)
    assert folds
    assert session.folds()[: len(folds)] == folds
    assert sum(entry.kind == "said" for _, _, entry in store.salvage()) == before


def test_a_log_without_secrets_is_compared_without_them():
    store, secret = open_store("memory:"), "my key is sk-proj-" + "a1B2c3D4e5" * 4
    history = [user(secret), reply("I do not keep it."), *talk(3)]
    opened(store=store, redaction="storage").prepare(history)
    session = opened(store=store, redaction="storage")
    session.prepare([{**message, "client": {"seen": True}} for message in history])
    assert sum(entry.kind == "said" for _, _, entry in store.salvage()) == len(history)


@pytest.mark.few_values(2)
@pytest.mark.parametrize("restarted", [False, True])
@pytest.mark.parametrize("shape", ["anthropic", "gemini", "converse"])
def test_a_result_that_came_back_twice_begins_no_branch(shape, restarted):
    """As gemini-cli sends a resumed session: the result of a call a second time in the same message."""
    history = wired(values(30), shape)
    store = open_store("memory:")
    session = opened(window=6_000, format=shape, store=store)
    session.prepare(history)
    folds, before = session.folds(), len(kinds(session, "said"))
    if restarted:
        session = opened(window=6_000, format=shape, store=store)
    key = "parts" if shape == "gemini" else "content"
    doubled = [
        {**message, key: [*message[key], *message[key]]} if has_result(message.get(key)) else message
        for message in history
    ]
    assert doubled != history
    session.prepare(doubled)
    assert session.folds()[: len(folds)] == folds
    assert sum(entry.kind == "said" for _, _, entry in store.salvage()) == before


def has_result(parts):
    found = (json.dumps(part) for part in parts if isinstance(part, dict))
    return any("tool_result" in text or "functionResponse" in text or "toolResult" in text for text in found)


def test_results_with_other_words_and_texts_that_repeat_count():
    session = opened(format="anthropic")
    use = {"type": "tool_use", "id": "t", "name": "ls", "input": {}}
    result = {"type": "tool_result", "tool_use_id": "t", "content": "one"}
    begun = [user("Look."), {"role": "assistant", "content": [use]}]
    for parts in (
        [result],
        [result, {**result, "content": "two"}],
        [result, {"type": "text", "text": "ok"}],
        [result, {"type": "text", "text": "ok"}, {"type": "text", "text": "ok"}],
    ):
        session.prepare([*begun, user(parts)])
        assert session.log(kinds=["said"])[-1].value == user(parts)


HEADS = {
    "a date in words": "Today is Sunday, November {day} 2026.\n\nAnswer my questions.",
    "a tag of another client": "<workspace_info>branch b{day}, 3 files changed</workspace_info>\nAnswer me.",
    "a path and a version": "cwd: /home/ann/run-{day}, python 3.{day}.1. Answer my questions.",
    "a tag with fields": 'Answer me. <context day="{day}">\nM src/a{day}.py\nwords{day} and words\n</context>',
}


class TestOtherHead:
    """The first message of a client whose tags nobody knows."""

    def history(self, head, day, turns=40):
        first, *rest = talk(turns, size=800)
        return [user(head.format(day=day)), reply("Ask."), first, *rest]

    @pytest.mark.few_values(3)
    @pytest.mark.parametrize(
        ("head", "restarted", "shape"), cover_pairs(HEADS, [False, True], ["openai", "anthropic"])
    )
    def test_it_keeps_every_fold_begins_no_branch_and_is_sent(self, head, restarted, shape):
        head = HEADS[head]
        store, model = open_store("memory:"), Scripted(SUMMARY)
        session = opened(ask=model, format=shape, store=store)
        session.prepare(self.history(head, 15))
        folds, asked, before = session.folds(), len(model.asked), stored(session)
        if restarted:
            session = opened(ask=model, format=shape, store=store)
        later = [*self.history(head, 16), *talk(1, start=41)[1:]]
        ready = session.prepare(later)
        assert folds
        assert session.folds() == folds
        assert len(model.asked) == asked
        assert stored(session) == before + 2 + 1  # two messages, and the first one as it is now
        assert ready.messages[0] == later[0]
        assert opened(format=shape, store=store).view() == ready.messages
        assert ready.origins[0] == 0
        assert session.prepare(copy.deepcopy(later)).messages == ready.messages
        assert stored(session) == before + 2 + 1

    def test_the_log_has_both_forms(self):
        session, head = opened(ask=Scripted(SUMMARY)), HEADS["a date in words"]
        for day in (15, 16, 16, 17):
            session.prepare(self.history(head, day))
        assert session.log(kinds=["said"])[0].value == user(head.format(day=15))
        recorded = [entry.beside["head"] for entry in session.log(kinds=["system"])]
        assert recorded == [{"1": user(head.format(day=day))} for day in (16, 17)]

    @pytest.mark.parametrize("reopens", [False, True])
    def test_one_that_is_as_it_was_said_again_or_on_another_branch_is_shown_so(self, reopens):
        store, head = open_store("memory:"), HEADS["a date in words"]
        session = opened(store=store, window=100_000)
        session.prepare(self.history(head, 15, turns=6))
        other = [user("What is the answer?"), reply("42.")]
        for history in (
            self.history(head, 16, turns=6),
            self.history(head, 15, turns=6),
            self.history(head, 17, turns=6),
            [*self.history(head, 17, turns=6)[:4], *other],
            [*other, user("How so?")],
        ):
            session.prepare(history)
            assert opened(store=store, window=100_000).view() == session.view() == history
            session = opened(store=store, window=100_000) if reopens else session

    @pytest.mark.parametrize("reopens", [False, True])
    @pytest.mark.parametrize("shape", ["openai", "anthropic"])
    def test_a_view_that_begins_with_another_one_is_continued(self, shape, reopens):
        store, head = open_store("memory:"), HEADS["a date in words"]
        session = opened(ask=Scripted(SUMMARY), store=store, format=shape)
        history = self.history(head, 15)
        view = session.prepare(history).messages
        assert view[0] == history[0]
        for day in (16, 17):
            session = opened(store=store, format=shape) if reopens else session
            new = [reply(f"It is the {day}th."), user("Go on.")]
            view = [user(head.format(day=day)), *view[1:], *new]
            history += new
            assert session.prepare(view).messages == view
            assert opened(store=store, format=shape).view() == view
        assert [entry.value for entry in session.log(kinds=["said"])] == history

    @pytest.mark.parametrize("restarted", [False, True])
    def test_a_fold_that_hides_it_stays_and_shows_it_again(self, restarted):
        store, model, head = open_store("memory:"), Scripted(SUMMARY), HEADS["a date in words"]
        session = opened(ask=model, store=store, policy="opal")
        session.prepare(self.history(head, 15))
        asked = len(model.asked)
        assert not session.state.view.shown(1)
        if restarted:
            session = opened(ask=model, store=store, policy="opal")
        ready = session.prepare([*self.history(head, 16), reply("Yes.")])
        assert user(head.format(day=16)) in ready.messages
        assert len(model.asked) == asked
        assert [fold.standing for fold in session.folds()] == [False, True]  # made again around the message
        assert SUMMARY in json.dumps(ready.messages)
        assert sound(ready.messages, "openai") == []
        assert (
            session.prepare([*self.history(head, 16), reply("Yes."), user("Go.")]).messages[:-1]
            == ready.messages
        )

    @pytest.mark.parametrize(
        "words", ["Answer my questions or not.", "Your name is Bob. Answer my questions.", "Go on."]
    )
    def test_other_words_are_an_edit(self, words):
        session, head = opened(window=100_000), HEADS["a date in words"]
        session.prepare(self.history(head, 15, turns=6))
        edited = [user(words), *self.history(head, 15, turns=6)[1:]]
        session.prepare(edited)
        assert [entry.value for entry in session.log(kinds=["said"])] == edited

    def test_a_long_head_and_a_picture_are_compared_as_they_are(self):
        picture = {"type": "image_url", "image_url": {"url": "https://a.example/1.png"}}
        for first, other in (
            ([{"type": "text", "text": "Look at 1."}, picture], [{"type": "text", "text": "Look at 2."}]),
            ("<a>" * 400_000 + "1", "<a>" * 400_000 + "2"),
        ):
            session = opened(window=10_000_000)
            rest = [reply("Ask."), *talk(6)]
            session.prepare([user(first), *rest])
            session.prepare([user(other), *rest])
            assert session.log(kinds=["said"])[0].value == user(other)

    @pytest.mark.parametrize(
        "answers", [["Done.", "Ok.", "Yes."], ["I looked at the first of {}.", "Ok.", "Ok."]]
    )
    def test_another_conversation_with_the_same_prompt_is_another_history(self, answers):
        """What it shares is what many conversations share: short answers, and answers that differ."""
        session, head = opened(window=100_000), HEADS["a date in words"]
        for day in (15, 16):
            given = [user(head.format(day=day)), reply("Ask.")]
            for number, answer in enumerate(answers * 3):
                given += [user(f"question {number}"), reply(answer.format(day))]
            session.prepare(given)
            assert [entry.value for entry in session.log(kinds=["said"])] == given

    def test_a_history_that_has_just_begun_is_compared_as_it_is(self):
        session, head = opened(window=100_000), HEADS["a date in words"]
        for day in (15, 16):
            given = self.history(head, day, turns=1)[:4]
            session.prepare(given)
            assert [entry.value for entry in session.log(kinds=["said"])] == given


def test_logs_with_names_of_the_raw_json_go_on(tmp_path):
    """Logs of the first version name a message by its raw JSON; they keep such names for their life."""
    shutil.copytree(OLD_LOGS, tmp_path / "jsonl")
    store = open_store(f"jsonl:{tmp_path / 'jsonl'}")
    name = store.sessions()[0].name
    old = opened(name, store=store).log(kinds=["said"])
    assert {entry.name[:3] for entry in old} == {"b2:"}
    assert all(entry.sound for entry in old)
    history = [entry.value for entry in old]
    system = [entry.value for entry in opened(name, store=store).log(kinds=["system"])]
    session = opened(name, store=store)
    session.prepare([*(system[-1] if system else []), *history, {"role": "user", "content": "And now?"}])
    said = session.log(kinds=["said"])
    assert [entry.name for entry in said[:-1]] == [entry.name for entry in old]
    assert said[-1].name.startswith("b2:")


@pytest.mark.each_value
@pytest.mark.parametrize(
    ("began", "goes_on"), [("gemini", "anthropic"), ("openai", "gemini"), ("openai", "anthropic")]
)
def test_a_history_that_began_in_another_format_keeps_its_folds_when_it_is_opened_again(began, goes_on):
    """Its messages were looked up by names that they have in the format of now, and all was stored anew."""
    store, whole = open_store("memory:"), values(13, tools=False)
    session = opened(store=store, window=100_000)
    session.prepare(wired(whole[:21], began))
    session.prepare(wired(whole[:25], goes_on))
    session.compact(target=500)
    again = opened(store=store, window=100_000)
    ready = again.prepare(wired(whole, goes_on))
    assert len(ready.messages) < 10
    assert [fold.standing for fold in again.folds()] == [True]
    assert sum(entry.kind == "said" for _, _, entry in store.salvage()) == len(whole)
