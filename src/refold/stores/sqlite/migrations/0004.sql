-- Words inside JSON are indexed as a person reads them: behind an escaped end of a line, and with the letters
-- that are escaped. The words of every entry are indexed again, before the next search.

INSERT INTO words (words) VALUES ('delete-all');

UPDATE indexed SET through = 0;
