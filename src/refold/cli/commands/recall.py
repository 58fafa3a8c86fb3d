"""`refold recall`: find what was said in a session, folded or not; by words, or word for word by handle."""

import re
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING, Any, Final

from refold.cli.exit_status import DONE, Refused, WrongUse
from refold.cli.input import stored
from refold.cli.output import format_message
from refold.cli.output.encoding import dumps, listed, plain
from refold.cli.output.plain import clean
from refold.cli.output.screen import Screen
from refold.core.messages.message import Message

if TYPE_CHECKING:
    from refold.session.session import Session
    from refold.session.results import Hit

EXAMPLES: Final = """\
  refold recall task 'the failing test'
  refold recall task '#12-#57'
  refold recall task database --limit 3 --json
  refold recall codex:latest 'the failing test'
"""
LIMIT: Final = 10
_HANDLE: Final = re.compile(r"\[?#\d+(?:\s*[-–…]\s*#?\d+)?\]?")
_NAME: Final = re.compile(rf"b2:[0-9a-f]+|[0-9a-f]{{{stored.SHORT},}}")
"""A name, or the beginning of one as it is shown; a word without `b2:` may be just a word."""
_BEFORE: Final = 40
"""Characters before the first word that was found: enough to see what it is about."""


def arguments(parser: ArgumentParser) -> None:
    """Say what the command takes."""
    stored.arguments(parser, files=True)
    add = parser.add_argument
    add("query", metavar="QUERY", help="words, or a handle: #12, #12-#57, the name of a fold or an entry")
    add("--limit", metavar="N", type=int, default=LIMIT, help=f"how many hits at most; {LIMIT} by default")
    stored.store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show the hits, or what the handle names."""
    if args.limit < 1:
        raise WrongUse(f"--limit {args.limit}: at least one hit")
    if not args.query.strip():
        raise WrongUse("say what to look for: words, or a handle such as '#12-#57'")
    with stored.session(args, files=True) as session:
        handle = _handle(session, args.query.strip())
        if handle is not None:
            _originals(session, handle, args, screen)
            return DONE
        hits = session.recall(args.query, limit=args.limit)
    if args.json:
        screen.data(dumps({"session": args.session, "query": args.query, "hits": plain(hits)}) + "\n")
    elif hits:
        for hit in hits:
            _show(hit, args.query, screen)
    else:
        screen.note(f"nothing that was said has the words {screen.short(args.query, 200)!r}")
    return DONE


def _handle(session: "Session", word: str) -> str | None:
    """The handle or the whole name that a word stands for; None where it is a word to look for."""
    if _HANDLE.fullmatch(word):
        return word
    if not _NAME.fullmatch(word):
        return None
    plain = word.removeprefix("b2:")
    store, name = session.state.store, session.name
    entries = store.read(name, stored.head_of(store, name).place)
    found = {one.name: one.kind for one in entries if one.name.removeprefix("b2:").startswith(plain)}
    found = {one: kind for one, kind in found.items() if kind == "fold"} or found
    if len(found) > 1:
        raise Refused(f"several entries begin with {word!r}: write more of the name")
    known = next(iter(found), None)
    return known or (word if word != plain else None)  # a whole name may be one of another branch


def _originals(session: "Session", handle: str, args: Namespace, screen: Screen) -> None:
    items = session.original(handle)
    if args.json:
        screen.data(listed([format_message.plain(item) for item in items]) + "\n")
        return
    wire = session.state.wire.name
    numbered = re.match(r"\[?#(\d+)", handle)
    for number, item in enumerate(items, int(numbered[1]) if numbered else 0):
        mark = f"#{number}" if numbered else ""
        format_message.show(screen, mark, _message(item, wire), brief=False)


def _message(item: Any, wire: str) -> Message:
    return item if isinstance(item, Message) else format_message.parsed(item, wire)


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
