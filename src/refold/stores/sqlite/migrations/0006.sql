-- Words are split and stemmed by refold, and hits are ranked by it, as in the other stores: FTS5 only knows which
-- texts have a word. The words of every entry are indexed again, before the next search. The index has a new
-- name, as the one before; what was indexed before that one is dropped.

DROP TABLE words;

DROP TABLE indexed;

INSERT INTO terms (terms) VALUES ('delete-all');

UPDATE indexed_terms SET through = 0;

CREATE VIRTUAL TABLE stems USING fts5 (text, content = '', columnsize = 0, detail = none, tokenize = 'ascii');

INSERT INTO stems (stems, rank) VALUES ('automerge', 16);

CREATE TABLE texts (
    id INTEGER PRIMARY KEY,           -- of the entry
    session INTEGER NOT NULL,
    length INTEGER NOT NULL,          -- number of its words
    repeated TEXT NOT NULL            -- how often it has those that it has more than once, such as ' again:3 and:2'
);

CREATE TABLE indexed_texts (
    session INTEGER PRIMARY KEY,
    texts INTEGER NOT NULL,
    words INTEGER NOT NULL
);

CREATE TABLE indexed_stems (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    through INTEGER NOT NULL          -- entries up to this id are in `stems`
);

INSERT INTO indexed_stems VALUES (1, 0);
