-- The first tables of a SQLite store; one statement ends where a line ends with a semicolon.
--
-- Names of sessions and of holders, and keys, are blobs: any text is valid there, also what is no UTF-8.
-- `sum` is a checksum of the row, because SQLite does not notice when the disk changes a byte.

CREATE TABLE sessions (
    id INTEGER PRIMARY KEY,
    name BLOB NOT NULL UNIQUE,
    line INTEGER NOT NULL,            -- line, seq, depth, head and said are the head
    seq INTEGER NOT NULL,
    depth INTEGER NOT NULL,
    head TEXT NOT NULL,
    said INTEGER NOT NULL,
    version INTEGER NOT NULL,
    last_seq INTEGER NOT NULL,        -- also the number of entries
    last_line INTEGER NOT NULL,       -- -1 before the first entry
    created REAL NOT NULL,
    changed REAL NOT NULL,
    sum INTEGER NOT NULL,
    turn INTEGER NOT NULL             -- which session changed last, whatever the clock says
);

CREATE TABLE lines (
    session INTEGER NOT NULL,
    line INTEGER NOT NULL,            -- line 0 has no row: it begins at the start
    parent_line INTEGER NOT NULL,
    parent_seq INTEGER NOT NULL,
    sum INTEGER NOT NULL,
    PRIMARY KEY (session, line)
) WITHOUT ROWID;

CREATE TABLE entries (
    id INTEGER PRIMARY KEY,
    session INTEGER NOT NULL,
    line INTEGER NOT NULL,
    seq INTEGER NOT NULL,
    depth INTEGER NOT NULL,           -- how many entries stand on the way to it, itself included
    kind TEXT NOT NULL,
    said INTEGER NOT NULL,
    at REAL NOT NULL,
    name TEXT NOT NULL,
    parent TEXT NOT NULL,
    sum INTEGER NOT NULL,
    about TEXT NOT NULL,
    text TEXT NOT NULL,
    body TEXT NOT NULL
);

CREATE UNIQUE INDEX entries_by_place ON entries (session, line, seq);

CREATE INDEX entries_by_name ON entries (session, name);

CREATE INDEX marks ON entries (session, line, kind, seq) WHERE kind <> 'said';

CREATE VIRTUAL TABLE words USING fts5 (text, content = '', tokenize = 'porter unicode61');

INSERT INTO words (words, rank) VALUES ('automerge', 16);

CREATE TABLE indexed (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    through INTEGER NOT NULL          -- entries up to this id are in `words`
);

INSERT INTO indexed VALUES (1, 0);

CREATE TABLE notes (
    key BLOB PRIMARY KEY,
    value BLOB NOT NULL,
    sum INTEGER NOT NULL
) WITHOUT ROWID;

CREATE TABLE leases (
    session BLOB PRIMARY KEY,
    fence INTEGER NOT NULL DEFAULT 0,
    holder BLOB NOT NULL DEFAULT x'',
    until REAL NOT NULL DEFAULT 0,    -- 0 once it was given back
    turn INTEGER NOT NULL DEFAULT 0,  -- its number among those that wait, 0 for one that does not
    taken INTEGER NOT NULL DEFAULT 0  -- the number it had when it was taken, until it is given back
) WITHOUT ROWID;

CREATE INDEX waiting ON leases (max(turn, taken)) WHERE max(turn, taken) > 0;
