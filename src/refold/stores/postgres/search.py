"""Full-text search in a PostgreSQL store: which words of a text are indexed, and the search for them.

Texts are split into words here and not by the server, whose parser takes `src/main.py` for one word and folds
case only as its locale does. The server stems the words as English. It can index at most a megabyte of words
for an entry and no word of two kilobytes. Of a text with more different words the later ones are not found;
nothing else is left out.
"""

from typing import Final

from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import Row
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


def search(
    connection: Connection, scope: str, query: str, *, key: bytes | None, limit: int, some: bool = False
) -> list[Row]:
    """Return rows of the best hits: with every word or else (and with `some`) with any, most words first."""
    folded = query.casefold()
    # Texts of earlier versions are indexed with their accents, and cut at spaces alone.
    forms = (split_words(query), WORD.findall(separate_words(folded)), WORD.findall(folded))
    asked = dict.fromkeys(tuple(dict.fromkeys(word[:_LONGEST_WORD] for word in form)) for form in forms)
    if not any(asked) or limit <= 0:
        return []
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
