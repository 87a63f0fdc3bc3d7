-- Version 3: several replicas, of which one delivers.

-- After this version every change of the feed is known here or, by a leader's word, told by another replica. NULL until
-- the first list was whole, and where versions are no numbers.
ALTER TABLE feeds ADD COLUMN begins INTEGER;
UPDATE feeds SET begins = CAST(version AS INTEGER) WHERE version <> '' AND version NOT GLOB '*[^0-9]*';

-- Where the feeds were when the sink was first seen, as JSON: of what was before, this replica had nothing to tell it.
ALTER TABLE sinks ADD COLUMN since TEXT;

-- Which change a delivery tells of, for a replica that has to know whether another one told it: a hash of the feed's key,
-- and the versions that the change came after and was there by. NULL where that cannot be said.
ALTER TABLE deliveries ADD COLUMN feed INTEGER;
ALTER TABLE deliveries ADD COLUMN after INTEGER;
ALTER TABLE deliveries ADD COLUMN version INTEGER;
