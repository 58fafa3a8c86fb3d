-- Words inside JSON are indexed as a person reads them: behind an escaped end of a line, and with the letters
-- that are escaped. Also pairs of letters of Thai, Lao, Burmese and Khmer, letters without their accents, and
-- emoji. The words of every entry are indexed again, before the next search.
--
-- A column and no table: a new table would need rights that the roles of tenants do not have. Its default is
-- set for the sessions of all tenants at once, which an UPDATE that is bound by policies could not do.

ALTER TABLE refold.sessions ADD COLUMN reindexed bigint DEFAULT 0; -- entries up to here are; NULL: all of them
ALTER TABLE refold.sessions ALTER COLUMN reindexed DROP DEFAULT;
CREATE INDEX unindexed ON refold.sessions (scope) WHERE reindexed IS NOT NULL;
TRUNCATE refold.words;
