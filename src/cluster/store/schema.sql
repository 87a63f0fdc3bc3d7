-- The one file: the last version of every object, how far each feed has been read, what happened, what is still to be
-- delivered. They are written in the same transactions. Version 1.

CREATE TABLE meta (key TEXT PRIMARY KEY, value ANY NOT NULL) STRICT, WITHOUT ROWID;

-- A feed is a resource in a scope with selectors (cluster::Feed::key). Its version is the cursor: NULL until the first
-- list was whole.
CREATE TABLE feeds (
  id INTEGER PRIMARY KEY,
  key TEXT NOT NULL UNIQUE,
  resource TEXT NOT NULL,
  version TEXT
) STRICT;

-- Sections are zstd frames; a frame names the dictionary that it needs.
CREATE TABLE objects (
  id INTEGER PRIMARY KEY,
  feed INTEGER NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  generation INTEGER,
  metadata_hash INTEGER NOT NULL,
  body_hash INTEGER NOT NULL,
  status_hash INTEGER NOT NULL,
  metadata BLOB NOT NULL,
  body BLOB NOT NULL,
  status BLOB NOT NULL,
  managed BLOB NOT NULL
) STRICT;
CREATE UNIQUE INDEX objects_by_key ON objects (feed, namespace, name);

CREATE TABLE dictionaries (
  id INTEGER PRIMARY KEY,
  resource TEXT NOT NULL,
  trained_on INTEGER NOT NULL,
  bytes BLOB NOT NULL
) STRICT;

-- Named indexes: what an index function said of an object.
CREATE TABLE indexed (
  feed INTEGER NOT NULL,
  name TEXT NOT NULL,
  value TEXT NOT NULL,
  object INTEGER NOT NULL,
  PRIMARY KEY (feed, name, value, object)
) STRICT, WITHOUT ROWID;
CREATE INDEX indexed_by_object ON indexed (object);
