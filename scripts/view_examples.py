"""The ten conversations of docs/data/views.md, and how each is folded. All of them are invented.

A conversation is a text in examples/conversations, or a stretch of examples/long-agent-session.json. What is
too long to write down by hand (a log, JSON results) is made here, the same on every machine.
"""

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Final

import refold

EXAMPLES: Final = Path(__file__).resolve().parent.parent / "examples"
Json = dict[str, Any]
Messages = list[Json]


@dataclass(frozen=True, slots=True)
class View:
    """What a model sees after a fold."""

    messages: Messages
    tokens: int
    folds: int = 1


@dataclass(frozen=True, slots=True)
class Example:
    """One conversation and the way it is folded."""

    title: str
    about: str
    target: str
    history: Callable[[], Messages]
    fold: Callable[[Messages], View]


# -- reading and making conversations -----------------------------------------------------------------------


def read_session(end: int) -> Messages:
    """Read the first messages of the long session of a coding agent, in the shape of OpenAI."""
    text = (EXAMPLES / "long-agent-session.json").read_text(encoding="utf-8")
    messages: Messages = json.loads(text)
    return messages[:end]


def read_anthropic(end: int) -> Messages:
    """Read the first messages of the same session in the shape of Anthropic; its system prompt is apart."""
    text = (EXAMPLES / "long-agent-session.anthropic.json").read_text(encoding="utf-8")
    messages: Messages = json.loads(text)["messages"]
    return messages[:end]


def read_conversation(name: str) -> Messages:
    """Read a conversation of examples/conversations."""
    text = (EXAMPLES / "conversations" / f"{name}.txt").read_text(encoding="utf-8")
    messages: Messages = []
    for block in re.split(r"^@@ ", text, flags=re.MULTILINE)[1:]:
        head, _, body = block.partition("\n")
        word, _, rest = head.partition(" ")
        messages += _make_messages(word, rest, body.rstrip("\n"), len(messages))
    return messages


def _make_messages(word: str, rest: str, body: str, number: int) -> Messages:
    """Make the messages of one step."""
    if word == "output":  # what a shell printed, to an agent without tool calls
        shown = f"<returncode>{rest}</returncode>\n<output>\n{body}\n</output>"
        return [{"role": "user", "content": shown}]
    if word != "call":
        return [{"role": "assistant" if word == "say" else word, "content": body}]
    tool, _, arguments = rest.partition(" ")
    call = {"id": f"c{number}", "type": "function", "function": {"name": tool, "arguments": arguments}}
    made = _MADE.get(body.strip("{}"))
    return [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": made() if made else body},
    ]


def make_log() -> str:
    """Make a log of about 3,000 lines; one in the middle tells why the import ended."""
    random = Random(1)  # noqa: S311  # the same every time is the point
    lines, second, failed = [], 2 * 3600 + 60, False
    for batch in range(1, 166):
        for part in range(18):
            second += part % 3 == 0 and random.randrange(1, 4)
            line = f"{_clock(second)} INFO  import batch={batch:04} record={random.randrange(10**7):010}"
            lines.append(f"{line} {'held back' if failed else random.choice(_STEPS)}")
            if (batch, part) == (114, 11):
                lines.append(f"{_clock(second)} {_REASON}")
                failed = True
    lines.append(f"{_clock(second)} INFO  import closing, exit status 3, stored=28455")
    return "\n".join(lines)


_REASON: Final = "ERROR import batch=0114 record=0007731908 leader has 23 bytes, expected 24"
_STEPS: Final = ("parsed", "indexed", "linked to authority", "holdings merged", "stored")


def _clock(second: int) -> str:
    return f"2025-03-03T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


def make_orders() -> str:
    """Make the orders of a customer: twelve, two of them of one minute with the same books."""
    random = Random(2)  # noqa: S311  # the same every time is the point
    orders = [_make_order(number, random) for number in range(70309, 70321)]
    return json.dumps({"count": len(orders), "next": None, "orders": orders}, indent=2)


