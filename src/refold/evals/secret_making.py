"""Planted secrets, made by a seeded generator, which open nothing; and ordinary text that looks alike."""

import base64
import hashlib
import json
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from string import ascii_letters, ascii_uppercase, digits
from typing import Any, Final

_MIXED: Final = ascii_letters + digits
_HEX: Final = "0123456789abcdef"
_WORDS: Final = ("harbour", "velvet", "copper", "meadow", "lantern", "orchid", "granite", "falcon")


@dataclass(frozen=True, slots=True)
class Planted:
    """A secret as it stands in a text."""

    kind: str
    value: str
    """What must not get through."""
    text: str


def _some(chance: random.Random, letters: str, count: int) -> str:
    return "".join(chance.choices(letters, k=count))


def _password(chance: random.Random) -> str:
    return (
        chance.choice(_WORDS).title()
        + _some(chance, digits, 3)
        + chance.choice("!?%-_")
        + _some(chance, _MIXED, 4)
    )


def _url_safe(value: bytes) -> str:
    return base64.urlsafe_b64encode(value).decode().rstrip("=")


def _token(chance: random.Random) -> str:
    head = _url_safe(b'{"alg":"HS256","typ":"JWT"}')
    body = _url_safe(json.dumps({"sub": _some(chance, digits, 8), "name": chance.choice(_WORDS)}).encode())
    return f"{head}.{body}.{_url_safe(chance.randbytes(32))}"


def _key(chance: random.Random) -> str:
    body = base64.b64encode(chance.randbytes(600)).decode()
    lines = "\n".join(body[at : at + 64] for at in range(0, len(body), 64))
    kind = chance.choice(("RSA PRIVATE KEY", "OPENSSH PRIVATE KEY", "EC PRIVATE KEY", "PRIVATE KEY"))
    return f"-----BEGIN {kind}-----\n{lines}\n-----END {kind}-----"


def card_number(chance: random.Random) -> str:
    """A number of sixteen digits with the right check digit."""
    first = chance.choice(("4", "51", "55")) + _some(chance, digits, 15)
    body = first[:15]
    total = sum(
        sum(divmod(int(digit) * 2, 10)) if at % 2 == 0 else int(digit) for at, digit in enumerate(body)
    )
    return body + str(-total % 10)


Maker = Callable[[random.Random], tuple[str, str]]
"""From chance to a value and the text around it."""


def _plain(prefix: str, letters: str, count: int, around: str = "{value}") -> Maker:
    def make(chance: random.Random) -> tuple[str, str]:
        value = prefix + _some(chance, letters, count)
        return value, around.replace("{value}", value)

    return make


def _with_password(around: str) -> Maker:
    def make(chance: random.Random) -> tuple[str, str]:
        value = _password(chance)
        return value, around.replace("{value}", value).replace("{word}", chance.choice(_WORDS))

    return make


def _basic(chance: random.Random) -> tuple[str, str]:
    value = base64.b64encode(f"{chance.choice(_WORDS)}:{_password(chance)}".encode()).decode()
    return value, f"Authorization: Basic {value}"


def _card(chance: random.Random) -> tuple[str, str]:
    value = card_number(chance)
    shown = " ".join(value[at : at + 4] for at in range(0, 16, 4)) if chance.random() < 0.5 else value
    return shown, f"Charge the card {shown}, expires 09/29."


def _private(chance: random.Random) -> tuple[str, str]:
    value = _key(chance)
    return value.split("\n")[2], f"Here is the file:\n{value}\n"


def _account(chance: random.Random) -> tuple[str, str]:
    value = _key(chance)
    told = {"type": "service_account", "project_id": chance.choice(_WORDS), "private_key": value}
    return value.split("\n")[2], json.dumps(told)


def _jwt(chance: random.Random) -> tuple[str, str]:
    value = _token(chance)
    return value, f"The session answered with {value} and a date."


