-- Other words are indexed: pairs of letters of Thai, Lao, Burmese and Khmer, and emoji. The words of every entry
-- are indexed again, before the next search.

INSERT INTO words (words) VALUES ('delete-all');

UPDATE indexed SET through = 0;
