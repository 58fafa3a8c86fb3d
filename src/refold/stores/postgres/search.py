"""Full-text search in a PostgreSQL store: which words of a text are indexed, and the search for them.

Texts are split into words here and not by the server, whose parser takes `src/main.py` for one word and folds
case only as its locale does. The server stems the words as English. It can index at most a megabyte of words
for an entry and no word of two kilobytes. Of a text with more different words the later ones are not found;
nothing else is left out.

The words of entries are indexed as they are appended. A version with other words marks each session, and the
next search in it indexes its entries again first.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from psycopg import errors

from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import PAGE_BYTES, PAGE_ROWS, Row, decode_damaged_text
from refold.stores.postgres.statements import read_statement
from refold.stores.text import separate_words
from refold.stores.word_index import WORD, split_words

_LONGEST_WORD: Final = 500
"""Characters; four bytes each stay under the server's 2,046."""
_PLAIN_CHARACTERS: Final = 200_000
"""A text up to this size is indexed with the positions of its words, two bytes each; it always fits."""
_MOST_BYTES: Final = 900_000
"""Size of the different words of a longer text; the server allows 1,048,575 with its overhead for each."""
_MOST_ASKED: Final = 64
"""Most different words of a query. A chosen bound, so that a pasted page does not keep the server busy."""
_CANDIDATES: Final = 20_000
"""Most entries that are ranked. A chosen bound: a word that more entries have tells little."""

_SEARCH: Final = read_statement("search")

# An entry that was appended after its session was marked has its words already.
_WORDS: Final = read_statement("words")
_MARKED: Final = read_statement("marked")
_TEXTS: Final = read_statement("texts", PAGE_ROWS=PAGE_ROWS, PAGE_BYTES=PAGE_BYTES)


def index_text(text: str) -> str:
    """Return the words of a text that the server indexes."""
    if len(text) <= _PLAIN_CHARACTERS:
        return " ".join(word[:_LONGEST_WORD] for word in split_words(text))
    kept: dict[str, None] = {}
    room = _MOST_BYTES
    for full_word in split_words(text):
        if (word := full_word[:_LONGEST_WORD]) not in kept:
            room -= len(word.encode()) + 8
            if room < 0:
                break
            kept[word] = None
    return " ".join(kept)


def insert_words(connection: Connection, scope: str, session: int, texts: Iterable[tuple[int, str]]) -> None:
    """Insert the words of some entries, which are given by their place in the session."""
    words = {seq: words for seq, text in texts if (words := index_text(text))}
    if words:
        connection.execute(_WORDS, [scope, session, list(words), list(words.values())])


def _index_again(connection: Connection, scope: str, key: bytes | None) -> None:
    """Index the entries of marked sessions again, a page at a time, so that nobody waits for long."""
    values = {"scope": scope, "key": key}
    while connection.execute(_MARKED, values).fetchone():
        with connection.transaction():
            for session, through in connection.execute(f"{_MARKED} FOR UPDATE", values).fetchall():
                rows = connection.execute(_TEXTS, [scope, session, through], binary=True).fetchall()
                texts = ((seq, decode_damaged_text(text)) for seq, text in rows)
                insert_words(connection, scope, session, texts)
                connection.execute(
                    "UPDATE refold.sessions SET reindexed = %s WHERE scope = %s AND id = %s",
                    [rows[-1][0] if rows else None, scope, session],
                )


def search(
    connection: Connection, scope: str, query: str, *, key: bytes | None, limit: int, some: bool = False
) -> list[Row]:
    """Return rows of the best hits: with every word or else (and with `some`) with any, most words first."""
    folded = query.casefold()
    # An earlier version that still runs indexes with accents, and cuts at spaces alone.
    forms = (split_words(query), WORD.findall(separate_words(folded)), WORD.findall(folded))
    asked = dict.fromkeys(tuple(dict.fromkeys(word[:_LONGEST_WORD] for word in form)) for form in forms)
    if not any(asked) or limit <= 0:
        return []
    # Who may only read finds what others have indexed.
    with suppress(errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction):
        _index_again(connection, scope, key)
    with connection.transaction():
        parse = "SELECT DISTINCT plainto_tsquery('refold.words', word)::text FROM unnest(%s::text[]) AS word"
        parsed = [connection.execute(parse, [list(form[:_MOST_ASKED])]).fetchall() for form in asked]
        wanted = [[row[0] for row in rows if row[0]] for rows in parsed]
        words = list(dict.fromkeys(word for form in wanted for word in form))
        for joint in (" | ",) if some and words else (" & ", " | ")[: len(words)]:
            query = " | ".join(joint.join(f"({word})" for word in form) for form in wanted if form)
            # The policy of the table reads the query from this setting: see the migration.
            connection.execute("SELECT set_config('refold.query', %s, true)", [query])
            values = {"query": query, "words": words, "scope": scope, "key": key, "limit": limit}
            values["candidates"] = _CANDIDATES
            if hits := connection.execute(_SEARCH, values, binary=True).fetchall():
                return hits
    return []
