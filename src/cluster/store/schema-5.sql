-- Version 5: events are found by their ids without a place for each in every commit.

-- The beginning of each event's id. Filled in batches after the commit, together with the search: events above the number
-- in meta under `searched` are not in it yet. An index on the ids themselves, which are hashes, cost each change a page.
DROP INDEX events_by_id;
CREATE TABLE event_ids (
  start TEXT NOT NULL,
  seq INTEGER NOT NULL,
  PRIMARY KEY (start, seq)
) STRICT, WITHOUT ROWID;
INSERT INTO event_ids SELECT substr(id, 1, 12), seq FROM events
  WHERE seq <= coalesce((SELECT value FROM meta WHERE key = 'searched'), 0) ORDER BY 1, 2;
