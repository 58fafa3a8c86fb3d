"""Full text in a SQLite store: FTS5 with English stems, which is brought up to date before it is asked.

Scripts that put no space between words are taken letter by letter, in texts and in queries.
"""

import re
from heapq import nlargest
from typing import Final

from refold.errors import LogCorrupt
from refold.stores import Found
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import Raw
from refold.stores.sqlite.rows import entries, unpacked, whole

_UNSPACED: Final = "\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_LETTER: Final = re.compile(f"([{_UNSPACED}])")
_WORD: Final = re.compile(rf"[{_UNSPACED}]|(?:[^\W_{_UNSPACED}]|[\u0300-\u036f])+")
_QUERY_WORDS: Final = 32
"""The longest of a long query: they tell most."""
_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 4_000_000
_ENTRIES: Final = 2_000
"""Where no text has every word, so many are looked at for each, the newest first."""
_CANDIDATES: Final = 100
"""Of them so many are asked for every word."""
_BEST: Final = "SELECT rowid, -rank FROM words WHERE words MATCH ? ORDER BY rank LIMIT ?"
_BEST_IN: Final = (
    "SELECT words.rowid, -bm25(words) AS score FROM words CROSS JOIN entries ON entries.id = words.rowid"
    " WHERE words MATCH ? AND entries.session = ? ORDER BY score DESC LIMIT ?"
)
_TEXTS: Final = "SELECT id, CAST(text AS BLOB) FROM entries WHERE id > ? ORDER BY id LIMIT ?"
_WITH: Final = "SELECT rowid FROM words WHERE words MATCH ? ORDER BY rowid DESC LIMIT ?"
_WITH_IN: Final = (
    "SELECT words.rowid FROM words CROSS JOIN entries ON entries.id = words.rowid"
    " WHERE words MATCH ? AND entries.session = ? ORDER BY words.rowid DESC LIMIT ?"
)
_HAS: Final = "SELECT count(*) FROM words WHERE words MATCH ? AND rowid = ?"


def words_of(query: str) -> list[str]:
    """The words of a query, each once; any text will do.

    >>> words_of('Read_file AND "failed" 13')
    ['Read', 'file', 'AND', 'failed', '13']
    """
    words = list(dict.fromkeys(_WORD.findall(query)))
    if len(words) > _QUERY_WORDS:
        words = sorted(words, key=len, reverse=True)[:_QUERY_WORDS]
    return words


def catch_up(connection: Connection) -> None:
    """Index the entries that are not yet; several short transactions, so that others get their turn."""
    while connection.read(_behind):
        connection.write(_index_some)


def _behind(raw: Raw) -> bool:
    statement = "SELECT (SELECT through FROM indexed) < (SELECT ifnull(max(id), 0) FROM entries)"
    return raw.execute(statement).fetchall() != [(0,)]


def _index_some(raw: Raw) -> None:
    rows = raw.execute("SELECT through FROM indexed").fetchall()
    if len(rows) != 1:
        raise LogCorrupt("the search index is damaged; the log itself may be sound: check it")
    through, size = rows[0][0], 0
    texts: list[tuple[int, str]] = []
    cursor = raw.execute(_TEXTS, (through, _BATCH_ROWS))
    for number, text in cursor:
        through = number
        if text:
            texts.append((number, _spaced(text)))
            size += len(text)
            if size > _BATCH_BYTES:
                break
    cursor.close()
    raw.executemany("INSERT INTO words (rowid, text) VALUES (?, ?)", texts)
    raw.execute("UPDATE indexed SET through = ?", (through,))


def _spaced(text: bytes) -> str:
    """A text as the index takes it; what cannot be read of it is left out, for it cannot be asked for."""
    plain = text.decode("utf-8", "replace")
    return plain if plain.isascii() else _LETTER.sub(r" \1 ", plain)


def search(
    raw: Raw, words: list[str], session: bytes | None, limit: int, *, some: bool = False
) -> list[Found]:
    """The best entries with every word; where there are none, those with most of them.

    With `some` one word is enough, and those that rare words stand in come first.
    """
    number = None
    if session is not None:
        rows = raw.execute("SELECT id FROM sessions WHERE name = ?", (session,)).fetchall()
        if not rows:
            return []
        number = rows[0][0]
    quoted = [f'"{word}"' for word in words]
    hits = _any(raw, quoted, number, limit) if some else _best(raw, " AND ".join(quoted), number, limit)
    if not hits and len(quoted) > 1:
        hits = _most(raw, quoted, number, limit)
    return [_found(raw, entry, score) for entry, score in hits]


def _any(raw: Raw, quoted: list[str], session: int | None, limit: int) -> list[tuple[int, float]]:
    """The best entries with any of the words that are not too common to be ranked in bounded time."""
    statement, values = (_WITH, ()) if session is None else (_WITH_IN, (session,))
    rare = [
        word
        for word in quoted
        if len(raw.execute(statement, (word, *values, _ENTRIES)).fetchall()) < _ENTRIES
    ]
    return _best(raw, " OR ".join(rare), session, limit) if rare else []


def _best(raw: Raw, query: str, session: int | None, limit: int) -> list[tuple[int, float]]:
    statement, values = (_BEST, ()) if session is None else (_BEST_IN, (session,))
    rows = raw.execute(statement, (query, *values, limit)).fetchall()
    return [(entry, score) for entry, score in rows]


def _most(raw: Raw, quoted: list[str], session: int | None, limit: int) -> list[tuple[int, float]]:
    """Entries with most of the words, then with the rarer ones; bounded, however common the words are."""
    statement, values = (_WITH, ()) if session is None else (_WITH_IN, (session,))
    having: dict[str, set[int]] = {}
    for word in quoted:
        rows = raw.execute(statement, (word, *values, _ENTRIES)).fetchall()
        having[word] = {entry for (entry,) in rows}
    rarity = {word: 1 / (1 + len(found)) for word, found in having.items()}
    every = sum(rarity.values())

    def score(entry: int) -> float:
        return sum(1 + rarity[word] / every for word in quoted if entry in having[word])

    best = nlargest(max(limit, _CANDIDATES), sorted(set().union(*having.values())), key=score)
    for word, found in having.items():
        if len(found) == _ENTRIES:  # there may be older ones
            older = (entry for entry in best if entry not in found)
            found |= {entry for entry in older if raw.execute(_HAS, (word, entry)).fetchall() == [(1,)]}
    return [(entry, score(entry)) for entry in nlargest(limit, best, key=score)]


def _found(raw: Raw, entry: int, score: float) -> Found:
    statement = entries("WHERE id = ?")
    for row in raw.execute(statement, (entry,)).fetchall():
        found = whole(row)
        for (name,) in raw.execute("SELECT name FROM sessions WHERE id = ?", (found.session,)).fetchall():
            return Found(session=unpacked(name), entry=found.entry, place=found.place, score=score)
    raise LogCorrupt("the search index names an entry that is not there: check the store")
