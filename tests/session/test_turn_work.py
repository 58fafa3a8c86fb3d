"""What a session does in a turn, counted in calls: a turn of an adapter has to stay far below a millisecond."""

import copy
import sys
import weakref
from dataclasses import replace

import pytest

import refold
from chat_messages import written_call
from growth import count_calls, count_lines
from refold.stores import open_store
from sample_sizes import few_or_all

TOOLS = [{"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}]


def history(turns):
    found = []
    for turn in range(turns):
        found += [
            {"role": "user", "content": f"question {turn}"},
            written_call(f"c{turn}", '{"n": 1}', name="look"),
            {"role": "tool", "tool_call_id": f"c{turn}", "content": "result"},
            {"role": "assistant", "content": f"answer {turn}"},
        ]
    return found


def answer(text="hello", used=1000):
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": used, "completion_tokens": 5}
    return {"model": "gpt-4o", "choices": [{"finish_reason": "stop", "message": message}], "usage": usage}


def open_session():
    return refold.open("turn", store="memory:", window="200k", format="openai", now=lambda: 0.0)


def test_observe_does_not_look_at_every_letter_of_an_answer():
    session, messages = open_session(), [{"role": "user", "content": "hi"}]
    calls = []
    for text in ("warm", "short", "long " * 2000):
        session.prepare(messages)
        calls.append(count_calls(lambda text=text: session.observe(answer(text))))
    assert calls[2] <= calls[1] + 10


def test_a_report_without_passes_is_read_once():
    session = open_session()
    session.prepare([{"role": "user", "content": "hi"}])
    session.observe(answer())
    assert count_calls(lambda: session.observe(answer())) < 280  # 256; it was 2,000 with two readings


def test_an_answer_that_is_said_is_read_once():
    session = open_session()
    for _ in range(2):  # the first time much is made that stays
        session.say("hi")
        session.prepare()
        said = count_calls(lambda: session.observe(answer(), say=True))
    session.prepare()
    observed = count_calls(lambda: session.observe(answer()))
    again = count_calls(lambda: session.say({"role": "assistant", "content": "hello"}))
    assert said < observed + again  # by 9; two readings in two flows took 59 more


@pytest.mark.parametrize("model", [None, "openai:gpt-4.1"])
@pytest.mark.parametrize("store", ["memory:", "sqlite:"])
def test_a_plain_turn_makes_few_calls(tmp_path, store, model):
    """Adapters and the gateway make a turn for each request; its calls touch more code than caches hold."""
    address = store if store == "memory:" else f"sqlite:{tmp_path / 'turn.db'}"
    options = {"window": "200k", "format": "openai", "model": model, "now": lambda: 0.0}
    messages = history(20)

    def turn():
        # Words that no other test has counted before this one.
        messages.append({"role": "user", "content": f"question of {len(messages)}, {model}, {store}"})
        ready = session.prepare(list(messages), tools=TOOLS)
        said = answer(used=ready.budget.used)
        session.observe(said)
        messages.append(said["choices"][0]["message"])

    with refold.open("turn", store=address, **options) as session:
        turn()
        turn()
        made = count_calls(turn)
    assert made < (
        655 if store == "memory:" else 700
    )  # 625 and 685, and 9 more without a model; it was 1,044 and 1,091


def test_a_turn_of_an_agent_makes_few_calls():
    """It calls a tool in each turn, and its session finds out the format and the window by itself."""
    session = refold.open("turn", store="memory:", model="gpt-4.1", now=lambda: 0.0)
    messages = history(20)

    def turn():
        number = len(messages)
        messages.append(written_call(f"d{number}", '{"path": "a.py"}', name="look"))
        messages.append({"role": "tool", "tool_call_id": f"d{number}", "content": f"line {number}"})
        session.observe(answer(used=session.prepare(messages, tools=TOOLS).budget.used))

    turn()
    turn()
    assert count_calls(turn) < 850  # 821; it was 1,270


@pytest.mark.parametrize("window", ["100k", None])
def test_a_session_that_goes_on_with_another_model_measures_against_its_window(window):
    """The window of a model is looked up once, and again whenever the model changes."""
    own = {"small": refold.Window(8_000, 1_000, "mine"), "large": refold.Window(200_000, 50_000, "mine")}
    policy = replace(refold.presets.get("refold"), window=lambda model: own[model or "small"])
    session = refold.open("turn", store="memory:", policy=policy, model="small", window=window)
    seen = []
    for model in ("small", "large", "small"):
        session.use(model=model, window=window)
        seen.append(session.prepare([{"role": "user", "content": "hi"}]).budget)
    assert seen[0] == seen[2]
    assert (seen[0].window, seen[1].window) == ((100_000, 100_000) if window else (8_000, 200_000))
    assert seen[0].reserve != seen[1].reserve


def test_tools_that_come_as_another_equal_list_are_not_counted_again():
    session, messages = open_session(), [{"role": "user", "content": "hi"}]
    session.prepare(messages, tools=TOOLS)
    same = count_calls(lambda: session.prepare(messages, tools=TOOLS))
    equal = count_calls(lambda: session.prepare(messages, tools=copy.deepcopy(TOOLS)))
    deep = count_calls(lambda: copy.deepcopy(TOOLS))
    assert equal <= same + deep + 5


def test_a_tool_that_changes_in_the_middle_is_counted_again():
    session, messages = open_session(), [{"role": "user", "content": "hi"}]
    before = session.prepare(messages, tools=TOOLS).budget.breakdown.tools
    longer = copy.deepcopy(TOOLS)
    longer[0]["function"]["description"] = "looks into a box " * 20
    assert session.prepare(messages, tools=longer).budget.breakdown.tools > before


def test_a_history_of_fresh_objects_is_compared_without_a_loop_in_python():
    """A framework makes its messages anew in every turn; only new ones may cost more than a comparison."""
    calls = []
    for turns in (10, 50):
        session, messages = open_session(), history(turns)
        session.prepare(copy.deepcopy(messages))
        fresh = copy.deepcopy(messages)
        calls.append(count_calls(lambda fresh=fresh, session=session: session.prepare(fresh)))
    assert calls[1] <= calls[0] + 10


@pytest.mark.few_values(2)
@pytest.mark.parametrize("bring", [lambda known: known, list, copy.deepcopy], ids=["own", "list", "copies"])
@pytest.mark.parametrize("window", ["1M", "4k"], ids=["unfolded", "folded"])
def test_a_turn_takes_as_many_calls_however_long_the_history_is(bring, window):
    calls = []
    for turns in (few_or_all(100, 200), few_or_all(400, 800)):
        session = refold.open("turn", store="memory:", window=window, format="openai", now=lambda: 0.0)
        messages = history(turns)
        session.prepare(messages)
        assert bool(session.folds()) == (window == "4k")
        session.prepare(bring(messages))
        messages.append({"role": "user", "content": "and now?"})
        brought = bring(messages)
        calls.append(count_calls(lambda brought=brought, session=session: session.prepare(brought)))
        assert session.stats().said == len(messages)
    assert calls[1] <= calls[0] * 1.1


def prepare_and_count(session, messages, count):
    found = []
    made = count(lambda: found.append(session.prepare(messages)))
    return found[0], made


def send_folded(turns=100):
    """Return a session behind a fold that has shortened many outputs, with its list and what it sent last."""
    never = refold.presets.get("refold", trigger_tokens=None)
    session = refold.open("sent", store="memory:", window="9M", policy=never, now=lambda: 0.0)
    messages = [
        message | ({"content": "a line of words\n" * 120} if message["role"] == "tool" else {})
        for message in history(turns)
    ]
    session.prepare(messages)
    session.compact(target=refold.count(messages) * 3 // 5)
    return session, messages, session.prepare(messages)


@pytest.mark.parametrize("count", [count_calls, count_lines])
@pytest.mark.parametrize("continues", ["list", "view"])
def test_a_turn_takes_as_many_steps_however_many_messages_a_fold_has_shortened(continues, count):
    made = []
    for turns in (50, 200):
        session, messages, ready = send_folded(turns)
        assert ready.places.count(None) > turns // 2
        for _ in range(3):  # the first list that continues a view is compared with everything said
            messages = ready.messages if continues == "view" else messages
            messages.append({"role": "user", "content": "and now?"})
            ready, steps = prepare_and_count(session, messages, count)
        made.append(steps)
    assert made[1] <= made[0] + 10


def test_what_a_caller_changes_in_its_list_is_sent_behind_a_fold_as_well():
    session, messages, ready = send_folded()
    own = [at for at, place in enumerate(ready.places) if place is not None]
    for at in (own[3], own[len(own) // 2], own[-3]):
        messages[ready.places[at]]["note"] = "changed in place"
        assert session.prepare(messages).messages[at] is messages[ready.places[at]]
    equal = copy.deepcopy(messages)
    sent = session.prepare(equal)
    assert sent.messages[own[5]] is equal[sent.places[own[5]]]
    equal[sent.places[own[5]]]["note"] = "another object"
    assert session.prepare(equal).messages[own[5]]["note"] == "another object"


@pytest.mark.parametrize("number", [0, 1, -1, -20])
def test_a_cache_mark_that_a_caller_put_into_a_copy_is_not_sent_again(number):
    session, messages, ready = send_folded()
    changed = [at for at, place in enumerate(ready.places) if place is None][number]
    ready.messages[changed]["cache_control"] = {"type": "ephemeral"}
    messages.append({"role": "user", "content": "and now?"})
    assert "cache_control" not in session.prepare(messages).messages[changed]


def test_copies_that_were_made_for_somebody_else_are_chosen_anew():
    session, messages, ready = send_folded()
    made = [at for at, place in enumerate(ready.places) if place is None]
    session.view()
    ready.messages[made[40]]["content"] = "changed by the caller"
    messages.append({"role": "user", "content": "and now?"})
    assert session.prepare(messages).messages[made[40]]["content"] != "changed by the caller"


@pytest.mark.parametrize(("at", "turns"), [(-3, 1), (5, 8)])
def test_a_change_in_a_view_that_a_caller_continues_begins_a_branch(at, turns):
    """Near its end at once, further back when its stretch is compared."""
    session, _, ready = send_folded()
    view = ready.messages
    for number in range(3):
        view.append({"role": "user", "content": f"and now {number}?"})
        view = session.prepare(view).messages
    place = range(len(view))[at]
    while view[place]["role"] != "assistant":
        place -= 1
    view[place]["content"] = "other words"
    for _ in range(turns):
        view = session.prepare(view).messages
    assert any(message.get("content") == "other words" for message in session.view())


class Looked(list):
    """A list that counts the messages of its slices."""

    looked_at = 0

    def __getitem__(self, key):
        if isinstance(key, slice):
            self.looked_at += len(range(*key.indices(len(self))))
        return super().__getitem__(key)


@pytest.mark.parametrize("short", [20, 5_000])
@pytest.mark.parametrize("continues", ["list", "view"])
def test_a_turn_copies_as_much_of_a_list_that_grows_however_long_it_is(monkeypatch, continues, short):
    """What is new, the newest messages and a stretch of the others; also of a view that comes back each time."""
    for module in ("steps.take_in", "state.caller_history"):
        monkeypatch.setattr(f"refold.session.{module}.SHORT", short)
    looked = []
    for turns in (50, 200):
        session, messages, _ = send_folded(turns)
        session.compact("truncate", keep=turns * 3)  # a view as long as the list is compared with that, too
        view = session.prepare(messages).messages
        messages = Looked(view if continues == "view" else messages)
        for _ in range(3):  # the first list that continues a view is compared with everything said
            messages.append({"role": "user", "content": "and now?"})
            messages.looked_at = 0
            sent = session.prepare(messages).messages
        assert sent is not messages
        looked.append(messages.looked_at)
    assert max(looked) < 120  # 32 of the newest, a stretch of 64, and what is new


def test_a_turn_that_continues_a_view_makes_no_copies(monkeypatch):
    """The caller has all of it: only a later turn that needs copies makes them."""
    session, _, ready = send_folded()
    view = ready.messages
    for turn in range(3):
        view.append({"role": "user", "content": f"and now {turn}?"})
        copied, copy_item = [], sys.modules["refold.session.state.caller_history"].copy_item
        with monkeypatch.context() as patched:
            patched.setattr(
                "refold.session.state.caller_history.copy_item",
                lambda item, copied=copied, copy_item=copy_item: copied.append(item) or copy_item(item),
            )
            view = session.prepare(view).messages
    assert copied == []
    assert session.prepare().messages == view
    assert session.prepare(view).origins == [*range(len(view))]


@pytest.mark.parametrize(("turns", "is_held"), [(10, True), (300, False)])
def test_a_session_holds_no_long_list_of_the_callers(turns, is_held):
    """To free one takes a look at each message, and a caller may make a new list in each turn."""
    session, messages = open_session(), history(turns)
    for _ in range(2):
        held = weakref.ref(brought := Looked(messages))
        assert session.prepare(brought).messages is brought
        del brought
        assert (held() is not None) == is_held


def test_a_turn_of_a_talk_with_gemini_takes_as_many_calls_however_long_it_is():
    calls = []
    for turns in (50, 200):
        session = refold.open("turn", store="memory:", window="1M", now=lambda: 0.0)
        words = [(role, f"words {turn}") for turn in range(turns) for role in ("user", "model")]
        contents = [
            {"role": role, "parts": [{"text": text}]} for role, text in [*words, ("user", "and now?")]
        ]
        session.prepare(contents[:-2])
        calls.append(count_calls(lambda session=session, contents=contents: session.prepare(contents)))
    assert calls[1] <= calls[0] + 10


@pytest.mark.parametrize("style", ["gemini", "openai"])
def test_a_turn_with_calls_without_ids_takes_as_many_calls_however_many_there_were(style):
    calls = []
    for turns in (50, 200):
        session = refold.open("turn", store="memory:", window="9M", now=lambda: 0.0)
        if style == "gemini":
            call = {"role": "model", "parts": [{"functionCall": {"name": "look", "args": {}}}]}
            result = {"role": "user", "parts": [{"functionResponse": {"name": "look", "response": {}}}]}
        else:
            call = {"role": "assistant", "content": None, "function_call": {"name": "look", "arguments": ""}}
            result = {"role": "function", "name": "look", "content": "no"}
        messages = [call, result] * turns
        session.prepare(messages[:-4])
        session.prepare(messages[:-2])  # which looks at all of them once
        calls.append(count_calls(lambda session=session, messages=messages: session.prepare(messages)))
        assert session.stats().said == 2 * turns
    assert calls[1] <= calls[0] + 10


def walk(session, messages, step):
    """Run a script of messages from its first turn on; returns the calls of each turn."""
    calls = []
    for end in range(1, len(messages) + 1, step):
        handed = copy.deepcopy(messages[:end])
        calls.append(count_calls(lambda handed=handed: session.prepare(handed)))
        session.observe(answer(used=session.budget().used))
    return calls


@pytest.mark.parametrize("reopened", [False, True], ids=["same", "reopened"])
def test_a_turn_along_stored_messages_takes_as_many_calls_however_many_there_are(reopened):
    store, messages = open_store("memory:", now=lambda: 0.0), history(30)
    options = {"store": store, "window": "1M", "format": "openai", "now": lambda: 0.0}
    session = refold.open("turn", **options)
    walk(session, messages, 4)
    for _ in range(3):
        session = refold.open("turn", **options) if reopened else session
        calls = walk(session, messages, 4)
        assert session.stats().said == len(messages) - 3
        # The second turn looks for the end of the stored branch, and so may the last one.
        assert max(calls[1:]) <= calls[2] * 1.2


def test_a_turn_along_stored_folds_reads_all_of_it_only_where_a_fold_was_made():
    session = refold.open("turn", store="memory:", window="32k", format="openai", now=lambda: 0.0)
    messages = list(work(30))
    for _ in range(3):
        calls = walk(session, messages, 3)
    folds = len(session.folds())
    assert folds >= 5
    assert sum(count > 5_000 for count in calls[1:]) == folds  # 14,000 and more there, else 3,200


def talk(count):
    roles = ("user", "assistant")
    return [
        {"role": roles[place % 2], "content": f"line {place} of src/f{place}.py " * 9}
        for place in range(count)
    ]


def test_a_long_way_along_stored_messages_loses_no_report(monkeypatch):
    monkeypatch.setattr("refold.session.steps.load._MAX_READ_BACK", 20)
    store, messages = open_store("memory:", now=lambda: 0.0), talk(60)
    options = {"store": store, "window": "1M", "format": "openai", "now": lambda: 0.0}
    first = refold.open("turn", **options)
    first.prepare(messages[:21])
    first.observe(answer(used=first.budget().used))
    first.prepare(messages)
    session = refold.open("turn", **options)
    for end in (21, 23, 59):
        session.prepare(messages[:end])
    report = session.state.accounting.report
    assert (report.messages, report.holds) == (21, True)


def summarise(question):
    del question
    return "The parser is ported to Rust, src/f1.py was read, and the public API stays as it is. " * 5


def test_a_session_that_walks_along_holds_no_folds_that_it_does_not_show():
    store, messages = open_store("memory:", now=lambda: 0.0), talk(80)
    options = {"store": store, "window": "1M", "format": "openai", "now": lambda: 0.0, "ask": summarise}
    first = refold.open("turn", **options)
    for end in range(21, 80, 6):
        first.prepare(messages[:end])
        if end < 60:
            first.compact(target=1_200)
    walked = refold.open("turn", **options)
    for end in range(63, 80, 4):
        walked.prepare(copy.deepcopy(messages[:end]))
    held = [entry for entry in walked.state.position.trail.attempts if entry.kind == "fold"]
    assert len(held) >= 5
    assert max(len(entry.body) for entry in held) < 100  # 5,000 and more with their messages


def test_a_list_that_grows_along_stored_messages_is_known_as_the_callers_own():
    """Only parts of such a list are compared by content in each turn."""
    store, messages = open_store("memory:", now=lambda: 0.0), talk(40)
    options = {"store": store, "window": "1M", "format": "openai", "now": lambda: 0.0}
    refold.open("turn", **options).prepare(messages)
    session, own = refold.open("turn", **options), messages[:21]
    for end in range(21, 40, 2):
        own += messages[len(own) : end]
        session.prepare(own)
        assert session.state.caller.caller_list is own
        assert len(session.state.caller.caller_objects) == end


def test_a_change_of_the_format_on_the_way_keeps_the_whole_list_known():
    store = open_store("memory:", now=lambda: 0.0)
    messages = talk(4)
    messages += [{"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": "ok"}]}]
    messages[3] = {
        "role": "assistant",
        "content": [{"type": "tool_use", "id": "c", "name": "look", "input": {"n": 1}}],
    }
    messages += talk(9)[1:]
    options = {"store": store, "window": "1M", "now": lambda: 0.0}
    first = refold.open("turn", **options)
    for end in (2, len(messages)):
        first.prepare(messages[:end])
    session = refold.open("turn", **options)
    for end in (1, 2, 6):
        session.prepare(copy.deepcopy(messages[:end]))
    assert session.state.caller.said_items == messages[:6]


def test_a_view_without_a_list_takes_as_many_calls_however_long_it_is():
    calls = []
    for turns in (100, 800):
        session = open_session()
        session.say(history(turns))
        session.prepare()
        calls.append(count_calls(session.prepare))
    assert calls[1] <= calls[0] + 10


def test_a_moved_cache_mark_costs_as_much_however_long_the_history_is():
    def mark(messages):
        last = messages[-1]
        block = {"type": "text", "text": last["content"], "cache_control": {"type": "ephemeral"}}
        return [*copy.deepcopy(messages[:-1]), {**last, "content": [block]}]

    calls = []
    for turns in (100, 800):
        session, messages = open_session(), history(turns)
        session.prepare(mark(messages))
        messages.append({"role": "user", "content": "and now?"})
        marked = mark(messages)
        calls.append(count_calls(lambda marked=marked, session=session: session.prepare(marked)))
        assert session.stats().said == len(messages)
    assert calls[1] <= calls[0] * 1.2  # one block of messages is looked at one by one


def test_a_message_that_a_fold_made_costs_a_few_calls_in_a_turn():
    """A view of a large window has hundreds of shortened messages, and every turn sends all of them."""
    calls, made = [], []
    for window in ("8k", "32k"):
        session = refold.open("turn", store="memory:", window=window, format="openai", now=lambda: 0.0)
        messages = list(work(50))
        session.prepare(messages)
        messages.append({"role": "user", "content": "and now?"})
        calls.append(count_calls(lambda messages=messages, session=session: session.prepare(messages)))
        made.append(sum(place is None for place in session.prepare(messages).places))
    assert made[1] >= made[0] + 20
    assert calls[1] - calls[0] <= 8 * (made[1] - made[0])


def work(turns):
    """An agent that reads files and looks back at none of them."""
    for turn in range(turns):
        lines = [f"{line:6}\tdef part_{turn}_{line}(value): return value + {line}" for line in range(1, 120)]
        yield {"role": "user", "content": f"Look at part {turn}. Never rename part {turn}."}
        yield written_call(f"c{turn}", f'{{"path": "src/part_{turn}.py"}}', f"I read part {turn} now.")
        yield {"role": "tool", "tool_call_id": f"c{turn}", "content": "\n".join(lines)}


def check_folds(seen):
    """Let a session fold ten times; no fold may see what it or the one before it has seen already."""
    session = refold.open("folds", store="memory:", window="16k", now=lambda: 0.0)
    before, folds, looks = set(), 0, 0
    for message in work(60):
        session.say(message)
        if session.prepare().fold is None:
            continue
        folds, looks = folds + 1, looks + len(seen)
        assert len(seen) == len(set(seen))
        assert before.isdisjoint(seen)
        before = set(seen)
        seen.clear()
    assert folds >= 10
    assert looks >= 20


def test_no_fold_looks_at_an_output_that_the_last_one_looked_at(monkeypatch):
    seen, make_plan = [], sys.modules["refold.core.outputs.shrink"].make_plan
    monkeypatch.setattr(
        "refold.core.outputs.shrink.make_plan", lambda text: seen.append(text) or make_plan(text)
    )
    check_folds(seen)


def test_no_fold_reads_a_cut_message_that_the_last_one_read(monkeypatch):
    seen, read_said = [], sys.modules["refold.session.steps.compact"].read_said

    def read(state, ranges):
        seen.extend(stretch.first for stretch in ranges)
        return read_said(state, ranges)

    monkeypatch.setattr("refold.session.steps.compact.read_said", read)
    check_folds(seen)


def test_a_fold_reads_no_message_that_is_read_already(monkeypatch):
    """It reads what it puts, and those cut by the last fold as they were said; not the view around them."""
    session, folds = refold.open("folds", store="memory:", window="16k", format="openai"), 0
    seen, read_message = [], sys.modules["refold.formats.openai_chat.read"]._read_message

    def read(positions, item):
        seen.append(id(item))
        return read_message(positions, item)

    monkeypatch.setattr("refold.formats.openai_chat.read._read_message", read)
    for message in work(30):
        session.say(message)
        held = {id(item) for item in session.state.loaded.items}
        seen.clear()
        folds += session.prepare().fold is not None
        assert held.isdisjoint(seen)
    assert folds >= 5
