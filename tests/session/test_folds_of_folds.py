"""Ten folds of one conversation: each shortens messages that earlier ones have shortened."""

import contextlib
import json
import re
from collections import Counter

import pytest
from talks import opened, sound, without_ids

from refold import formats
from refold.core.log.entries import Entry, make_entry
from refold.core.messages.message import Message, Text, ToolCall, ToolResult
from refold.errors import StoreError
from refold.stores import open_store
from sample_sizes import few_or_all, sample

WINDOW = 4_000
COVERED = re.compile(r'<refold-summary [^>]*covers="#(\d+)-#(\d+)"')
NAMED = re.compile(r"(?:left out[^\]\n]*; |… \[)recall #(\d+)\]")


def work(turns, steps):
    """Requests, each with a long plan and its call, a long output and an answer: all lines are different."""
    done = []
    for number in range(turns):
        call = ToolCall(f"call_{number}", "bash", {"command": f"make part{number}"})
        lines = "\n".join(f"step {number}.{line}: object-{number}-{line} was built" for line in range(30))
        plan = "\n".join(f"For part {number} I do step {number}.{line} as agreed." for line in range(steps))
        done += [
            Message("user", (Text(f"Build part {number} now."),)),
            Message("assistant", (Text(plan), call)),
            Message("tool", (ToolResult(call.id, (Text(lines),), name="bash"),)),
            Message("assistant", (Text(f"Part {number} is built."),)),
        ]
    return done


def history(kind, turns, *, steps=20):
    """The conversation in one wire format, as JSON that came over a wire."""
    if kind == "refold":
        return work(turns, steps)
    shape = "gemini" if kind == "gemini without ids" else kind
    # One message after the other, as a server sends them.
    items = [item for message in work(turns, steps) for item in formats.get(shape).render([message])]
    items = json.loads(json.dumps(items))
    return without_ids(items) if kind == "gemini without ids" else items


def shown_texts(kind, items):
    shape = "gemini" if kind == "gemini without ids" else kind
    return ["\n".join(_texts(message)) for message in formats.get(shape).parse(items)]


def _texts(message):
    for part in message.parts:
        yield part.text if isinstance(part, Text | ToolResult) else ""


CASES = [
    ("memory", "openai"),
    ("memory", "anthropic"),
    ("memory", "gemini without ids"),
    ("jsonl", "responses"),
    ("sqlite", "refold"),
]
"""Each store, and shapes with calls by id, in blocks, by order, as items and as values of our own."""


@pytest.fixture
def store(request, tmp_path):
    where = "" if request.param == "memory" else tmp_path / "place"
    with contextlib.closing(open_store(f"{request.param}:{where}")) as store:
        yield store


@pytest.mark.few_values(1)
@pytest.mark.parametrize(("store", "kind"), sample(CASES, 3), indirect=["store"])
def test_ten_folds_keep_pairs_words_and_handles(kind, store):
    whole = history(kind, few_or_all(25, 72))
    shape = None if kind == "refold" else kind.split()[0]
    named = set()
    session = opened(store=store, window=WINDOW)
    for start in range(0, len(whole), 3):  # views that end with a call, a result, words of either side
        session.say(whole[start : start + 3])
        ready = session.prepare()
        assert not sound(ready.messages, shape)
        if not ready.fold:
            continue
        again = opened(store=store, window=WINDOW)
        assert again.view() == ready.messages
        assert again.state.loaded.messages == session.state.loaded.messages
        texts = shown_texts(kind, ready.messages)
        (gone,) = [spans for text in texts if (spans := COVERED.findall(text))] or [[]]
        assert all(int(first) <= 2 for first, _ in gone)  # of all that left since the first request
        for text in texts:
            for number in NAMED.findall(text):
                (said,) = again.original(f"#{number}")
                assert said == whole[int(number) - 1]
                (said_text,) = shown_texts(kind, [said])
                lines = [line for line in text.split("\n") if "left out" not in line]
                assert set(lines) <= set(said_text.split("\n"))
                named.add(number)
    folds = session.folds()
    assert len(folds) >= 10
    assert len(named) >= 10
    assert [session.original(f"#{number}") for number in range(1, len(whole) + 1)] == [
        [item] for item in whole
    ]
    for fold in reversed(folds):
        session.unfold(fold.name)
        assert not sound(session.view(), shape)
    assert session.view() == whole


def folded_thrice():
    """A session of three folds, the texts that each left, and the history."""
    whole = history("openai", 12, steps=200)
    session = opened(window=100_000)
    session.say(whole)
    texts = []
    for target in (14_000, 9_000, 6_000):
        assert session.compact(target=target).compacted
        texts.append("\n".join(shown_texts("openai", session.view())))
    return session, texts, whole


