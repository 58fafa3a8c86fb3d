"""Full-text search in a SQLite store: FTS5 with English stems, brought up to date before each search.

While the store cannot be written, the newest entries are searched without the index. Scripts without spaces
between words are taken letter by letter, in texts and in queries.
"""

import re
from collections.abc import Sequence
from heapq import nlargest
from typing import Any, Final

from refold.errors import LogCorrupt
from refold.stores import SearchHit
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import RawConnection, Row
from refold.stores.sqlite.rows import parse_intact_row, select_entries
from refold.stores.sqlite.schema import read_pragma
from refold.stores.text import decode_text, separate_words

_WORD: Final = re.compile(r"(?:[^\W_]|[\u0300-\u036f])+")
_QUERY_WORDS: Final = 32
"""Most words of a query, the longest ones, which tell most. A chosen bound on the work for a pasted page."""
_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 4_000_000
"""Entries that one transaction indexes: tens of milliseconds, after which others get the write lock."""
_MOST_PER_WORD: Final = 2_000
"""Most entries examined for each word if none has every word, the newest first. A chosen bound: a word that
more entries have tells little. Too low loses old entries with common words only."""
_CANDIDATES: Final = 100
"""The best of them, which are then checked for every word."""
_BEST: Final = "SELECT rowid, -rank FROM terms WHERE terms MATCH ? ORDER BY rank LIMIT ?"
_BEST_IN: Final = (
    "SELECT terms.rowid, -bm25(terms) AS score FROM terms CROSS JOIN entries ON entries.id = terms.rowid"
    " WHERE terms MATCH ? AND entries.session = ? ORDER BY score DESC LIMIT ?"
)
_TEXTS: Final = "SELECT id, CAST(text AS BLOB) FROM entries WHERE id > ? ORDER BY id LIMIT ?"
_WITH: Final = "SELECT rowid FROM terms WHERE terms MATCH ? ORDER BY rowid DESC LIMIT ?"
_WITH_IN: Final = (
    "SELECT terms.rowid FROM terms CROSS JOIN entries ON entries.id = terms.rowid"
    " WHERE terms MATCH ? AND entries.session = ? ORDER BY terms.rowid DESC LIMIT ?"
)
_HAS: Final = "SELECT count(*) FROM terms WHERE terms MATCH ? AND rowid = ?"
_ENTRY: Final = select_entries("WHERE id = ?")
_NAME: Final = "SELECT name FROM sessions WHERE id = ?"
_UNINDEXED: Final = select_entries("WHERE id > (SELECT through FROM indexed_terms) ORDER BY id DESC LIMIT ?")
_MOST_UNINDEXED: Final = 2_000
"""Most entries that are searched without the index, the newest ones: tens of milliseconds. While a store
works, fewer wait for it."""
_FIRST_WITH_TERMS: Final = 5
"""The version whose tables have the index under its present name."""
_IS_BEHIND: Final = "SELECT (SELECT through FROM indexed_terms) < (SELECT ifnull(max(id), 0) FROM entries)"


def split_query(query: str) -> list[str]:
    """Split a query into its words, each once; any text is valid.

    >>> split_query('Read_file AND "failed" 13')
    ['Read', 'file', 'AND', 'failed', '13']
    """
    words = list(dict.fromkeys(_WORD.findall(separate_words(query))))
    if len(words) > _QUERY_WORDS:
        words = sorted(words, key=len, reverse=True)[:_QUERY_WORDS]
    return words


def ask_index(raw: RawConnection, statement: str, values: Sequence[Any] = ()) -> list[Row]:
    """Read all rows of a statement; an old file that cannot be written has the index under its first name."""
    if read_pragma(raw, "user_version") < _FIRST_WITH_TERMS:
        statement = statement.replace("indexed_terms", "indexed").replace("terms", "words")
    return raw.execute(statement, values).fetchall()


def index_new_entries(connection: Connection) -> None:
    """Index the entries that are not yet in the index, in several short transactions."""
    while connection.read(lambda raw: ask_index(raw, _IS_BEHIND)) != [(0,)]:
        connection.write(_index_batch)


