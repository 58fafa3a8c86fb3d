"""Full text in a PostgreSQL store: which words of a text are found, and the search for them.

Texts are cut into words here and not by the server, whose parser takes `src/main.py` for one word and knows
capitals only where its locale does. The server stems the words, as English. It can index no more than a
megabyte of words for an entry and no word of two kilobytes, so that of a text with more different words than
fit the later ones are not found; nothing else is left out.
"""

from typing import Final

from refold.stores.postgres.connections import Connection
from refold.stores.word_index import words_of

_LONGEST_WORD: Final = 500
"""Characters; four bytes each stay under the server's 2,046."""
_PLAIN_CHARACTERS: Final = 200_000
"""Up to here a text is indexed with the places of its words, two bytes each; it always fits."""
_MOST_BYTES: Final = 900_000
"""Of different words in a longer text; the server's limit is 1,048,575 with a few bytes for each word."""
_MOST_ASKED: Final = 64
"""Different words of a query that count; a pasted page is no reason to keep the server busy."""
_CANDIDATES: Final = 20_000
"""Entries that are ranked at most; a word that more have tells little about any of them."""

_SEARCH: Final = """
    SELECT s.name, e.line, e.seq, e.name, e.parent, e.kind, e.body, e.said, e.text, e.about, e.at,
           hit.words + hit.rank / (hit.rank + 1)
    FROM (
        SELECT session, seq, ts_rank(lexemes, %(query)s::tsquery) AS rank,
               (SELECT count(*) FROM unnest(%(words)s::tsquery[]) AS word WHERE lexemes @@ word) AS words
        FROM (
            SELECT session, seq, lexemes FROM refold.words
            WHERE scope = %(scope)s AND lexemes @@ %(query)s::tsquery
                  AND (%(key)s::bytea IS NULL
                       OR session = (SELECT id FROM refold.sessions
                                     WHERE scope = %(scope)s AND key = %(key)s))
            LIMIT %(candidates)s
        ) AS candidate
        ORDER BY words DESC, rank DESC, session DESC, seq DESC LIMIT %(limit)s
    ) AS hit
    JOIN refold.entries AS e ON e.scope = %(scope)s AND e.session = hit.session AND e.seq = hit.seq
    JOIN refold.sessions AS s ON s.scope = %(scope)s AND s.id = hit.session
    ORDER BY hit.words DESC, hit.rank DESC, hit.session DESC, hit.seq DESC
"""


def indexed(text: str) -> str:
    """What the server indexes of a text."""
    if len(text) <= _PLAIN_CHARACTERS:
        return " ".join(word[:_LONGEST_WORD] for word in words_of(text))
    kept: dict[str, None] = {}
    room = _MOST_BYTES
    for whole in words_of(text):
        if (word := whole[:_LONGEST_WORD]) not in kept:
            room -= len(word.encode()) + 8
            if room < 0:
                break
            kept[word] = None
    return " ".join(kept)


def search(
    connection: Connection, scope: str, query: str, *, key: bytes | None, limit: int, some: bool = False
) -> list[tuple[object, ...]]:
    """Rows of the best hits: with every word, or else (and with `some`) with any, most words first."""
    asked = list(dict.fromkeys(word[:_LONGEST_WORD] for word in words_of(query)))[:_MOST_ASKED]
    if not asked or limit <= 0:
        return []
    with connection.transaction():
        rows = connection.execute(
            "SELECT DISTINCT plainto_tsquery('refold.words', word)::text FROM unnest(%s::text[]) AS word",
            [asked],
        ).fetchall()
        words = [row[0] for row in rows if row[0]]
        for joint in (" | ",) if some and words else (" & ", " | ")[: len(words)]:
            if found := _hits(connection, scope, words, joint, key=key, limit=limit):
                return found
    return []


def _hits(
    connection: Connection, scope: str, words: list[str], joint: str, *, key: bytes | None, limit: int
) -> list[tuple[object, ...]]:
    query = joint.join(f"({word})" for word in words)
    connection.execute("SELECT set_config('refold.query', %s, true)", [query])
    given = {
        "query": query,
        "words": words,
        "scope": scope,
        "key": key,
        "limit": limit,
        "candidates": _CANDIDATES,
    }
    return connection.execute(_SEARCH, given, binary=True).fetchall()
