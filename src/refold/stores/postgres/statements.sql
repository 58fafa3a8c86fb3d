-- Statements of the PostgreSQL store by name. `{NAME}` stands for a constant of the module that reads it.

-- leases.py

-- name: claim
INSERT INTO refold.leases AS l (scope, key, holder, fence, until)
VALUES (%(scope)s, %(key)s, %(holder)s, 1, {NOW} + %(seconds)s)
ON CONFLICT (scope, key) DO UPDATE SET
    fence = l.fence + CASE WHEN %(renew)s AND l.holder = excluded.holder THEN 0 ELSE 1 END,
    holder = excluded.holder, until = excluded.until
WHERE l.holder IS NULL OR l.until <= {NOW} OR (%(renew)s AND l.holder = excluded.holder)
RETURNING fence

-- name: oldest
SELECT q.key, q.name FROM refold.queue AS q
WHERE q.scope = %(scope)s AND NOT EXISTS (
    SELECT FROM refold.leases AS l
    WHERE l.scope = %(scope)s AND l.key = q.key AND l.holder IS NOT NULL AND l.until > {NOW})
ORDER BY q.number LIMIT 1 FOR UPDATE OF q SKIP LOCKED

-- name: offer
INSERT INTO refold.queue AS q (scope, key, name) VALUES (%s, %s, %s)
ON CONFLICT (scope, key) DO UPDATE SET taken = NULL, number = DEFAULT WHERE q.taken IS NOT NULL

-- search.py

-- name: searched
SELECT coalesce(sum(texts), 0)::bigint, coalesce(sum(words), 0)::bigint, min(id),
       array_agg(id) FILTER (WHERE indexed < last)
FROM refold.sessions WHERE scope = %(scope)s AND (%(key)s::bytea IS NULL OR key = %(key)s)

-- name: count
SELECT set_config('refold.query', {query}, true);
SELECT count(*) FROM refold.terms AS t WHERE {WHERE};

-- name: matches
SELECT session, seq, length, {often} FROM refold.terms AS t WHERE {WHERE} LIMIT {most}

-- name: often
CASE WHEN {every} OR t.lexemes @@ {word}::tsquery
     THEN coalesce(nullif(split_part(split_part(t.repeated, {mark}, 2), ' ', 1), '')::integer, 1) ELSE 0 END

-- name: hits
SELECT e.session, {COLUMNS} FROM refold.entries AS e
JOIN unnest(%(sessions)s::bigint[], %(seqs)s::bigint[]) AS hit (id, number) ON e.session = hit.id AND e.seq = hit.number
WHERE e.scope = %(scope)s

-- name: words
INSERT INTO refold.terms (scope, session, seq, length, repeated, lexemes)
SELECT %s, %s, seq, length, repeated, words::tsvector
FROM unnest(%b::bigint[], %b::integer[], %b::text[], %b::text[]) AS t (seq, length, repeated, words)

-- name: indexed
UPDATE refold.sessions SET texts = texts + %s, words = words + %s, indexed = coalesce(%s, last)
WHERE scope = %s AND id = %s RETURNING indexed

-- name: texts
SELECT seq, text FROM (
    SELECT seq, text, sum(octet_length(text)) OVER (ORDER BY seq) - octet_length(text) AS before
    FROM refold.entries WHERE scope = %s AND session = %s AND seq > %s ORDER BY seq LIMIT {PAGE_ROWS}
) AS page WHERE before < {PAGE_BYTES} ORDER BY seq

-- log.py

-- name: page
SELECT {columns} FROM (
    SELECT {columns}, sum(octet_length(body)) OVER (ORDER BY seq {order}) - octet_length(body) AS before
    FROM refold.entries
    WHERE scope = %(scope)s AND session = %(session)s AND line = %(line)s
          AND seq > %(after)s AND seq <= %(through)s AND said >= %(first)s{more}
    ORDER BY seq {order} LIMIT {rows}
) AS page WHERE before < {bytes} ORDER BY seq {order}

-- name: locate
SELECT s.name, e.line, e.seq FROM (
    SELECT DISTINCT ON (session) session, line, seq, at FROM refold.entries
    WHERE scope = %(scope)s AND name = %(name)s AND kind = 'said' ORDER BY session, seq
) AS e JOIN refold.sessions AS s ON s.scope = %(scope)s AND s.id = e.session
ORDER BY e.at DESC, e.session DESC LIMIT %(limit)s

