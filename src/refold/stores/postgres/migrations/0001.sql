-- The first tables of a PostgreSQL store.
--
-- Every table has the tenant in `scope` and lets a connection see and write only the rows of the scope it
-- says in `refold.scope`, the owner of the tables included (FORCE). Entries, lines and words have no policy
-- for UPDATE and DELETE, so that nobody who is bound by policies can change or remove them.
-- What may hold any text (names of sessions, keys, holders) is bytea: text cannot hold U+0000.

CREATE TABLE refold.sessions (
    scope text COLLATE "C" NOT NULL,
    id bigint GENERATED ALWAYS AS IDENTITY,
    key bytea NOT NULL,              -- hash of the name, because an index cannot hold a long one
    name bytea NOT NULL,
    line integer NOT NULL DEFAULT 0, -- line, seq, head and said are the head
    seq bigint NOT NULL DEFAULT 0,
    head text NOT NULL DEFAULT '',
    said bigint NOT NULL DEFAULT 0,
    version bigint NOT NULL DEFAULT 0,
    last bigint NOT NULL DEFAULT 0,  -- the highest seq, which is also the number of entries
    lines integer NOT NULL DEFAULT 1,
    batch bigint NOT NULL,           -- which append moved the head last
    created double precision NOT NULL,
    changed double precision NOT NULL,
    PRIMARY KEY (scope, id),
    UNIQUE (scope, key)
);

CREATE TABLE refold.lines (
    scope text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    line integer NOT NULL,           -- line 0 has no row: it begins at the start
    parent_line integer NOT NULL,
    parent_seq bigint NOT NULL,
    PRIMARY KEY (scope, session, line)
);

CREATE TABLE refold.entries (
    scope text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    line integer NOT NULL,
    said bigint NOT NULL,
    batch bigint NOT NULL,           -- which append wrote it, to recognise one whose COMMIT went unanswered
    at double precision NOT NULL,
    kind text COLLATE "C" NOT NULL,
    name text COLLATE "C" NOT NULL,
    parent text COLLATE "C" NOT NULL,
    body text NOT NULL,
    about text NOT NULL,
    text bytea NOT NULL,
    PRIMARY KEY (scope, session, seq)
);
CREATE INDEX entries_by_said ON refold.entries (scope, session, line, said);
CREATE INDEX entries_by_name ON refold.entries (scope, session, name);
CREATE INDEX marks ON refold.entries (scope, session, seq) WHERE kind <> 'said';

-- Stems of English without stop words: every word of a text can be found.
CREATE TEXT SEARCH DICTIONARY refold.stems (TEMPLATE = snowball, Language = english);
CREATE TEXT SEARCH CONFIGURATION refold.words (COPY = pg_catalog.simple);
ALTER TEXT SEARCH CONFIGURATION refold.words
    ALTER MAPPING FOR asciiword, word, asciihword, hword, hword_asciipart, hword_part WITH refold.stems;

CREATE TABLE refold.words (
    scope text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    lexemes tsvector NOT NULL,
    PRIMARY KEY (scope, session, seq)
);
CREATE INDEX words_by_lexeme ON refold.words USING gin (lexemes);

CREATE TABLE refold.notes (
    scope text COLLATE "C" NOT NULL,
    key bytea NOT NULL,              -- hash of the name
    name bytea NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE TABLE refold.leases (
    scope text COLLATE "C" NOT NULL,
    key bytea NOT NULL,              -- of the session, which need not exist yet
    holder bytea,                    -- NULL: released
    fence bigint NOT NULL,
    until double precision NOT NULL,
    PRIMARY KEY (scope, key)
);

CREATE TABLE refold.queue (
    scope text COLLATE "C" NOT NULL,
    key bytea NOT NULL,
    name bytea NOT NULL,
    number bigint GENERATED ALWAYS AS IDENTITY,
    taken bigint,                    -- fence of the lease that took it; gone when that lease is released
    PRIMARY KEY (scope, key)
);
CREATE INDEX queue_by_number ON refold.queue (scope, number);

DO $$
DECLARE one text;
BEGIN
    FOREACH one IN ARRAY ARRAY['sessions', 'lines', 'entries', 'words', 'notes', 'leases', 'queue'] LOOP
        EXECUTE format('ALTER TABLE refold.%I ENABLE ROW LEVEL SECURITY', one);
        EXECUTE format('ALTER TABLE refold.%I FORCE ROW LEVEL SECURITY', one);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['sessions', 'notes', 'leases', 'queue'] LOOP
        EXECUTE format('CREATE POLICY own ON refold.%I USING (scope = current_setting(''refold.scope'', true))'
            ' WITH CHECK (scope = current_setting(''refold.scope'', true))', one);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['lines', 'entries', 'words'] LOOP
        EXECUTE format('CREATE POLICY added ON refold.%I FOR INSERT'
            ' WITH CHECK (scope = current_setting(''refold.scope'', true))', one);
    END LOOP;
    FOREACH one IN ARRAY ARRAY['lines', 'entries'] LOOP
        EXECUTE format('CREATE POLICY seen ON refold.%I FOR SELECT'
            ' USING (scope = current_setting(''refold.scope'', true))', one);
    END LOOP;
END $$;

-- The query is part of the policy because an index on lexemes may only be used for conditions that stand
-- beside the policy's own: `@@` in a WHERE would wait until the policy has looked at every row.
CREATE POLICY found ON refold.words FOR SELECT USING (
    scope = current_setting('refold.scope', true)
    AND lexemes @@ current_setting('refold.query', true)::tsquery
);