def test_a_message_that_is_shortened_again_keeps_its_one_handle():
    _, texts, _ = folded_thrice()
    first, second, third = (list(map(int, NAMED.findall(text))) for text in texts)
    assert set(first) & set(second) & set(third)
    for named in (first, second, third):
        assert named == sorted(set(named))
    assert any(number + 1 in second for number in second)  # neighbours of one fold


def test_a_model_can_fetch_back_what_was_only_shortened():
    whole = history("openai", 12)
    with opened(window=100_000) as session:
        session.say(whole)
        assert session.recall_tool(when="folded") is None
        outcome = session.compact(target=int(session.stats().current_context_tokens * 0.7))
        assert outcome.messages_after == len(whole)  # none has left
        assert session.recall_tool(when="folded")
        handles = NAMED.findall("\n".join(shown_texts("openai", session.view())))
        assert handles
        for number in handles:
            (text,) = shown_texts("openai", [whole[int(number) - 1]])
            assert text in session.answer_recall({"handle": f"#{number}"})


@pytest.mark.parametrize("undone", [0, 1])
def test_an_undone_fold_gives_back_what_later_folds_left_alone(undone):
    """Every message is whole, or shortened with its handle, or told by the digest."""
    session, whole = folded_thrice()[::2]
    session.unfold(session.folds()[undone].name)
    shown = session.view()
    text = "\n".join(shown_texts("openai", shown))
    last = max(int(last) for _, last in COVERED.findall(text))
    named = set(map(int, NAMED.findall(text)))
    assert all(item in shown or number in named for number, item in enumerate(whole, 1) if number > last)
    assert not sound(shown, "openai")


def test_a_session_that_undid_folds_is_the_one_that_is_read_anew():
    with contextlib.closing(open_store("memory:")) as store:
        session = opened(store=store, window=WINDOW)
        whole = [{"role": "system", "content": "Build with care."}, *history("openai", 30)]
        for start in range(0, len(whole), 4):
            session.prepare(whole[: start + 4])
        session.pin(9)
        folds = session.folds()
        assert len(folds) >= 3
        for fold in (folds[1], folds[-1], folds[0]):
            session.unfold(fold.name)
            again = opened(store=store, window=WINDOW)
            assert session.view() == again.view()
            assert session.folds() == again.folds()
            assert session.state.loaded.messages == again.state.loaded.messages
            assert session.state.view == again.state.view
            assert session.stats() == again.stats()


def test_a_call_and_its_results_are_joined_also_if_others_write_while_a_fold_is_undone():
    """A fold of two places is undone whose summary a later one covers: half of the results are behind that."""
    calls = tuple(ToolCall(name, "bash", {"command": name}) for name in ("one", "two"))
    results = [Message("tool", (ToolResult(call.id, (Text(call.id),), name="bash"),)) for call in calls]
    said = [Message("user", "build"), Message("assistant", calls), *results, Message("user", "go on")]
    with contextlib.closing(open_store("memory:")) as store:
        session = opened(store=store, window=WINDOW)
        session.say(formats.get("openai").render(said))
        summary = [{"wire": {"role": "user", "content": "<refold-summary>built</refold-summary>"}}]
        names = []
        for changes in (
            [{"took": ["2-3"], "put": []}, {"took": ["4-4"], "put": ["+0"]}],
            [{"took": ["1-1", "{0}/0"], "put": ["+0"]}],
        ):
            named = json.loads(json.dumps(changes).replace("{0}", "".join(names)))
            head = store.head(session.name)
            fold = make_entry("fold", {"changes": named, "messages": summary}, parent=head.name, said=5)
            store.append(session.name, [fold], expect=head)
            names.append(fold.name)
        writes, append = [], store.append

        def write_after_others(*arguments, **named):
            writes.append(arguments)
            if len(writes) == 1:  # the fold is undone and its pairs are joined in one write
                opened(store=store, window=WINDOW).checkpoint("other")
            return append(*arguments, **named)

        store.append = write_after_others
        session.unfold(names[0])
        assert len(writes) == 3  # in vain, that of the other, and again
        assert not sound(session.view(), "openai")
        assert [fold.standing for fold in session.folds()].count(True) == 1


def test_undoing_a_fold_decodes_each_fold_at_most_twice(monkeypatch):
    """A fold holds the facts of all that left before it, so its body is the longest of all entries."""
    session, _, _ = folded_thrice()
    decoded, value = Counter(), Entry.value.fget

    def count(entry):
        decoded[entry.name] += entry.kind == "fold"
        return value(entry)

    monkeypatch.setattr(Entry, "value", property(count))
    session.unfold()
    # Once for the breaker, and where it is visible once for its messages.
    assert 0 < max(decoded.values()) <= 2


