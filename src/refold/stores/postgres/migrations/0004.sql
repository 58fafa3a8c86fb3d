-- Words are split and stemmed by refold, and hits are ranked by it, as in the other stores: the server only knows
-- which texts have a word. Each text has its number of words, and the words that it has more than once. The
-- words of every entry are indexed again, before the next search.
--
-- A new table, because an older refold that still runs would fill this one by its own rule, for good. It goes on
-- with the table that it knows, now empty, and a later rule may drop that. Roles have the same rights in both.

CREATE TABLE refold.terms (
    scope text COLLATE "C" NOT NULL,
    session bigint NOT NULL,
    seq bigint NOT NULL,
    length integer NOT NULL,
    repeated text NOT NULL,          -- such as ' again:3 and:2'
    lexemes tsvector NOT NULL        -- also the number of the session, such as '#7'
);
-- A search reads the pending words one by one: half a megabyte of them takes it a few milliseconds.
CREATE INDEX terms_by_lexeme ON refold.terms USING gin (lexemes) WITH (gin_pending_list_limit = 512);

ALTER TABLE refold.terms ENABLE ROW LEVEL SECURITY;
ALTER TABLE refold.terms FORCE ROW LEVEL SECURITY;
CREATE POLICY added ON refold.terms FOR INSERT WITH CHECK (scope = current_setting('refold.scope', true));
CREATE POLICY found ON refold.terms FOR SELECT USING (
    scope = current_setting('refold.scope', true)
    AND lexemes @@ current_setting('refold.query', true)::tsquery
);

DO $$
DECLARE one record;
BEGIN
    FOR one IN SELECT privilege_type AS right, grantee FROM pg_class, aclexplode(relacl)
               WHERE pg_class.oid = 'refold.words'::regclass LOOP
        EXECUTE format('GRANT %s ON refold.terms TO %s', one.right,
            CASE one.grantee WHEN 0 THEN 'PUBLIC' ELSE quote_ident(pg_get_userbyid(one.grantee)) END);
    END LOOP;
END $$;

ALTER TABLE refold.sessions
    ADD COLUMN indexed bigint NOT NULL DEFAULT 0,  -- entries up to here are
    ADD COLUMN texts bigint NOT NULL DEFAULT 0,    -- number of the texts among them
    ADD COLUMN words bigint NOT NULL DEFAULT 0;    -- number of the words in these
DROP INDEX refold.unindexed;
TRUNCATE refold.words;
