"""Planted secrets: every kind is found, ordinary text is not, and every border is looked at."""

import json
import random

from refold.evals.secret_samples import (
    KINDS,
    hide_in_messages,
    make_card_number,
    make_lookalikes,
    make_secrets,
)
from refold.evals.secrets import BORDERS, measure_policy
from refold.redaction.redact import SecretMemory, redact_item, redact_text


class Quiet:
    width = 80

    def show(self, *_):
        pass


def test_every_kind_is_found_in_its_text_and_in_a_call():
    for number, one in enumerate(make_secrets(3 * len(KINDS), 4)):
        assert one.value not in redact_text(one.text).value, one
        done = json.dumps([redact_item(message).value for message in hide_in_messages(one, number)])
        assert json.dumps(one.value)[1:-1] not in done, one


def test_ordinary_text_that_looks_alike_is_left_alone():
    for line in make_lookalikes(320, 4):
        assert redact_text(line).value == line


def test_cards_have_their_check_digit():
    chance = random.Random(1)
    for _ in range(20):
        assert redact_text(f"card {make_card_number(chance)}").secrets == 1
    assert redact_text("card 4111111111111112").secrets == 0
    assert redact_text("id 4111111111111111").secrets == 0


def test_a_secret_that_was_known_once_is_known_without_the_words_around_it():
    memory = SecretMemory()
    assert memory("Names: Harbour836x, src/a.py") == "Names: Harbour836x, src/a.py"
    memory({"role": "user", "content": "my password is Harbour836x."})
    assert memory("Names: Harbour836x, src/a.py") == "Names: [redacted:known], src/a.py"
    assert memory(["part rbour836x of it", {"k": "other"}]) == ["part [redacted:known] of it", {"k": "other"}]


def test_redaction_closes_every_border_and_its_absence_shows():
    planted = make_secrets(20, 0)
    found = {
        (mode, row["border"]): row
        for mode in ("off", "export", "storage")
        for row in measure_policy("refold", mode, planted, Quiet())
    }
    assert {border for _, border in found} == set(BORDERS)
    assert found["off", "export"]["past"] == 20
    assert found["off", "fold"]["past"] > 0
    assert not [key for key, row in found.items() if row["expected"] == 0 and row["past"]]
    assert found["export", "store"]["expected"] is None
    assert found["storage", "store"]["expected"] == 0
