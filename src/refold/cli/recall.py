"""`refold recall`: find what was said in a session, folded or not; by words, or word for word by handle."""

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from refold.cli import stored, telling
from refold.cli.encoding import dumps, listed, plain
from refold.cli.plain import clean
from refold.cli.screen import Screen
from refold.cli.stops import DONE, WrongUse
from refold.core.messages import Message

if TYPE_CHECKING:
    from refold.session.facade import Session
    from refold.session.values import Hit

EXAMPLES: Final = """\
  refold recall task 'the failing test'
  refold recall task '#12-#57'
  refold recall task database --limit 3 --json
"""
LIMIT: Final = 10
_HANDLE: Final = re.compile(r"\[?#\d+(?:\s*[-–…]\s*#?\d+)?\]?|b2:[0-9a-f]+")
_BEFORE: Final = 40
"""Characters before the first word that was found: enough to see what it is about."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser)
    add = parser.add_argument
    add("query", metavar="QUERY", help="words, or a handle: #12, #12-#57, the name of a fold or an entry")
    add("--limit", metavar="N", type=int, default=LIMIT, help=f"how many hits at most; {LIMIT} by default")
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show the hits, or what the handle names."""
    if args.limit < 1:
        raise WrongUse(f"--limit {args.limit}: at least one hit")
    with stored.session(args) as session:
        if _HANDLE.fullmatch(args.query.strip()):
            _originals(session, args, screen)
            return DONE
        hits = session.recall(args.query, limit=args.limit)
    if args.json:
        screen.data(dumps({"session": args.session, "query": args.query, "hits": plain(hits)}) + "\n")
    elif hits:
        for hit in hits:
            _show(hit, args.query, screen)
    else:
        screen.line(f"nothing that was said has the words {screen.short(args.query, 200)!r}")
    return DONE


def _originals(session: "Session", args: Namespace, screen: Screen) -> None:
    items = session.original(args.query.strip())
    if args.json:
        screen.data(listed([telling.plain(item) for item in items]) + "\n")
        return
    wire = session.keeper.wire.name
    numbered = re.match(r"\[?#(\d+)", args.query.strip())
    for number, item in enumerate(items, int(numbered[1]) if numbered else 0):
        handle = f"#{number}" if numbered else ""
        telling.show(screen, handle, _message(item, wire), brief=False)


def _message(item: Any, wire: str) -> Message:
    return item if isinstance(item, Message) else telling.parsed(item, wire)


def _show(hit: "Hit", query: str, screen: Screen) -> None:
    handle = hit.handle if hit.handle.startswith("#") else f"{stored.short(hit.handle)}"
    facts = [hit.role, *(["folded"] if hit.folded else [])]
    if not hit.handle.startswith("#"):
        facts.append(f"on another branch, as {hit.handle}")
    told = "".join(f" · {fact}" for fact in facts)
    screen.line(f"{screen.paint(handle, 'bold')}{screen.paint(told, 'dim')}")
    screen.line(f"    {_marked(screen.short(snippet(hit.text, query), screen.width - 4), query, screen)}")


def snippet(text: str, query: str) -> str:
    """The place where the first word of a query stands, with a little before it.

    >>> snippet("x " * 50 + "the needle is here", "needle")[:16]
    '…x x x x x x x x'
    """
    text = clean(text)
    found = _words(query).search(text)
    at = max(0, found.start() - _BEFORE) if found else 0
    begin = text.rfind(" ", 0, at) + 1 if at else 0
    return ("…" if begin else "") + text[begin:]


def _marked(text: str, query: str, screen: Screen) -> str:
    return _words(query).sub(lambda word: screen.paint(word[0], "yellow"), text) if screen.colour else text


def _words(query: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.findall(r"\w+", query)]
    return re.compile(rf"\b(?:{'|'.join(words)})" if words else r"(?!)", re.IGNORECASE)