KINDS: Final[dict[str, Maker]] = {
    "anthropic key": _plain("sk-ant-api03-", _MIXED + "_-", 90, "ANTHROPIC_API_KEY={value}"),
    "openai key": _plain("sk-proj-", _MIXED, 48, 'client = OpenAI(api_key="{value}")'),
    "google key": _plain("AIza", _MIXED + "_-", 35, "https://maps.example/api?key={value}&q=lisbon"),
    "github token": _plain("ghp_", _MIXED, 36, "git clone https://{value}@github.example/acme/site.git"),
    "github fine token": _plain("github_pat_", _MIXED, 82),
    "gitlab token": _plain("glpat-", _MIXED, 20, "export GITLAB={value}"),
    "slack token": lambda chance: (
        (
            value
            := f"xoxb-{_some(chance, digits, 11)}-{_some(chance, digits, 12)}-{_some(chance, _MIXED, 24)}"
        ),
        f"slack says {value}",
    ),
    "slack hook": _plain(
        "T0AB12CDE/B0FG34HIJ/", _MIXED, 24, "post to https://hooks.slack.com/services/{value}"
    ),
    "aws key id": _plain("AKIA", ascii_uppercase + "234567", 16, "aws_access_key_id = {value}"),
    "aws secret": _plain("", _MIXED + "+/", 40, "aws_secret_access_key = {value}"),
    "stripe key": _plain("sk_live_", _MIXED, 24, "STRIPE={value}"),
    "huggingface token": _plain("hf_", ascii_letters + digits, 34, "login with {value} first"),
    "npm token": _plain("npm_", _MIXED, 36, "//registry.example/:_authToken={value}"),
    "sendgrid key": lambda chance: (
        (value := f"SG.{_some(chance, _MIXED, 22)}.{_some(chance, _MIXED, 43)}"),
        f"mail: {value}",
    ),
    "digitalocean token": _plain("dop_v1_", _HEX, 64),
    "vault token": _plain("hvs.", _MIXED, 90, "VAULT_TOKEN={value}"),
    "telegram token": lambda chance: (
        (value := f"{_some(chance, '123456789', 9)}:AA{_some(chance, _MIXED, 33)}"),
        f"bot {value}",
    ),
    "google refresh token": _plain("1//0", _MIXED + "_-", 60, '"refresh_token": "{value}"'),
    "web token": _jwt,
    "private key": _private,
    "service account": _account,
    "password in an address": _with_password("postgresql://{word}:{value}@db.internal:5432/app"),
    "mongo address": _with_password("mongodb+srv://{word}:{value}@cluster0.example.net/?retryWrites=true"),
    "redis address": _with_password("REDIS_URL=redis://:{value}@cache.internal:6379/0"),
    "connection string": _with_password(
        "Server=db;Database=app;User Id={word};Password={value};Encrypt=true"
    ),
    "storage account": _plain(
        "", _MIXED + "+/", 86, "DefaultEndpointsProtocol=https;AccountName=a;AccountKey={value}=="
    ),
    "env line": _with_password("DEBUG=1\nDB_PASSWORD={value}\nPORT=8080"),
    "env export": _plain("", _MIXED, 32, "export SESSION_SECRET={value}"),
    "yaml": _with_password("database:\n  user: app\n  password: {value}\n  port: 5432"),
    "json": _with_password('{"user": "{word}", "password": "{value}"}'),
    "prose": _with_password("By the way, my password is {value}, please log in for me."),
    "prose quoted": _with_password('The admin password for staging is "{value}".'),
    "shell option": _with_password("mysql -u {word} --password={value} -h db.internal app"),
    "curl user": _with_password("curl -u {word}:{value} https://api.internal/status"),
    "netrc": _with_password("machine git.internal login {word} password {value}"),
    "pass phrase": lambda chance: ((value := "-".join(chance.sample(_WORDS, 4))), f"passphrase: {value}"),
    "basic header": _basic,
    "bearer header": _plain("", _MIXED + "-_", 44, "Authorization: Bearer {value}"),
    "key header": _plain("", _MIXED, 32, "X-Api-Key: {value}"),
    "cookie": _plain("", _MIXED, 40, "Cookie: theme=dark; sessionid={value}; lang=en"),
    "set cookie": _plain("", _HEX, 64, "Set-Cookie: session={value}; Path=/; HttpOnly"),
    "hex secret": _plain("", _HEX, 64, 'SECRET_KEY = "{value}"'),
    "kubernetes secret": _plain("", _MIXED, 40, "kind: Secret\ndata:\n  token: {value}"),
    "card number": _card,
}
"""What a secret looks like, and what usually stands around it."""


def secrets(count: int, seed: int) -> list[Planted]:
    """So many secrets: every kind in turn, the same for the same seed."""
    chance = random.Random(seed)  # noqa: S311  # they open nothing, and must be the same for everybody
    kinds: Sequence[str] = list(KINDS)
    made = []
    for number in range(count):
        kind = kinds[number % len(kinds)]
        value, text = KINDS[kind](chance)
        made.append(Planted(kind, value, text))
    return made


def messages_with(planted: Planted, number: int) -> list[dict[str, Any]]:
    """The secret in a message: said by the user, printed by a tool, or given to one, in turn."""
    if number % 3 == 0:
        return [{"role": "user", "content": planted.text}]
    given = planted.text if number % 3 == 1 else "cat .env"
    printed = "done" if number % 3 == 1 else planted.text
    call = {"name": "run", "arguments": json.dumps({"command": given})}
    return [
        {
            "role": "assistant",
            "content": "I look at the settings.",
            "tool_calls": [{"id": f"c{number}", "type": "function", "function": call}],
        },
        {"role": "tool", "tool_call_id": f"c{number}", "content": printed},
    ]


def lookalikes(count: int, seed: int) -> list[str]:
    """Ordinary lines that look like secrets and are none: commits, digests, ids, versions, code."""
    chance = random.Random(seed + 1)  # noqa: S311  # the same lines for everybody
    made: list[str] = []
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
        made.append(forms[number % len(forms)])
    return made
