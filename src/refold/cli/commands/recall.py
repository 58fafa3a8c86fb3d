"""`refold recall`: find what was said in a session, folded or not; by words, or word for word by handle."""

import re
from argparse import ArgumentParser, Namespace
from typing import Final

from refold.cli.exit_status import DONE, Refused, WrongUse
from refold.cli.input.stores import find_head, use_session
from refold.cli.options.common import add_session, add_store
from refold.cli.output.encoding import dump_list, to_data
from refold.cli.output.format_message import message_data, show_message
from refold.cli.output.log_lines import SHORT_NAME, short_name
from refold.cli.output.screen import Screen
from refold.cli.output.text import clean
from refold.core.log.entries import bare_name
from refold.core.messages.text_cutting import find_telling_word
from refold.session.results import Hit
from refold.session.session import Session
from refold.session.steps.recall import is_handle
from refold.stores.reading.stored_messages import parse_stored

EXAMPLES: Final = """\
  refold recall task 'the failing test'
  refold recall task '#12-#57'
  refold recall task database --limit 3 --json
  refold recall codex:latest 'the failing test'
"""
LIMIT: Final = 10
_NAME: Final = re.compile(rf"b[23]:[0-9a-f]+|[0-9a-f]{{{SHORT_NAME},}}")
"""A name, or the beginning of one as it is shown; without `b2:` it may be just a word."""
_BEFORE: Final = 40
"""Characters shown before the match, enough to see the context."""


def add_arguments(parser: ArgumentParser) -> None:
    """Add the arguments of the command."""
    add_session(parser, files=True)
    add = parser.add_argument
    add("query", metavar="QUERY", help="words, or a handle: #12, #12-#57, the name of a fold or an entry")
    add("--limit", metavar="N", type=int, default=LIMIT, help=f"how many hits at most; {LIMIT} by default")
    add_store(parser)


def run(args: Namespace, screen: Screen) -> int:
    """Show the hits, or the messages of the handle."""
    if args.limit < 1:
        raise WrongUse(f"--limit {args.limit}: at least one hit")
    if not args.query.strip():
        raise WrongUse("give words to look for, or a handle such as '#12-#57'")
    with use_session(args, files=True) as session:
        handle = _find_handle(session, args.query.strip())
        if handle is not None:
            items = session.original(handle)
            if args.json:
                screen.data(dump_list([message_data(item) for item in items]) + "\n")
                return DONE
            first = re.match(r"\[?#(\d+)", handle)
            for number, item in enumerate(items, int(first[1]) if first else 0):
                message = parse_stored(item, session.state.wire.name)
                show_message(screen, f"#{number}" if first else "", message, brief=False)
            return DONE
        hits = session.recall(args.query, limit=args.limit)
    if args.json:
        screen.json({"session": args.session, "query": args.query, "hits": to_data(hits)})
    elif hits:
        for hit in hits:
            _show_hit(hit, args.query, screen)
    else:
        screen.note(f"nothing that was said has the words {screen.short(args.query, 200)!r}")
    return DONE


def _find_handle(session: Session, word: str) -> str | None:
    """Return the handle or full name that a word stands for; None if it is a word to look for."""
    if is_handle(word):
        return word
    if not _NAME.fullmatch(word):
        return None
    start = bare_name(word)
    store, name = session.state.store, session.name
    entries = store.read(name, find_head(store, name).place)
    matching = (entry for entry in entries if bare_name(entry.name).startswith(start))
    kinds = {entry.name: entry.kind for entry in matching}
    # A fold is meant rather than another entry whose name begins alike.
    kinds = {name: kind for name, kind in kinds.items() if kind == "fold"} or kinds
    if len(kinds) > 1:
        raise Refused(f"several entries begin with {word!r}: write more of the name")
    # A full name may belong to an entry of another branch, which is not in this list.
    return next(iter(kinds), word if word != start else None)


def _show_hit(hit: Hit, query: str, screen: Screen) -> None:
    is_here = hit.handle.startswith("#")
    facts = [hit.role, *["folded"] * hit.folded, *[f"on another branch, as {hit.handle}"] * (not is_here)]
    about = "".join(f" · {fact}" for fact in facts)
    handle = hit.handle if is_here else short_name(hit.handle)
    screen.line(f"{screen.paint(handle, 'bold')}{screen.paint(about, 'dim')}")
    text = screen.short(cut_snippet(hit.text, query), screen.width - 4)
    if screen.colour:
        text = _query_pattern(query).sub(lambda word: screen.paint(word[0], "yellow"), text)
    screen.line(f"    {text}")


def cut_snippet(text: str, query: str) -> str:
    """Return the text from shortly before the rarest word of the query.

    >>> cut_snippet("x " * 50 + "the needle is here", "needle")[:16]
    '…x x x x x x x x'
    """
    text = clean(text)
    at = max(0, (find_telling_word(text, query) or 0) - _BEFORE)
    begin = text.rfind(" ", 0, at) + 1
    begin = begin if at - begin <= _BEFORE else at  # some languages have no blanks
    return ("…" if begin else "") + text[begin:]


def _query_pattern(query: str) -> re.Pattern[str]:
    words = [re.escape(word) for word in re.findall(r"\w+", query)]
    return re.compile(rf"\b(?:{'|'.join(words)})" if words else r"(?!)", re.IGNORECASE)
