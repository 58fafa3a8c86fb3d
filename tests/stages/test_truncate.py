"""Truncate: a stretch leaves and words made without a model stand in its place."""

from refold.core.compaction.edits import apply_edits
from refold.core.compaction.keep_rules import Segment
from refold.core.compaction.task import Task
from refold.core.messages.message import SUMMARY, Message, ToolCall, ToolResult
from refold.policies.keep_rules import LastMessages
from refold.policies.systems.codebuddy import CODEBUDDY_COUNTER
from refold.stages.truncate import Truncate

SEEN = []


def words(messages, covered, task):
    SEEN.append((messages, covered, task))
    return f"{len(messages)} left"


def work(*messages, protected=()):
    return Task(
        messages=messages,
        sizes=tuple(CODEBUDDY_COUNTER.sizes(messages)),
        counter=CODEBUDDY_COUNTER,
        window=1_000,
        room=1_000,
        protected=frozenset(protected),
    )


def stage(keep=2, **more):
    return Truncate(keep=LastMessages(messages=keep), words=words, **more)


def talk(count):
    return tuple(Message("user" if i % 2 == 0 else "assistant", f"message {i}") for i in range(count))


def test_a_notice_takes_the_place_of_the_stretch():
    """One message, marked as put by a fold, with what it stands for."""
    messages = talk(6)
    step = stage(role="system")(work(*messages))
    (edit,) = step.edits
    (put,) = edit.put
    assert (edit.start, edit.end, edit.stage, edit.took) == (0, 4, "truncate", messages[:4])
    assert (put.role, put.text, put.source) == ("system", "4 left", SUMMARY)
    assert (put.meta["kind"], put.meta["messages"], put.meta["generation"]) == ("notice", 4, 1)
    assert step.note == edit.why == "4 messages told in a few words"
    assert apply_edits(messages, step.edits)[1:] == list(messages[4:])


def test_what_is_protected_stays_and_the_notice_stands_behind_it():
    """A guarded message in the stretch stays; the notice stands where the last ones left."""
    messages = talk(6)
    step = stage(name="digest")(work(*messages, protected={1}))
    assert [(edit.start, edit.end, len(edit.put), edit.stage) for edit in step.edits] == [
        (0, 1, 0, "digest"),
        (2, 4, 1, "digest"),
    ]
    assert [one.text for one in apply_edits(messages, step.edits)] == [
        "message 1",
        "3 left",
        "message 4",
        "message 5",
    ]


def test_where_nothing_may_leave():
    """Too few messages, nothing but guarded ones, nothing but summaries: no edit, and a word why."""
    assert stage(keep=6)(work(*talk(6))).note == "nothing may leave yet"
    assert stage()(work(*talk(4), protected={0, 1})).note == "nothing new would leave"
    old = Message("user", "told", source=SUMMARY)
    step = stage()(work(old, *talk(2)))
    assert (step.edits, step.note, step.failed) == ((), "nothing new would leave", False)


def test_files_and_generation_are_carried_on():
    """What an earlier summary knew, and what the stretch did to files, is in the notice's facts."""
    old = Message(
        "user", "told", source=SUMMARY, meta={"kind": "summary", "generation": 3, "read_files": ("a.py",)}
    )
    call = Message("assistant", (ToolCall("1", "write_file", {"path": "b.py", "content": "x"}),))
    result = Message("tool", (ToolResult("1", ()),))
    (edit,) = stage()(work(old, call, result, *talk(2))).edits
    meta = edit.put[0].meta
    assert (meta["generation"], meta["read_files"], meta["modified_files"]) == (4, ("a.py",), ("b.py",))


def test_the_users_last_request_is_handed_to_the_words():
    """Where the last request itself leaves, the words are told of it."""

    class All:
        def segment(self, measured):
            return Segment(0, len(measured.messages))

    Truncate(keep=All(), words=words)(work(*talk(2)))
    messages, covered, _ = SEEN[-1]
    assert covered.request == "message 0"
    assert [message.text for message in messages] == ["message 0", "message 1"]
