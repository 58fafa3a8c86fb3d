-- Messages are found by name in all sessions of a scope: a list that comes without the name of its session is
-- recognised by the names of its messages. The same index finds a name in one session.

DROP INDEX refold.entries_by_name;
CREATE INDEX entries_by_name ON refold.entries (scope, name, session);