def read_again_and_again(session, kind, rounds):
    """Large outputs one after the other; each fold shortens those that earlier folds have shortened."""
    messages = [Message("user", (Text("Find the fault."),))]
    for number in range(rounds):
        call = ToolCall(f"call_{number}", "bash", {"command": f"cat part{number}"})
        lines = "\n".join(
            f"line {line} of part {number}: {line * 7919 % 1_000} things happen" for line in range(120)
        )
        messages += [
            Message("assistant", (call,)),
            Message("tool", (ToolResult(call.id, (Text(lines),), name="bash"),)),
        ]
    shape = kind.split()[0]
    items = [item for message in messages for item in formats.get(shape).render([message])]
    items = without_ids(items) if kind != shape else items
    session.say(items[:1])
    for start in range(1, len(items), 2):
        session.say(items[start : start + 2])
        ready = session.prepare()
    assert len(session.folds()) > 2
    return [
        text for text in shown_texts(kind, ready.messages) if "left out" in text and "<refold" not in text
    ]


@pytest.mark.parametrize("kind", ["openai", "gemini without ids"])
def test_a_text_that_is_shortened_again_is_shortened_from_the_whole(kind):
    """One gap in the middle, as after a first time, and not a gap beside the gap of an earlier fold."""
    shortened = read_again_and_again(opened(window=9_000), kind, 9)
    assert shortened
    for text in shortened:
        assert text.count("left out") == text.count("recall #") == 1
        gap = int(re.search(r"(\d+) lines left out", text)[1])
        assert gap + len(text.split("\n")) - 1 == 120


def test_a_store_that_cannot_read_costs_no_fold(monkeypatch):
    """Then a text is shortened from what is left of it."""
    session = opened(window=9_000)
    monkeypatch.setattr("refold.session.steps.compact.read_said", refuse_to_read)
    assert read_again_and_again(session, "openai", 9)


def refuse_to_read(_state, _ranges):
    raise StoreError("the disk is gone")
    yield  # a step of a session is a generator


def test_a_pinned_output_stands_in_place_of_its_shorter_form():
    whole = [{"role": "system", "content": "Build with care."}, *history("openai", 24, steps=1)]
    for number in range(47, 88, few_or_all(24, 4)):  # outputs that folds have shortened
        session = opened(store="memory:", window=6_000)
        for start in range(0, len(whole), 4):
            session.prepare(whole[: start + 4])
        before = session.view()
        assert whole[number] not in before
        session.pin(number)
        assert not sound(session.view(), "openai")
        assert len(session.view()) == len(before)
        assert session.view().count(whole[number]) == 1
        session.close()


def serve_customers(tickets):
    """A desk that looks orders up and refunds them, with a rule that was said once."""
    yield {"role": "user", "content": "The budget for goodwill is 300 euros today, tell me at 250."}
    yield {"role": "assistant", "content": "Noted: 300 euros of goodwill."}
    for number in range(tickets):
        order = {
            "order": f"SO-{number}",
            "lines": [{"sku": f"K-{number}-{at}", "price": at} for at in range(25)],
        }
        yield {"role": "user", "content": f"Ticket {number}: settle order SO-{number} with {number} euros."}
        for name, result in (
            ("get_order", order),
            ("refund", {"status": "succeeded", "refund": f"rf-{number}"}),
        ):
            function = {"name": name, "arguments": json.dumps({"order": f"SO-{number}"})}
            calls = [{"id": f"{name}-{number}", "type": "function", "function": function}]
            yield {"role": "assistant", "content": None, "tool_calls": calls}
            yield {"role": "tool", "tool_call_id": f"{name}-{number}", "content": json.dumps(result)}
        yield {
            "role": "assistant",
            "content": f"Done: {number} euros refunded on SO-{number}, ticket {number} closed.",
        }


def test_a_digest_does_not_starve_from_fold_to_fold():
    """What stays of a request in words has its answer beside it, and what was said once stays."""
    said = []
    with opened(window=WINDOW) as session:
        for message in serve_customers(60):
            said.append(message)
            view = session.prepare(list(said)).messages if message["role"] != "assistant" else []
        assert len(session.folds()) > 12
        view = session.view()
    (digest,) = (message["content"] for message in view if "<refold-summary" in str(message["content"]))
    kept = {
        int(number) for message in view for number in re.findall(r"^Ticket (\d+)", str(message["content"]))
    }
    closed = {int(number) for number in re.findall(r"ticket (\d+) closed", str(view))}
    assert "goodwill is 300 euros today, tell me at 250" in str(view)
    assert len(kept & closed) >= len(kept) // 2
    assert (
        digest.count("refund(order=SO-") > 10
    )  # each settles what was asked for; the lookups before are old