-- name: marks
SELECT {COLUMNS} FROM refold.entries WHERE scope = %(scope)s AND session =
(SELECT id FROM refold.sessions WHERE scope = %(scope)s AND key = %(key)s)
AND kind = %(kind)s AND kind <> 'said' ORDER BY seq

-- name: branches
SELECT l.line, l.parent_line, l.parent_seq, last.seq
FROM refold.sessions AS s
CROSS JOIN LATERAL (
    SELECT 0 AS line, 0 AS parent_line, 0::bigint AS parent_seq
    UNION ALL SELECT line, parent_line, parent_seq FROM refold.lines
    WHERE scope = s.scope AND session = s.id
) AS l
CROSS JOIN LATERAL (
    SELECT seq FROM refold.entries AS e WHERE e.scope = s.scope AND e.session = s.id AND e.line = l.line
    ORDER BY e.said DESC, e.seq DESC LIMIT 1
) AS last
WHERE s.scope = %(scope)s AND s.key = %(key)s ORDER BY l.line

-- check.py

-- name: all
SELECT session, {COLUMNS} FROM (
    SELECT session, {COLUMNS},
           sum(octet_length(body)) OVER (ORDER BY session, seq) - octet_length(body) AS before
    FROM refold.entries WHERE scope = %(scope)s AND (session, seq) > (%(session)s, %(seq)s)
    ORDER BY session, seq LIMIT {PAGE_ROWS}
) AS page WHERE before < {PAGE_BYTES} ORDER BY session, seq

-- append.py

-- name: entries
INSERT INTO refold.entries
    (scope, session, line, batch, seq, name, parent, kind, body, said, text, about, at)
SELECT %s, %s, %s, %s, * FROM unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[],
                                     %b::bigint[], %b::bytea[], %b::text[], %b::float8[])

-- name: move
UPDATE refold.sessions SET line = %(line)s, seq = %(seq)s, head = %(head)s, said = %(said)s,
       version = version + 1, last = %(last)s, lines = %(lines)s, batch = %(batch)s, changed = {NOW},
       texts = texts + %(texts)s, words = words + %(words)s,
       indexed = CASE WHEN indexed = last THEN %(last)s ELSE indexed END
WHERE scope = %(scope)s AND id = %(id)s AND version = %(version)s RETURNING {TELL}

-- name: begin
INSERT INTO refold.sessions (scope, key, name, batch, created, changed)
VALUES (%(scope)s, %(key)s, %(name)s, %(batch)s, {NOW}, {NOW})
ON CONFLICT (scope, key) DO NOTHING RETURNING id

-- name: find_to_delete
SELECT id, (SELECT coalesce(sum(octet_length(body) + octet_length(text)), 0) FROM refold.entries
            WHERE scope = %(scope)s AND session = s.id)
FROM refold.sessions AS s WHERE scope = %(scope)s AND key = %(key)s FOR UPDATE

-- name: delete_rows
SELECT set_config('refold.deleted', coalesce(%(id)s::text, ''), true), set_config('refold.query', '!''#''', true);
DELETE FROM refold.entries WHERE scope = %(scope)s AND session = %(id)s::bigint;
DELETE FROM refold.lines WHERE scope = %(scope)s AND session = %(id)s::bigint;
DELETE FROM refold.terms WHERE scope = %(scope)s AND session = %(id)s::bigint;
DELETE FROM refold.words WHERE scope = %(scope)s AND session = %(id)s::bigint;
DELETE FROM refold.sessions WHERE scope = %(scope)s AND id = %(id)s::bigint;
DELETE FROM refold.queue WHERE scope = %(scope)s AND key = %(key)s;
DELETE FROM refold.leases WHERE scope = %(scope)s AND key = %(key)s;
DELETE FROM refold.notes WHERE scope = %(scope)s AND key = ANY(%(notes)s::bytea[]);

-- changes.py

-- name: tell
(SELECT pg_notify(%(channel)s, '') FROM refold.notes
 WHERE scope = %(scope)s AND key = %(listened)s AND value > {NOW})

-- name: listen
INSERT INTO refold.notes (scope, key, name, value) VALUES (%s, %s, %s,
    convert_to((extract(epoch FROM clock_timestamp()) + %s)::bigint::text, 'UTF8'))
ON CONFLICT (scope, key) DO UPDATE SET value = excluded.value

-- schema.py

-- name: migrations
CREATE TABLE IF NOT EXISTS refold.migrations (
    version integer PRIMARY KEY, taken timestamptz NOT NULL DEFAULT now())

-- name: has_tables
SELECT EXISTS (SELECT FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
    WHERE n.nspname = 'refold' AND c.relname = 'migrations')
