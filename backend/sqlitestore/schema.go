package sqlitestore

// applicationID identifies a Thole database ("thol"), also to file(1) and other
// programs.
const applicationID = 0x74686f6c

// A migration takes a store to the next version: the n-th one (from 1) makes PRAGMA
// user_version n. Released migrations never change.
type migration struct {
	what string // for people
	sql  string
}

// The parts of event.id.
const (
	seqBits  = 40
	endSeq   = 1<<seqBits - 1 // after every seq
	maxSeq   = endSeq - 1
	maxSpace = 1<<(63-seqBits) - 1
)

// eventID returns the row id of the event at seq of a space. A seq that is too large
// for the file counts as endSeq.
func eventID(space int64, seq uint64) int64 {
	return space<<seqBits | int64(min(seq, endSeq))
}

// seqOf returns the seq in an event's id.
func seqOf(id int64) uint64 { return uint64(id) & endSeq }

// migrations is the history of the schema.
//
//	space ──┬─< stream ──< event     one row per event; its position's epoch
//	        │                        follows from its seq and space.epochs
//	        └─< record               the current value under a key
//
//	event.id   0 │ space.id: 23 bits │ seq: 40 bits
//
// Times are Unix microseconds, positions and JSON text, seqs and versions integers.
// The views show everything in readable form. Beyond that:
//
//   - An event's id determines its place in the file: the events of a space are
//     consecutive rows in order, without an index. A file has room for 2²³−1 spaces
//     and a space for 2⁴⁰−2 positions (maxSpace, maxSeq).
//   - A stream's name is stored once. The index event_stream holds its events in
//     order, since its entries end in event.id. The last one is the stream's version,
//     so that an append need not update a second row.
//   - event.data is the last column, so that a scan that filters by other columns does
//     not read the overflow pages of long values.
//   - A staged space is an incomplete import, hidden from reads and views.
var migrations = []migration{{
	what: "create spaces, streams, events, records and their views",
	sql: `
CREATE TABLE space (
	id     INTEGER PRIMARY KEY,
	name   TEXT    NOT NULL,
	staged INTEGER NOT NULL DEFAULT 0 CHECK (staged IN (0, 1)),
	oldest TEXT    NOT NULL, -- position
	last   TEXT    NOT NULL, -- position
	epochs TEXT    NOT NULL CHECK (json_valid(epochs)), -- [{"epoch", "first", "last"}]
	UNIQUE (name, staged)
) STRICT;

CREATE TABLE stream (
	id    INTEGER PRIMARY KEY,
	space INTEGER NOT NULL REFERENCES space (id),
	name  TEXT    NOT NULL,
	UNIQUE (space, name)
) STRICT;

CREATE TABLE event (
	id      INTEGER PRIMARY KEY, -- space.id << 40 | seq
	stream  INTEGER NOT NULL REFERENCES stream (id),
	type    TEXT    NOT NULL,
	time    INTEGER NOT NULL, -- Unix microseconds
	schema  INTEGER NOT NULL,
	actor   TEXT,
	subject TEXT,
	cause   TEXT,
	refs    TEXT, -- JSON array
	data    TEXT -- JSON
) STRICT;

CREATE INDEX event_stream ON event (stream);

CREATE TABLE record (
	id      INTEGER PRIMARY KEY,
	space   INTEGER NOT NULL REFERENCES space (id),
	key     TEXT    NOT NULL,
	version INTEGER NOT NULL CHECK (version > 0), -- seq
	updated INTEGER NOT NULL, -- Unix microseconds
	expires INTEGER,          -- Unix microseconds
	notify  INTEGER NOT NULL CHECK (notify IN (0, 1)),
	schema  INTEGER NOT NULL,
	value   TEXT    NOT NULL, -- JSON
	UNIQUE (space, key)
) STRICT;

CREATE INDEX record_expires ON record (expires, space) WHERE expires IS NOT NULL;

CREATE VIEW epochs AS
SELECT space.id AS space, e.value ->> 'epoch' AS epoch, e.value ->> 'first' AS first, e.value ->> 'last' AS last
FROM space, json_each(space.epochs) AS e;

CREATE VIEW spaces AS
SELECT name, oldest, last, json_array_length(epochs) AS epochs
FROM space WHERE NOT staged;

CREATE VIEW streams AS
SELECT p.name AS space, s.name AS stream, e.events,
	(SELECT epoch FROM epochs WHERE epochs.space = p.id AND epochs.first <= e.last ORDER BY epochs.first DESC LIMIT 1)
		|| printf('-%016d', e.last) AS last
FROM (SELECT stream, count(*) AS events, max(id) & 0xFFFFFFFFFF AS last FROM event GROUP BY stream) AS e
JOIN stream AS s ON s.id = e.stream JOIN space AS p ON p.id = s.space
WHERE NOT p.staged;

CREATE VIEW events AS
SELECT p.name AS space,
	(SELECT epoch FROM epochs WHERE epochs.space = p.id AND epochs.first <= e.id & 0xFFFFFFFFFF ORDER BY epochs.first DESC LIMIT 1)
		|| printf('-%016d', e.id & 0xFFFFFFFFFF) AS position,
	s.name AS stream, e.type,
	strftime('%Y-%m-%dT%H:%M:%S', e.time / 1000000, 'unixepoch') || printf('.%06dZ', e.time % 1000000) AS time,
	e.actor, e.cause, e.subject, e.refs, e.schema, e.data
FROM space AS p JOIN event AS e ON e.id BETWEEN p.id << 40 AND p.id << 40 | 0xFFFFFFFFFF JOIN stream AS s ON s.id = e.stream
WHERE NOT p.staged;

CREATE VIEW records AS
SELECT p.name AS space, r.key,
	(SELECT epoch FROM epochs WHERE epochs.space = p.id AND epochs.first <= r.version ORDER BY epochs.first DESC LIMIT 1)
		|| printf('-%016d', r.version) AS version,
	strftime('%Y-%m-%dT%H:%M:%S', r.updated / 1000000, 'unixepoch') || printf('.%06dZ', r.updated % 1000000) AS updated,
	strftime('%Y-%m-%dT%H:%M:%S', r.expires / 1000000, 'unixepoch') || printf('.%06dZ', r.expires % 1000000) AS expires,
	r.notify, r.schema, r.value
FROM record AS r JOIN space AS p ON p.id = r.space
WHERE NOT p.staged;
`,
}}