def _make_order(number: int, random: Random) -> Json:
    double = {70311: "2025-06-04T18:02:07Z", 70312: "2025-06-04T18:02:48Z"}
    books = _BOOKS if number in double else [(_isbn(random), random.choice(_TITLES)) for _ in range(3)]
    items = [
        {"isbn": isbn, "title": title, "quantity": 1, "price_eur": 31.7, "tax_percent": 7}
        for isbn, title in books
    ]
    return {
        "id": f"O-{number}",
        "customer": "C-2291",
        "created": double.get(number, f"2025-06-{number - 70307:02}T09:14:20Z"),
        "state": "paid" if number in double else "delivered",
        "items": items,
        "shipment": {70311: "S-55810", 70312: None}.get(number, f"S-{number - 14509}"),
        "address": {"street": "Lindenweg 8", "city": "Marburg", "postcode": "35037", "country": "DE"},
        "total_eur": round(31.7 * len(items), 2),
    }


def _isbn(random: Random) -> str:
    return f"978-{random.randrange(10)}-{random.randrange(10**4, 10**5)}-{random.randrange(100, 999)}-0"


_TITLES: Final = (
    "Deep Water",
    "A Short History of Salt",
    "The Paper Garden",
    "Night Trains",
    "Bread and Stone",
)
_BOOKS: Final = (("978-3-16-148410-0", "The Long Way Up"), ("978-0-306-40615-7", "Atlas of Small Islands"))


def make_payments() -> str:
    """Make the payments of both orders, with the steps of each."""
    payments = [
        {
            "id": f"P-{order}-1",
            "order": order,
            "amount_eur": 63.4,
            "method": "card",
            "state": "captured",
            "steps": [
                {
                    "at": f"2025-06-04T18:0{2 + step // 3}:{10 + step * 7}Z",
                    "step": name,
                    "ok": True,
                    "trace": trace,
                }
                for step, (name, trace) in enumerate(zip(_PAYMENT_STEPS, _traces(order), strict=True))
            ],
        }
        for order in ("O-70311", "O-70312")
    ]
    return json.dumps({"payments": payments}, indent=2)


_PAYMENT_STEPS: Final = ("created", "risk checked", "3-D Secure", "authorised", "captured", "receipt sent")


def _traces(order: str) -> Iterator[str]:
    random = Random(order)  # noqa: S311  # the same every time is the point
    return (f"{random.getrandbits(96):024x}" for _ in _PAYMENT_STEPS)


def make_events() -> str:
    """Make the events of a parcel that ends in a depot."""
    random = Random(3)  # noqa: S311  # the same every time is the point
    events = [
        {
            "at": f"2025-06-0{5 + step // 12}T{step % 12 + 6:02}:{random.randrange(60):02}:00Z",
            "where": random.choice(["LEJ-1", "LEJ-1 gate 4", "truck 118", "KS-2"]),
            "event": random.choice(["scanned", "sorted", "loaded", "unloaded"]),
            "scanner": f"sc-{random.randrange(100):03}",
        }
        for step in range(44)
    ]
    events.append(
        {"at": "2025-06-09T07:31:00Z", "where": "KS-2", "event": "stopped", "reason": "label cannot be read"}
    )
    return json.dumps({"shipment": "S-55810", "order": "O-70311", "events": events}, indent=2)


_MADE: Final[dict[str, Callable[[], str]]] = {
    "log": make_log,
    "orders": make_orders,
    "payments": make_payments,
    "events": make_events,
}


# -- folding ------------------------------------------------------------------------------------------------


def to_target(tokens: int, **options: Any) -> Callable[[Messages], View]:
    """Return a function that compacts a list to a named target."""

    def fold(messages: Messages) -> View:
        outcome = refold.compact(messages, target=tokens, window=200_000, force=True, **options)
        return View(outcome.messages, outcome.tokens_after)

    return fold


def by_window(window: int, **options: Any) -> Callable[[Messages], View]:
    """Return a function that compacts a list for a window, to the target of the policy."""

    def fold(messages: Messages) -> View:
        outcome = refold.compact(messages, window=window, force=True, **options)
        return View(outcome.messages, outcome.tokens_after)

    return fold


def in_session(window: int) -> Callable[[Messages], View]:
    """Return a function that says a list to a session, message by message."""

    def fold(messages: Messages) -> View:
        with refold.open("views", store="memory:", window=window) as session:
            for end, message in enumerate(messages, 1):
                session.say(message)
                if end == len(messages) or messages[end]["role"] == "assistant":
                    ready = session.prepare()
            return View(ready.messages, refold.count(ready.messages), len(session.folds()))

    return fold


