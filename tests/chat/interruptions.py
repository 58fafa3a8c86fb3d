"""Ctrl-C at any moment: the session is whole, valid, and goes on; run by test_chat_interruptions, alone."""

import os
import random
import signal
import threading
import time
from contextlib import closing

import pytest
from chat_builders import make_conversation

import refold
from refold.chat import turns
from refold.stores import open_store
from sample_sizes import few_or_all
from scripted_chat import calls

WORDS = "the quick brown fox jumps over the lazy dog " * 12


@pytest.fixture
def _ignoring():
    """A key that is pressed too late ends no test."""
    before = signal.signal(signal.SIGINT, lambda *_: None)
    yield
    signal.signal(signal.SIGINT, before)


class Presser(threading.Thread):
    """Presses Ctrl-C now and then, for as long as it is let."""

    def __init__(self, chance: random.Random, most: float):
        super().__init__(daemon=True)
        self.chance, self.most, self.let, self.pressed = chance, most, True, 0

    def run(self):
        while self.let:
            time.sleep(self.chance.uniform(0, self.most))
            os.kill(os.getpid(), signal.SIGINT)
            self.pressed += 1


def ask(_question):
    time.sleep(0.002)
    return "## Goal\nMend the harbour wall.\n## Next\nMeasure it."


@pytest.mark.usefixtures("_ignoring")
@pytest.mark.parametrize(("seed", "most"), [(1, 0.08), (2, 0.02), (3, 0.005)])
def test_nothing_is_lost(tmp_path, seed, most):
    """Every word of the person is there afterwards, and every request was one a provider takes."""
    script = [calls(("list_dir", {}), ("read_file", {"path": "a"}), text="Wait."), WORDS] * 400
    (tmp_path / "a").write_text(WORDS)
    with closing(open_store(f"sqlite:{tmp_path}/s.db")) as store:
        chat = make_conversation(script, store=store, folder=tmp_path, window=3_000, ask=ask, pause=0.0005)
        presser = Presser(random.Random(seed), most)
        presser.start()
        said = []
        for number in range(few_or_all(24, 40)):
            try:
                with chat.interrupts.active():
                    said.append(f"question {number}")
                    for _ in turns.run_turn(chat, said[-1]):
                        pass
            except KeyboardInterrupt:
                pass
        presser.let = False
        presser.join()
        assert presser.pressed > 3
        list(turns.run_turn(chat, "the last one"))
        for sent in chat.client.seen:
            assert refold.validate(sent.messages, "openai") == []
        again = make_conversation(["Hello."], store=store, folder=tmp_path, window=3_000)
        assert again.session.view() == chat.session.view()
        told = [entry.value for entry in again.session.log(kinds=["said"])]
        found = [value["content"] for value in told if value["role"] == "user"]
        assert found == sorted(found, key=lambda text: int(text.split()[-1]) if "question" in text else 99)
        assert found[-1] == "the last one"
        assert len(set(found)) == len(found)
