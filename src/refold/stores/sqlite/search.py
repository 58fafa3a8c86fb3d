"""Full-text search in a SQLite store: FTS5 finds the texts that have some words, and we rank them.

The index is brought up to date before each search. While the store cannot be written, the newest entries are
searched without it; in a file of an older refold also what its own index finds.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from refold.errors import LogCorrupt
from refold.stores import SearchHit
from refold.stores.sqlite.connection import Connection
from refold.stores.sqlite.driver import RawConnection, Row
from refold.stores.sqlite.rows import parse_intact_row, select_entries
from refold.stores.sqlite.schema import read_pragma
from refold.stores.text import decode_text
from refold.stores.word_index import MOST_MATCHES, Match, pack_words, rank_texts, split_words

_BATCH_ROWS: Final = 256
_BATCH_BYTES: Final = 4_000_000
"""Entries that one transaction indexes: tens of milliseconds, after which others get the write lock."""
_TEXTS: Final = "SELECT id, session, CAST(text AS BLOB) FROM entries WHERE id > ? ORDER BY id LIMIT ?"
TEXTS_OF_SESSION: Final = (
    "SELECT session, id, CAST(text AS BLOB) FROM entries"
    " WHERE session = (SELECT id FROM sessions WHERE name = ?) AND id IN (SELECT id FROM texts)"
)
Packed: TypeAlias = Mapping[tuple[int, int], str]
"""What the index has of some texts, by their sessions and ids."""
_MERGE_PAGES: Final = 500
"""Pages of the index that one transaction writes anew: some tenths of a second."""
_ADD_TO_SESSION: Final = (
    "INSERT INTO indexed_texts VALUES (?, 1, ?)"
    " ON CONFLICT (session) DO UPDATE SET texts = texts + 1, words = words + excluded.words"
)
_COUNT: Final = "SELECT count(*) FROM stems WHERE stems MATCH ?"
_WITH: Final = "SELECT rowid FROM stems WHERE stems MATCH ?"
_OFTEN: Final = (
    ", iif(instr(repeated, ?{0}), CAST(substr(repeated, instr(repeated, ?{0}) + length(?{0})) AS INTEGER), 1)"
)
_MATCHES: Final = (
    "SELECT texts.id, session, texts.length{often} FROM stems CROSS JOIN texts ON texts.id = stems.rowid"
    " WHERE stems MATCH ?1 ORDER BY stems.rowid DESC LIMIT {most}"
)
_MEASURE: Final = (
    "SELECT ifnull(sum(texts), 0), ifnull(sum(words), 0) FROM indexed_texts WHERE ?1 IS NULL OR session = ?1"
)
_ENTRY: Final = select_entries("WHERE id = ?")
_NAME: Final = "SELECT name FROM sessions WHERE id = ?"
_IN_SESSION: Final = "(?2 IS NULL OR session = (SELECT id FROM sessions WHERE name = ?2))"
_UNINDEXED: Final = f"SELECT id FROM entries WHERE id > ?1 AND {_IN_SESSION} ORDER BY id DESC LIMIT ?3"  # noqa: S608  # constants only
_IN_OLDER_INDEX: Final = (
    f"SELECT id FROM {{0}} CROSS JOIN entries ON id = {{0}}.rowid WHERE {{0}} MATCH ?1 AND {_IN_SESSION}"  # noqa: S608  # constants only
    " ORDER BY {0}.rank LIMIT ?3"
)
_MOST_UNINDEXED: Final = 2_000
"""Most entries that are searched without the index, the newest ones: tens of milliseconds. While a store
works, fewer wait for it."""
_MOST_ASKED: Final = 32
"""Most words for which an older index is asked: a chosen bound, as on the words of a query."""
_FIRST_WITH_STEMS: Final = 6
"""The version whose tables have this index."""
_LOST: Final = "the search index names an entry that is not there: check the store"
_THROUGH: Final = "SELECT through FROM indexed_stems"
_IS_BEHIND: Final = f"SELECT ({_THROUGH}) < (SELECT ifnull(max(id), 0) FROM entries)"  # noqa: S608  # constants only


def index_new_entries(connection: Connection) -> None:
    """Index the entries that are not yet in the index, in several short transactions."""
    while connection.read(lambda raw: raw.execute(_IS_BEHIND).fetchall()) != [(0,)]:
        connection.write(_index_batch)


def read_unindexed(raw: RawConnection, session: bytes | None, query: str) -> list[SearchHit]:
    """Return the newest entries that are not in the index, because the store cannot be written."""
    through, older = 0, []
    if has_index(raw):
        [(through,)] = raw.execute(_THROUGH).fetchall()
    else:
        older = _ask_older_index(raw, session, query)
    newest = raw.execute(_UNINDEXED, (through, session, _MOST_UNINDEXED)).fetchall()
    found = []
    for number in sorted({*older, *newest}):
        stored = parse_intact_row(raw.execute(_ENTRY, number).fetchall()[0])
        [(name,)] = raw.execute(_NAME, (stored.session,)).fetchall()
        if stored.entry.text:
            hit = SearchHit(session=decode_text(name), entry=stored.entry, place=stored.place, score=0.0)
            found.append(hit)
    return found


def _ask_older_index(raw: RawConnection, session: bytes | None, query: str) -> list[Row]:
    """Find entries by the index of an older refold: the best with every word, and the best with any."""
    words = [f'"{word}"' for word in dict.fromkeys(split_words(query))][:_MOST_ASKED]
    index = "terms" if read_pragma(raw, "user_version") == _FIRST_WITH_STEMS - 1 else "words"
    statement = _IN_OLDER_INDEX.format(index)
    asked = [joint.join(words) for joint in (" AND ", " OR ") if words]
    return [row for one in asked for row in raw.execute(statement, (one, session, _MOST_UNINDEXED))]


def has_index(raw: RawConnection) -> bool:
    """False for the file of an older refold that cannot be written."""
    return bool(read_pragma(raw, "user_version") >= _FIRST_WITH_STEMS)


def _index_batch(raw: RawConnection) -> None:
    rows = raw.execute(_THROUGH).fetchall()
    if len(rows) != 1:
        raise LogCorrupt("the search index is damaged; the log itself may be sound: check it")
    through, size = rows[0][0], 0
    stems: list[tuple[int, str]] = []
    texts: list[tuple[int, int, int, str]] = []
    cursor = raw.execute(_TEXTS, (through, _BATCH_ROWS))
    for number, session, data in cursor:
        through = number
        if data:
            packed = pack_words(data.decode("utf-8", "replace"))  # nobody can ask for what is not UTF-8
            stems.append((number, f"{_mark(session)} {packed.stems}"))
            texts.append((number, session, packed.length, packed.repeated))
            size += len(data)
            if size > _BATCH_BYTES:
                break
    cursor.close()
    raw.executemany("INSERT INTO stems (rowid, text) VALUES (?, ?)", stems)
    raw.executemany("INSERT INTO texts VALUES (?, ?, ?, ?)", texts)
    raw.executemany(_ADD_TO_SESSION, [(session, length) for _, session, length, _ in texts])
    raw.execute("UPDATE indexed_stems SET through = ?", (through,))


def pack_texts(rows: Iterable[Row]) -> Packed:
    """Return what the index has of some texts."""
    return {
        (session, number): f"{_mark(session)} {pack_words(data.decode('utf-8', 'replace')).stems}"
        for session, number, data in rows
    }


def remove_texts(raw: RawConnection, session: bytes, packed: Packed) -> None:
    """Remove the texts of a session, most of which are packed already; FTS5 wants to know what it had."""
    rows = raw.execute(TEXTS_OF_SESSION, (session,)).fetchall()
    packed = {**packed, **pack_texts(row for row in rows if row[:2] not in packed)}
    stems = [(number, packed[owner, number]) for owner, number, _ in rows]
    raw.executemany("INSERT INTO stems (stems, rowid, text) VALUES ('delete', ?, ?)", stems)
    raw.executemany("DELETE FROM texts WHERE id = ?", [(number,) for _, number, _ in rows])
    raw.execute("INSERT INTO terms (terms) VALUES ('delete-all')").close()  # where an older refold still runs


def merge_index(connection: Connection) -> None:
    """Write the index anew, in short transactions: until then it keeps the words of texts that left it."""
    pages = -_MERGE_PAGES  # less than zero begins with all parts of it

    def merge(raw: RawConnection) -> bool:
        before = raw.execute("SELECT total_changes()").fetchall()[0][0]
        raw.execute("INSERT INTO stems (stems, rank) VALUES ('merge', ?)", (pages,)).close()
        # a call that finds nothing to merge changes one row
        return bool(raw.execute("SELECT total_changes() - ? > 1", (before,)).fetchall()[0][0])

    while connection.write(merge):
        pages = _MERGE_PAGES


def _mark(session: int) -> str:
    """Return the word that every text of a session has, which no text has by itself."""
    return f"§{session}"


@dataclass(frozen=True, slots=True)
class _Stems:
    """The texts of one session, or of all."""

    raw: RawConnection
    session: int | None

    def measure(self) -> tuple[int, int]:
        """Return the number of texts and of their words."""
        [(texts, words)] = self.raw.execute(_MEASURE, (self.session,)).fetchall()
        return texts, words

    def _ask(self, *parts: str) -> tuple[str]:
        """Return the query for texts of the session that fit every part."""
        mark = [] if self.session is None else [f'"{_mark(self.session)}"']
        return (" AND ".join([*parts, *mark]),)

    def count(self, words: Sequence[str]) -> list[int]:
        """Return how many texts have each of these stems."""
        return [self.raw.execute(_COUNT, self._ask(f'"{word}"')).fetchall()[0][0] for word in words]

    def find(self, words: Sequence[str], some: Sequence[str] = ()) -> list[Match]:
        """Find the texts that have all of these stems, or at least one of `some`."""
        asked = {word: f'"{word}"' for word in words}
        parts = [f"({' OR '.join(asked[word] for word in some)})"] if some else list(asked.values())
        often = "".join(_OFTEN.format(at + 2) for at in range(len(words)))
        statement = _MATCHES.format(often=often, most=MOST_MATCHES)
        values = (*self._ask(*parts), *(f" {word}:" for word in words))
        rows = self.raw.execute(statement, values).fetchall()
        names = {session: self._read_name(session) for session in {row[1] for row in rows}}
        matches = [Match((names[row[1]], row[0]), row[2], list(row[3:])) for row in rows]
        for at, word in enumerate(words if some else ()):
            query = self._ask(asked[word], *(() if word in some else parts))
            having = {text for (text,) in self.raw.execute(_WITH, query).fetchall()}
            for match in matches:
                match.often[at] *= match.text[1] in having
        return matches

    def _read_name(self, session: int) -> str:
        rows = self.raw.execute(_NAME, (session,)).fetchall()
        if not rows:
            raise LogCorrupt(_LOST)
        return decode_text(rows[0][0])


def search(
    raw: RawConnection, query: str, session: bytes | None, *, limit: int, some: bool = False
) -> list[SearchHit]:
    """Return the best hits on all branches, best first."""
    number = None
    if session is not None:
        rows = raw.execute("SELECT id FROM sessions WHERE name = ?", (session,)).fetchall()
        if not rows:
            return []
        number = rows[0][0]
    if not has_index(raw):
        return []
    results = []
    for score, (name, text) in rank_texts(_Stems(raw, number), query, limit=limit, some=some):
        stored = [parse_intact_row(row) for row in raw.execute(_ENTRY, (text,)).fetchall()]
        if not stored:
            raise LogCorrupt(_LOST)
        results.append(SearchHit(session=name, entry=stored[0].entry, place=stored[0].place, score=score))
    return results