def read_unindexed(raw: RawConnection, session: bytes | None) -> list[SearchHit]:
    """Return the newest entries that are not in the index, because the store cannot be written."""
    found = []
    for row in ask_index(raw, _UNINDEXED, (_MOST_UNINDEXED,)):
        stored = parse_intact_row(row)
        [(name,)] = raw.execute(_NAME, (stored.session,)).fetchall()
        if stored.entry.text and session in (None, name):
            hit = SearchHit(session=decode_text(name), entry=stored.entry, place=stored.place, score=0.0)
            found.append(hit)
    return found


def _index_batch(raw: RawConnection) -> None:
    rows = raw.execute("SELECT through FROM indexed_terms").fetchall()
    if len(rows) != 1:
        raise LogCorrupt("the search index is damaged; the log itself may be sound: check it")
    through, size = rows[0][0], 0
    texts: list[tuple[int, str]] = []
    cursor = raw.execute(_TEXTS, (through, _BATCH_ROWS))
    for number, data in cursor:
        through = number
        if data:
            text = data.decode("utf-8", "replace")  # nobody can ask for what is not UTF-8
            texts.append((number, separate_words(text)))
            size += len(data)
            if size > _BATCH_BYTES:
                break
    cursor.close()
    raw.executemany("INSERT INTO terms (rowid, text) VALUES (?, ?)", texts)
    raw.execute("UPDATE indexed_terms SET through = ?", (through,))


def search(
    raw: RawConnection, words: list[str], session: bytes | None, limit: int, *, some: bool = False
) -> list[SearchHit]:
    """Return the best entries with every word or, if there are none, those with most words.

    With `some` one word is enough, and entries with rare words come first.
    """
    number = None
    if session is not None:
        rows = raw.execute("SELECT id FROM sessions WHERE name = ?", (session,)).fetchall()
        if not rows:
            return []
        number = rows[0][0]
    quoted = [f'"{word}"' for word in words]
    if some:  # words that are too common cannot be ranked in bounded time
        rare = [word for word in quoted if len(_entries_with(raw, word, number)) < _MOST_PER_WORD]
        hits = _rank(raw, " OR ".join(rare), number, limit) if rare else []
    else:
        hits = _rank(raw, " AND ".join(quoted), number, limit)
    if not hits and len(quoted) > 1:
        hits = _rank_by_word_count(raw, quoted, number, limit)
    results = []
    for entry, score in hits:
        stored = [parse_intact_row(row) for row in raw.execute(_ENTRY, (entry,)).fetchall()]
        names = raw.execute(_NAME, (stored[0].session,)).fetchall() if stored else []
        if not names:
            raise LogCorrupt("the search index names an entry that is not there: check the store")
        name = decode_text(names[0][0])
        results.append(SearchHit(session=name, entry=stored[0].entry, place=stored[0].place, score=score))
    return results


def _entries_with(raw: RawConnection, word: str, session: int | None) -> set[int]:
    """Return the ids of the newest entries with a word."""
    statement, values = (_WITH, ()) if session is None else (_WITH_IN, (session,))
    return {entry for (entry,) in ask_index(raw, statement, (word, *values, _MOST_PER_WORD))}


def _rank(raw: RawConnection, query: str, session: int | None, limit: int) -> list[tuple[int, float]]:
    statement, values = (_BEST, ()) if session is None else (_BEST_IN, (session,))
    return [(entry, score) for entry, score in ask_index(raw, statement, (query, *values, limit))]


def _rank_by_word_count(
    raw: RawConnection, quoted: list[str], session: int | None, limit: int
) -> list[tuple[int, float]]:
    """Rank entries by how many of the words they have, then by rarity; the work is bounded."""
    having = {word: _entries_with(raw, word, session) for word in quoted}
    rarity = {word: 1 / (1 + len(entries)) for word, entries in having.items()}
    total = sum(rarity.values())

    def score(entry: int) -> float:
        return sum(1 + rarity[word] / total for word in quoted if entry in having[word])

    best = nlargest(max(limit, _CANDIDATES), sorted(set().union(*having.values())), key=score)
    for word, entries in having.items():
        if len(entries) == _MOST_PER_WORD:  # older entries may have the word too
            others = (entry for entry in best if entry not in entries)
            entries |= {entry for entry in others if ask_index(raw, _HAS, (word, entry)) == [(1,)]}
    return [(entry, score(entry)) for entry in nlargest(limit, best, key=score)]
