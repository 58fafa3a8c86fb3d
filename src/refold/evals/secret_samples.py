"""Make secrets from a seed, and ordinary text that looks like them; the secrets open nothing.

`data/secrets.toml` has the kinds. This file makes the values that have a structure of their own.
"""

import base64
import hashlib
import json
import random
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from string import ascii_letters, ascii_uppercase, digits
from typing import Any, Final

from refold.evals.methods import make_tool_use

_MIXED: Final = ascii_letters + digits
_LETTERS: Final = {
    "mixed": _MIXED,
    "hex": "0123456789abcdef",
    "base32": ascii_uppercase + "234567",
    "mixed _-": _MIXED + "_-",
    "mixed -_": _MIXED + "-_",
    "mixed +/": _MIXED + "+/",
}
_WORDS: Final = ("harbour", "velvet", "copper", "meadow", "lantern", "orchid", "granite", "falcon")
KINDS: Final[dict[str, dict[str, Any]]] = tomllib.loads(
    files("refold.evals").joinpath("data/secrets.toml").read_text(encoding="utf-8")
)


@dataclass(frozen=True, slots=True)
class PlantedSecret:
    """A secret, and the text it stands in."""

    kind: str
    value: str
    """The secret itself, which must not get through."""
    text: str


def make_secrets(count: int, seed: int) -> list[PlantedSecret]:
    """Make `count` secrets: every kind in turn, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # they open nothing, and must be the same for everybody
    kinds = list(KINDS)
    return [
        PlantedSecret(kind, *_make_secret(KINDS[kind], chance))
        for kind in (kinds[number % len(kinds)] for number in range(count))
    ]


def _make_secret(kind: dict[str, Any], chance: random.Random) -> tuple[str, str]:
    """Return a value and the text around it."""
    if "maker" in kind:
        return _MAKERS[kind["maker"]](chance)
    around = kind.get("around", "{value}")
    if "letters" in kind:
        value = kind.get("prefix", "") + _random_text(chance, _LETTERS[kind["letters"]], kind["count"])
        return value, around.replace("{value}", value)
    value = _make_password(chance)
    return value, around.replace("{value}", value).replace("{word}", chance.choice(_WORDS))


def _random_text(chance: random.Random, letters: str, count: int) -> str:
    return "".join(chance.choices(letters, k=count))


def _make_password(chance: random.Random) -> str:
    word, number = chance.choice(_WORDS).title(), _random_text(chance, digits, 3)
    return word + number + chance.choice("!?%-_") + _random_text(chance, _MIXED, 4)


def _make_key_file(chance: random.Random) -> str:
    body = base64.b64encode(chance.randbytes(600)).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    kind = chance.choice(("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


def make_card_number(chance: random.Random) -> str:
    """Make a card number of sixteen digits with the right check digit."""
    body = (chance.choice(("4", "51", "55")) + _random_text(chance, digits, 15))[:15]
    # Luhn: every second digit is doubled, and the digits of the products are added up
    doubled = [sum(divmod(int(digit) * 2, 10)) for digit in body[::2]]
    return body + str(-(sum(doubled) + sum(map(int, body[1::2]))) % 10)


def _card(chance: random.Random) -> tuple[str, str]:
    value = make_card_number(chance)
    shown = " ".join(value[at : at + 4] for at in range(0, 16, 4)) if chance.random() < 0.5 else value
    return shown, f"Charge the card {shown}, expires 09/29."


def _jwt(chance: random.Random) -> tuple[str, str]:
    def encode(value: bytes) -> str:
        return base64.urlsafe_b64encode(value).decode().rstrip("=")

    claims = {"sub": _random_text(chance, digits, 8), "name": chance.choice(_WORDS)}
    head, body = encode(b'{"alg":"HS256","typ":"JWT"}'), encode(json.dumps(claims).encode())
    value = f"{head}.{body}.{encode(chance.randbytes(32))}"
    return value, f"The session answered with {value} and a date."


def _private_key(chance: random.Random) -> tuple[str, str]:
    value = _make_key_file(chance)
    return value.split("\n")[2], f"Here is the file:\n{value}\n"


def _service_account(chance: random.Random) -> tuple[str, str]:
    value = _make_key_file(chance)
    account = {"type": "service_account", "project_id": chance.choice(_WORDS), "private_key": value}
    return value.split("\n")[2], json.dumps(account)


def _basic_header(chance: random.Random) -> tuple[str, str]:
    value = base64.b64encode(f"{chance.choice(_WORDS)}:{_make_password(chance)}".encode()).decode()
    return value, f"Authorization: Basic {value}"


def _pass_phrase(chance: random.Random) -> tuple[str, str]:
    value = "-".join(chance.sample(_WORDS, 4))
    return value, f"passphrase: {value}"


def _dotted(around: str, *parts: tuple[str, str, int]) -> "Callable[[random.Random], tuple[str, str]]":
    """Return a maker of values in several random parts, each behind fixed text."""

    def make(chance: random.Random) -> tuple[str, str]:
        value = "".join(fixed + _random_text(chance, letters, count) for fixed, letters, count in parts)
        return value, around.replace("{value}", value)

    return make


_MAKERS: Final[dict[str, Callable[[random.Random], tuple[str, str]]]] = {
    "jwt": _jwt,
    "private": _private_key,
    "account": _service_account,
    "basic": _basic_header,
    "card": _card,
    "pass_phrase": _pass_phrase,
    "slack_token": _dotted("slack says {value}", ("xoxb-", digits, 11), ("-", digits, 12), ("-", _MIXED, 24)),
    "sendgrid_key": _dotted("mail: {value}", ("SG.", _MIXED, 22), (".", _MIXED, 43)),
    "telegram_token": _dotted("bot {value}", ("", "123456789", 9), (":AA", _MIXED, 33)),
}
"""Makers of the values that letters and a count do not describe, by the name in the table."""


def hide_in_messages(planted: PlantedSecret, number: int) -> list[dict[str, Any]]:
    """Return messages with the secret: said by the user, printed by a tool, or given to a tool, in turn."""
    if number % 3 == 0:
        return [{"role": "user", "content": planted.text}]
    given = planted.text if number % 3 == 1 else "cat .env"
    printed = "done" if number % 3 == 1 else planted.text
    call = {"name": "run", "arguments": json.dumps({"command": given})}
    return make_tool_use(f"c{number}", call, printed, "I look at the settings.")


def make_lookalikes(count: int, seed: int) -> list[str]:
    """Make ordinary lines that only look like secrets: commits, digests, ids, versions, code."""
    chance = random.Random(seed + 1)  # noqa: S311  # the same lines for everybody
    lines: list[str] = []
    for number in range(count):
        digest = hashlib.sha256(str(chance.random()).encode()).hexdigest()
        word, other = chance.sample(_WORDS, 2)
        forms = (
            f"commit {digest[:40]}",
            f"* {digest[:7]} fix the {word} of {other}",
            f"id: {digest[:8]}-{digest[8:12]}-4{digest[13:16]}-a{digest[17:20]}-{digest[20:32]}",
            f"sha256:{digest}  {word}.tar.gz",
            f'"integrity": "sha512-{base64.b64encode(chance.randbytes(64)).decode()}"',
            f"{word}_{other}_{number} = compute_{word}(password=None, token=args.token)",
            f"def reset_password(self, {word}_token: str) -> None:",
            f"PASSWORD_MIN_LENGTH = {chance.randint(8, 20)}",
            f"The {word} service reads its token from the environment variable {word.upper()}_TOKEN.",
            f"order {chance.randint(10**9, 10**10)}: {chance.randint(1, 9)} x {word}",
            f"phone +4930{chance.randint(10**6, 10**7)}",
            f"https://{word}.example/{other}/{digest[:12]}?page={number}",
            f"2026-03-04T12:{chance.randint(10, 59)}:01Z {word}[{number}]: session opened",
            f"password: ${{{word.upper()}_PASSWORD}}",
            f"Please reset your password for the {word} account and tell {other.title()}.",
            f"{word}=={chance.randint(1, 9)}.{chance.randint(0, 20)} --hash=sha256:{digest}",
            f"assert hash({word!r}) != {chance.randint(10**15, 10**16)}",
        )
        lines.append(forms[number % len(forms)])
    return lines
