"""Keys that are letters alone: a Hugging Face token has no digit in it."""

import random
import string

import pytest

from refold.redaction.redact import redact_text


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("form", ["{}", "token {} end", 'x = "{}"', "https://user:{}@host/", "{}\n"])
def test_a_token_of_letters_is_found(seed, form):
    chance = random.Random(seed)
    token = "hf_" + "".join(chance.choice(string.ascii_letters) for _ in range(34))
    assert token not in redact_text(form.format(token)).value


@pytest.mark.parametrize(
    "text",
    [
        "hf_" + "a" * 34,
        "hf_" + "abcdefghij" * 3 + "abcd",
        "hf_hub_download and hf_transfer are names",
        "xhf_" + "aB" * 17,
        "hf_" + "aB" * 17,
    ],
)
def test_a_name_that_begins_so_stays(text):
    assert redact_text(text).value == text
