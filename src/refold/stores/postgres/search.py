"""Full-text search in a PostgreSQL store: the server finds the texts that have some words, and we rank them.

Texts are split into words here and not by the server, whose parser takes `src/main.py` for one word and folds
case only as its locale does. The server can index at most a megabyte of words for an entry. Of a text with
more different words the later ones are not found; nothing else is left out.

The words of entries are indexed as they are appended. Those that an older version appended are indexed before
the next search in their session, and some of them with each append there: others may only read.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final, NamedTuple

from psycopg import errors
from psycopg.sql import SQL

from refold.stores import SearchHit
from refold.stores.postgres.connections import Connection
from refold.stores.postgres.log import COLUMNS, PAGE_BYTES, PAGE_ROWS, decode_damaged_text, parse_entry_row
from refold.stores.sql_files import read_statement
from refold.stores.text import name_hash
from refold.stores.word_index import MOST_MATCHES, Match, pack_words, rank_texts

_PLAIN_CHARACTERS: Final = 200_000
"""A text up to this size always fits."""
_MOST_BYTES: Final = 900_000
"""Size of the different words of a longer text; the server allows 1,048,575 with its overhead for each."""
_WHERE: Final = (
    "t.scope = {scope} AND ({session}::bigint IS NULL OR t.session = {session})"
    " AND t.lexemes @@ current_setting('refold.query', true)::tsquery"
)
"""The last condition is that of the table's policy, in its words, which the server then checks only once."""
_COUNT: Final = SQL(read_statement("count", WHERE=_WHERE))
_NAMES: Final = "SELECT id, name FROM refold.sessions WHERE scope = %s AND id = ANY(%s)"
_SEARCHED: Final = read_statement("searched")
_MATCHES: Final = SQL(read_statement("matches", WHERE=_WHERE))
_OFTEN: Final = SQL(read_statement("often"))
_HITS: Final = read_statement("hits", COLUMNS=COLUMNS)
_WORDS: Final = read_statement("words")
_INDEXED: Final = read_statement("indexed")
_TEXTS: Final = read_statement("texts", PAGE_ROWS=PAGE_ROWS, PAGE_BYTES=PAGE_BYTES)


class Indexed(NamedTuple):
    """What was added to the index."""

    texts: int = 0
    words: int = 0


def insert_words(
    connection: Connection, scope: str, session: int, texts: Iterable[tuple[int, str]]
) -> Indexed:
    """Insert the words of some entries, which are given by their place in the session."""
    rows = []
    for seq, text in texts:
        if text:
            words = pack_words(text)
            if len(stems := words.stems) > _PLAIN_CHARACTERS:
                stems = stems.encode()[:_MOST_BYTES].decode("utf-8", "ignore").rpartition(" ")[0]
            rows.append((seq, words.length, words.repeated, f"#{session} {stems}"))
    if rows:
        connection.execute(_WORDS, [scope, session, *map(list, zip(*rows, strict=True))])
    return Indexed(len(rows), sum(row[1] for row in rows))


def index_page(connection: Connection, scope: str, session: int, after: int) -> int:
    """Index a page of a session, whose row is locked, behind a place; returns where the page ends."""
    page = connection.execute(_TEXTS, [scope, session, after], binary=True).fetchall()
    texts = ((seq, decode_damaged_text(text)) for seq, text in page)
    added = insert_words(connection, scope, session, texts)
    values = [*added, page[-1][0] if page else None, scope, session]
    [(through,)] = connection.execute(_INDEXED, values).fetchall()
    return int(through)


def _index_older(connection: Connection, scope: str, session: int) -> None:
    """Index what is not yet indexed of a session, a page at a time, so that nobody waits for long."""
    lock = "SELECT indexed FROM refold.sessions WHERE scope = %s AND id = %s AND indexed < last FOR UPDATE"
    while True:
        with connection.transaction():
            row = connection.execute(lock, [scope, session]).fetchone()
            if row is None:
                return
            index_page(connection, scope, session, row[0])


@dataclass(frozen=True, slots=True)
class _Terms:
    """The texts of one session, or of all."""

    connection: Connection
    scope: str
    session: int | None
    texts: int
    words: int
    ids: dict[str, int]
    """Sessions by their names: those in which something was found."""

    def measure(self) -> tuple[int, int]:
        """Return the number of texts and of their words."""
        return self.texts, self.words

    def _ask(self, words: Sequence[str], joint: str = "") -> str:
        """Return the query for texts of the session that have these words."""
        query = f"({joint.join(map(_quote, words))})"
        return query if self.session is None else f"{query} & '#{self.session}'"

    def count(self, words: Sequence[str]) -> list[int]:
        """Return how many texts have each of these stems, in one round trip."""
        if not words:
            return []
        counting = [
            _COUNT.format(query=self._ask([word]), scope=self.scope, session=self.session) for word in words
        ]
        cursor = self.connection.execute(SQL("").join(counting))
        counts = []
        while cursor.nextset():
            counts += [row[0] for row in cursor.fetchall()]
            cursor.nextset()
        return counts

    def find(self, words: Sequence[str], some: Sequence[str] = ()) -> list[Match]:
        """Find the texts that have all of these stems, or at least one of `some`."""
        query = self._ask(some or words, " | " if some else " & ")
        self.connection.execute("SELECT set_config('refold.query', %s, true)", [query])
        often = [_OFTEN.format(every=not some, word=_quote(word), mark=f" {word}:") for word in words]
        most, joined = MOST_MATCHES, SQL(", ").join(often)
        statement = _MATCHES.format(scope=self.scope, session=self.session, often=joined, most=most)
        rows = self.connection.execute(statement, binary=True).fetchall()
        numbers = list({row[0] for row in rows})
        named = self.connection.execute(_NAMES, [self.scope, numbers]).fetchall()
        names = {number: decode_damaged_text(name) for number, name in named}
        self.ids.update({name: number for number, name in names.items()})
        return [Match((names[row[0]], row[1]), row[2], list(row[3:])) for row in rows if row[0] in names]


def _quote(word: str) -> str:
    return f"'{word}'"


def search(
    connection: Connection, scope: str, query: str, *, session: str | None, limit: int, some: bool = False
) -> list[SearchHit]:
    """Return the best hits on all branches, best first."""
    values = {"scope": scope, "key": None if session is None else name_hash(session)}
    [(texts, words, number, older)] = connection.execute(_SEARCHED, values).fetchall()
    if older:
        # Who may only read finds what others have indexed.
        with suppress(errors.InsufficientPrivilege, errors.ReadOnlySqlTransaction):
            for one in older:
                _index_older(connection, scope, one)
        [(texts, words, *_)] = connection.execute(_SEARCHED, values).fetchall()
    if number is None:
        return []
    with connection.transaction():
        # A plan that reads every row looks cheap to the server, which takes its own `@@` for a quick one.
        connection.execute("SET LOCAL enable_seqscan = off")
        terms = _Terms(connection, scope, None if session is None else number, texts, words, {})
        best = rank_texts(terms, query, limit=limit, some=some)
        keys = [(terms.ids[name], seq) for _, (name, seq) in best]
        asked = {"scope": scope, "sessions": [one for one, _ in keys], "seqs": [seq for _, seq in keys]}
        rows = connection.execute(_HITS, asked, binary=True).fetchall() if keys else []
    entries = {(row[0], row[2]): parse_entry_row(row[1:]) for row in rows}
    return [
        SearchHit(session=hit.text[0], entry=entries[key][1], place=entries[key][0], score=hit.score)
        for hit, key in zip(best, keys, strict=True)
        if key in entries  # `check` reports one that is lost
    ]
