"""A planted key never reaches a summary, a receipt, an event or an exported file; nor the store, if wished."""

import json
from types import SimpleNamespace

import pytest
from talks import dumped, opened, reply, talk, user

import refold
from refold.errors import RefoldError
from refold.stores import open_store
from refold.testing import Scripted

KEY = "sk-ant-api03-" + "Zq7Rk2Vx9Lm4Tn8Bw3Ys6Hd1Fg5Jc0Pa" * 2 + "-AAAAAAAA"


def spoiled():
    """A talk with the key in every kind of place."""
    history = talk(40, size=800)
    for index in range(0, 80, 9):
        history[index] = {**history[index], "content": f"{history[index]['content']} key {KEY} end"}
    return history


ANSWERS = [
    pytest.param(f"The user gave the key {KEY} and asked much.", id="echo"),
    pytest.param(RuntimeError(f"401 bad key {KEY}"), id="error"),
    pytest.param("All questions were answered.", id="clean"),
]


@pytest.mark.few_values(2)
@pytest.mark.parametrize("answer", ANSWERS)
@pytest.mark.parametrize("mode", ["export", "storage"])
def test_a_planted_key_stays_inside(mode, answer, tmp_path):
    seen = []
    model = Scripted(answer)
    place = tmp_path / "store"
    with opened(store=f"jsonl:{place}", ask=model, redaction=mode) as session:
        session.subscribe(seen.append)
        history = spoiled()
        ready = session.prepare(history)
        assert ready.fold
        assert model.asked
        assert not any(KEY in ask or KEY in ask.system for ask in model.asked)
        put = [message for message in ready.messages if message not in history]
        assert put
        assert KEY not in dumped(put)
        assert KEY not in (ready.outcome.summary or "")
        session.compact(target=900)
        for one in session.log(kinds=("fold", "attempt")):
            assert KEY not in one.body + one.about + one.text
        for event in seen:
            assert KEY not in json.dumps(event.as_dict())
        for form in ("ripple", "neurolink"):
            folder = tmp_path / form
            for name in session.export(str(folder), form=form):
                assert KEY not in (folder / name).read_text()
        view = session.view()
        if mode == "export":
            assert KEY in dumped(session.original("#1"))
    bytes_of_all = b"".join(path.read_bytes() for path in place.rglob("*") if path.is_file())
    assert (KEY.encode() in bytes_of_all) == (mode == "export")
    with opened(store=f"jsonl:{place}", redaction=mode) as session:
        again = session.view()
        assert [m for m in again if m in put] == [m for m in view if m in put]
        if mode == "export":
            assert again == view


def test_stored_without_the_key_and_sent_again_stores_nothing(tmp_path):
    address = f"sqlite:{tmp_path / 'a.db'}"
    history = [user(f"my key is {KEY}"), reply("keep it"), user("ok")]
    with opened(store=address, redaction="storage") as session:
        assert session.prepare(history).messages is history
    with opened(store=address, redaction="storage") as session:
        session.prepare(history)
        session.prepare([*history, reply("fine"), user("go on")])
        assert len(session.log(kinds=("said",))) == 5
        assert next(iter(session.recall("key"))).text.startswith("my key is [redacted")
    assert KEY.encode() not in (tmp_path / "a.db").read_bytes()


def test_off_is_off():
    with opened() as session:
        session.prepare([user(KEY)])
        assert session.original("#1") == [user(KEY)]
    with pytest.raises(RefoldError):
        opened(redaction="maybe")


def test_an_async_model_is_redacted_too():
    import asyncio

    import refold

    model = Scripted("All questions were answered.")

    async def run():
        async with refold.aopen(
            "talk", store=open_store("memory:"), window=8_000, ask=model.later, redaction="export"
        ) as session:
            return await session.prepare(spoiled())

    assert asyncio.run(run()).fold
    assert not any(KEY in ask for ask in model.asked)


@pytest.mark.parametrize("mode", ["export", "storage"])
def test_a_key_in_the_name_of_a_checkpoint_stays_inside(mode, tmp_path):
    with opened(store=f"jsonl:{tmp_path / 'store'}", redaction=mode) as session:
        session.say("hi")
        name = session.checkpoint(f"before {KEY}")
        session.say("there")
        assert session.rewind(name) == 1
        session.export(tmp_path / "out")
    written = "".join(path.read_text() for path in (tmp_path / "out").rglob("*.json*"))
    assert "before [redacted" in written
    assert KEY not in written
    if mode == "storage":
        stored = "".join(path.read_text() for path in (tmp_path / "store").rglob("*") if path.is_file())
        assert KEY not in stored


def test_behind_a_message_that_lost_a_secret_the_others_have_other_names(tmp_path):
    """The gateway hands over the names that its messages have as they are said."""
    messages = [user(f"The key is {KEY}."), reply("Fine."), user("Go on.")]
    with opened(store=f"sqlite:{tmp_path}/plain.db") as plain:
        plain.prepare(messages)
        entries = plain.state.store.read(plain.name, plain.state.head.place)
        names = [(entry.name, entry.parent) for entry in entries if entry.kind == "said"]
    parsed = [refold.Message(value["role"], value["content"]) for value in messages]
    read = [
        SimpleNamespace(value=value, message=message, name=name, parent=parent)
        for value, message, (name, parent) in zip(messages, parsed, names, strict=True)
    ]
    with opened(store=f"sqlite:{tmp_path}/a.db", redaction="storage") as session:
        rest = session._prepare_at_once(messages, system=None, tools=None, read=read)
        assert rest.finish().messages == messages
        assert list(session.state.store.check()) == []
