-- Version 2: history that can be asked, and silences.

-- What is read, as JSON (cluster::Resource), for those who name kinds without asking a cluster.
ALTER TABLE feeds ADD COLUMN about TEXT;
-- When the first list was whole: what was before is not known.
ALTER TABLE feeds ADD COLUMN since INTEGER;
UPDATE feeds SET since = coalesce((SELECT min(time) FROM events), unixepoch() * 1000) WHERE version IS NOT NULL;

-- An object's events are one run of this index; so are the events of a resource in a namespace.
DROP INDEX events_by_object;
CREATE INDEX events_by_object ON events (api_group, resource, namespace, name);

-- A narrow copy of what filters ask for, in the order of the events: it grows at its end only, and a scan of it does
-- not touch the wide rows.
CREATE INDEX events_narrow ON events (seq, time, type, observed, api_group, version, resource, kind, namespace, name,
  owner_kind, owner_namespace, owner_name, classes, managers);

-- Words and filter values of each event, by its number. Filled in batches after the commit: events above the number
-- in meta under `searched` are not in it yet.
CREATE VIRTUAL TABLE search USING fts5 (words, content = '', contentless_delete = 1, detail = none,
  tokenize = "ascii tokenchars '~=-._:/|@%+'");

-- What is not told for a while, as people asked for it while kubediff ran. What is empty takes all.
CREATE TABLE silences (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace TEXT NOT NULL,
  kind TEXT NOT NULL,
  name TEXT NOT NULL,
  -- A JSON list of names.
  sinks TEXT NOT NULL,
  until INTEGER NOT NULL,
  reason TEXT NOT NULL,
  by TEXT NOT NULL,
  made INTEGER NOT NULL
) STRICT;

-- When a dead letter was asked for again: its time to be delivered in begins there, not at its event.
ALTER TABLE deliveries ADD COLUMN since INTEGER NOT NULL DEFAULT 0;
