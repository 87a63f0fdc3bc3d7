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

-- What happened. Events and patches are zstd frames of JSON, or short JSON as it is; the columns are what history asks
-- for.
CREATE TABLE events (
  seq INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL,
  -- Milliseconds since 1970, as everywhere below.
  time INTEGER NOT NULL,
  type TEXT NOT NULL,
  api_group TEXT NOT NULL,
  resource TEXT NOT NULL,
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  uid TEXT NOT NULL,
  owner_kind TEXT NOT NULL,
  owner_namespace TEXT NOT NULL,
  owner_name TEXT NOT NULL,
  -- Words with a space before and after each: ' spec image '.
  classes TEXT NOT NULL,
  managers TEXT NOT NULL,
  summary TEXT NOT NULL,
  event BLOB NOT NULL,
  -- From the document after this event to the one before it; NULL where the event holds the whole object.
  inverse BLOB
) STRICT;
CREATE INDEX events_by_id ON events (id);
CREATE INDEX events_by_object ON events (namespace, name, resource, api_group);

CREATE TABLE sinks (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE) STRICT;

-- What is still to be delivered; a row goes when it is.
CREATE TABLE deliveries (
  sink INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  -- A hash of what names the object: its deliveries are made in order.
  object INTEGER NOT NULL,
  attempts INTEGER NOT NULL DEFAULT 0,
  next_at INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (sink, seq)
) STRICT, WITHOUT ROWID;

-- What could not be delivered, and why. `again` asks for another try.
CREATE TABLE dead_letters (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  sink INTEGER NOT NULL,
  seq INTEGER NOT NULL,
  object INTEGER NOT NULL,
  time INTEGER NOT NULL,
  attempts INTEGER NOT NULL,
  reason TEXT NOT NULL,
  again INTEGER NOT NULL DEFAULT 0,
  UNIQUE (sink, seq)
) STRICT;
CREATE INDEX dead_letters_again ON dead_letters (again) WHERE again = 1;

-- The chat message that tells of an owner's changes, while more of them go there.
CREATE TABLE chat_messages (
  sink INTEGER NOT NULL,
  owner TEXT NOT NULL,
  channel TEXT NOT NULL,
  ts TEXT NOT NULL,
  opened INTEGER NOT NULL,
  story TEXT NOT NULL,
  PRIMARY KEY (sink, owner)
) STRICT, WITHOUT ROWID;
