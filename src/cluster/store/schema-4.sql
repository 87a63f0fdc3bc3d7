-- Version 4: how many events there are, without counting them, and when nobody watched.

-- What events have in common that filters and facets ask for. A row goes with the last of its events.
CREATE TABLE profiles (
  id INTEGER PRIMARY KEY,
  type TEXT NOT NULL,
  observed TEXT NOT NULL,
  api_group TEXT NOT NULL,
  resource TEXT NOT NULL,
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  classes TEXT NOT NULL,
  managers TEXT NOT NULL,
  -- How many there are.
  events INTEGER NOT NULL,
  UNIQUE (resource, namespace, type, managers, classes, kind, api_group, observed)
) STRICT;

-- How many events of which profile there were in each minute, hour and day. Filled in batches after the commit: events
-- above the number in meta under `counted` are not in it yet.
CREATE TABLE tallies (
  -- Milliseconds: how long it is, and when it begins.
  width INTEGER NOT NULL,
  start INTEGER NOT NULL,
  created INTEGER NOT NULL,
  updated INTEGER NOT NULL,
  deleted INTEGER NOT NULL,
  -- All its events have numbers from the one to the other.
  first INTEGER NOT NULL,
  last INTEGER NOT NULL,
  -- Pairs of a profile and its events, as ledger::tally writes them.
  profiles BLOB NOT NULL,
  PRIMARY KEY (width, start)
) STRICT, WITHOUT ROWID;

-- The words of the search, so that a beginning can be spelt out.
CREATE VIRTUAL TABLE search_words USING fts5vocab (search, row);

-- When a feed was not watched, or none was because kubediff did not run (feed 0): what changed meanwhile was seen later
-- than it was made. Without an end it lasts.
CREATE TABLE absences (
  id INTEGER PRIMARY KEY,
  feed INTEGER NOT NULL,
  since INTEGER NOT NULL,
  until INTEGER
) STRICT;
CREATE INDEX absences_by_feed ON absences (feed, since);
