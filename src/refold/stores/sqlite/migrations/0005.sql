-- Letters that are escaped are read as such also in JSON inside JSON. The index has a new name: an older refold that
-- still runs would fill this one by its own rule, for good. It goes on with the tables that it knows, now empty.
-- The next rule takes new names again, and these may be dropped then.

INSERT INTO words (words) VALUES ('delete-all');

UPDATE indexed SET through = 0;

CREATE VIRTUAL TABLE terms USING fts5 (text, content = '', tokenize = 'porter unicode61');

INSERT INTO terms (terms, rank) VALUES ('automerge', 16);

CREATE TABLE indexed_terms (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    through INTEGER NOT NULL          -- entries up to this id are in `terms`
);

INSERT INTO indexed_terms VALUES (1, 0);