SUMMARY: Final = """\
## Goal
Work through the tickets of quayside for the user, who took it over from Marta.

## Done
- HARB-412: `Store._text` now writes UTC; `normalise` rewrites old rows and is run by hand.
- HARB-415: a vessel that is not announced within ten minutes is shown on the daily sheet.
- HARB-418: a gap of 15 minutes between two vessels on one berth.
- HARB-420: the outbox tries again with a pause; WAL is on.
- HARB-421: berths that dry out, with tide tables.

## Next
HARB-423, the daily sheet."""
"""What a summariser answered: short, and it leaves out the rules of the user."""
SUMMARY_OF_TURN: Final = """\
The user asked for HARB-421: vessels that take the ground may lie at berths that dry out (W1, W2, never S1).
Tests were written first in tests/test_drying.py, then quayside/schedule.py and quayside/models.py changed."""


def summarise(question: refold.Ask) -> str:
    """Answer as a summariser that was asked for a whole history, or for a turn of which a part stays."""
    return SUMMARY_OF_TURN if "turn" in question.purpose else SUMMARY


def make_handbook() -> str:
    """Make a long system prompt: the one of the session, and files of the project as its handbook."""
    project = (EXAMPLES / "quayside-project.txt").read_text(encoding="utf-8")
    return f"{read_session(1)[0]['content']}\n\nThe project, for reference:\n\n{project[:6_900]}"


def read_tools() -> Messages:
    """Read the tools of the session."""
    text = (EXAMPLES / "long-agent-session.anthropic.json").read_text(encoding="utf-8")
    tools: Messages = json.loads(text)["tools"]
    return tools


EXAMPLES_OF_VIEWS: Final = (
    Example(
        "A log with one line that matters",
        "An agent looks for the reason why an import stopped and has read a log of 2,971 lines",
        "a target of 1,000 tokens",
        lambda: read_conversation("log-agent"),
        to_target(1_000),
    ),
    Example(
        "A coding agent in the middle of a ticket",
        "A coding agent (OpenAI's tool calls) has finished six tickets and is in the middle of a correction",
        "a target of 1,200 tokens",
        lambda: read_session(258),
        to_target(1_200),
    ),
    Example(
        "An agent without tool calls",
        "A coding agent writes blocks of shell as plain text and got a long task",
        "a target of 1,100 tokens",
        lambda: read_conversation("shell-agent"),
        to_target(1_100),
    ),
    Example(
        "A support chat with early rules",
        "A customer gave rules at the beginning and asks for all dates and numbers at the end",
        "a target of 700 tokens",
        lambda: read_conversation("support-chat"),
        to_target(700),
    ),
    Example(
        "A chat in German",
        "A user plans a garden, in German, with rules in the first message and between",
        "a target of 600 tokens",
        lambda: read_conversation("german-chat"),
        to_target(600),
    ),
    Example(
        "Large JSON results",
        "An agent reads JSON from the API of a shop",
        "a target of 1,000 tokens",
        lambda: read_conversation("orders-agent"),
        to_target(1_000),
    ),
    Example(
        "A session that has folded many times",
        "A coding agent works in a session with a small window, and the session folds whenever it is full",
        "a window of 3,000 tokens",
        lambda: read_session(104),
        in_session(3_000),
    ),
    Example(
        "A summary by a model",
        "A coding agent has finished five tickets. The summariser left out the user's rules",
        "a target of 4,000 tokens",
        lambda: read_session(200),
        to_target(4_000, ask=summarise),
    ),
    Example(
        "Anthropic's shape, with thinking",
        "A coding agent in the shape of Anthropic's API: blocks of thinking, calls and results",
        "a target of 1,100 tokens",
        lambda: read_anthropic(75),
        to_target(1_100),
    ),
    Example(
        "A fixed part of half the room",
        "System prompt and tools take 2,300 of 4,500 tokens of room; they are counted below and not shown",
        "a window of 6,000 tokens",
        lambda: read_session(46)[1:],
        by_window(6_000, system=make_handbook(), tools=read_tools()),
    ),
)
