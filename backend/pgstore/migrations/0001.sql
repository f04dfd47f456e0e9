-- Spaces, events, records; what commits to them; views for people.
--
--	space ──┬─< event     one row per event; its position's epoch follows from
--	        │             its seq and space.epochs
--	        └─< record    the current value under a key
--
-- Names are compared by their bytes (COLLATE "C"). JSON is kept as it was
-- written, in columns of type text: jsonb would change it and cannot hold all of
-- it, json would parse it once more. The views give it as jsonb. Positions are "<epoch>-<16 digits>".

CREATE TABLE thole.format (
	version integer NOT NULL, -- migrations that were run
	reader  integer NOT NULL  -- programs that know fewer migrations than this must not open it
);

CREATE TABLE thole.space (
	id     bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	name   text    COLLATE "C" NOT NULL,
	staged boolean NOT NULL DEFAULT false, -- an import that is not complete; nothing shows it
	oldest text    NOT NULL, -- the first position that is kept
	last   bigint  NOT NULL, -- seq of the newest commit
	epoch  text    NOT NULL, -- the current one, which is the last of epochs
	first  bigint  NOT NULL, -- its first seq
	epochs jsonb   NOT NULL, -- [{"epoch", "first", "last"}]; the current one ends at space.last
	UNIQUE (name, staged)
) WITH (fillfactor = 50); -- every commit updates a row in place

CREATE TABLE thole.event (
	space   bigint      NOT NULL,
	seq     bigint      NOT NULL,
	stream  text        COLLATE "C" NOT NULL,
	type    text        COLLATE "C" NOT NULL,
	time    timestamptz NOT NULL,
	schema  bigint      NOT NULL,
	actor   text        COLLATE "C",
	subject text        COLLATE "C",
	cause   text        COLLATE "C",
	refs    text, -- JSON: an array of strings
	data    text, -- JSON
	PRIMARY KEY (space, seq)
);
CREATE INDEX event_stream ON thole.event (space, stream, seq);

CREATE TABLE thole.record (
	space   bigint      NOT NULL,
	key     text        COLLATE "C" NOT NULL,
	version bigint      NOT NULL, -- seq
	updated timestamptz NOT NULL,
	expires timestamptz,
	notify  boolean     NOT NULL,
	schema  bigint      NOT NULL,
	value   text        NOT NULL, -- JSON
	PRIMARY KEY (space, key)
) WITH (fillfactor = 80);
CREATE INDEX record_expires ON thole.record (expires, space) WHERE expires IS NOT NULL;

-- The epoch of a seq: '' for 0.
CREATE FUNCTION thole.epoch_of(epochs jsonb, seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT coalesce((SELECT e ->> 'epoch' FROM jsonb_array_elements(epochs) AS e
		WHERE (e ->> 'first')::bigint <= seq ORDER BY (e ->> 'first')::bigint DESC LIMIT 1), '')
$$;

CREATE FUNCTION thole.position_of(epochs jsonb, seq bigint) RETURNS text
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT thole.epoch_of(epochs, seq) || '-' || lpad(seq::text, 16, '0')
$$;

-- The first seq that is not before a position. Positions compare by epoch first,
-- and the last epoch has no end.
CREATE FUNCTION thole.seq_before(epochs jsonb, epoch text, seq bigint) RETURNS bigint
LANGUAGE sql IMMUTABLE PARALLEL SAFE AS $$
	SELECT coalesce(max(least(CASE WHEN e.name = epoch COLLATE "C" THEN seq END, CASE WHEN e.n < jsonb_array_length(epochs) THEN e.last + 1 ELSE 9223372036854775807 END)), 0)
	FROM (SELECT e ->> 'epoch', (e ->> 'last')::bigint, n FROM jsonb_array_elements(epochs) WITH ORDINALITY AS a (e, n)) AS e (name, last, n)
	WHERE e.name <= epoch COLLATE "C"
$$;

-- JSON for queries. What jsonb cannot hold (\u0000, half a surrogate pair,
-- numbers beyond all bounds) becomes a string of its text.
CREATE FUNCTION thole.queryable(value text) RETURNS jsonb
LANGUAGE plpgsql IMMUTABLE STRICT AS $$
BEGIN
	RETURN value::jsonb;
EXCEPTION WHEN data_exception OR program_limit_exceeded THEN
	RETURN to_jsonb(value);
END
$$;

-- commit_1 applies a batch of commits as thole.Backend says. It is all of a
-- transaction, so nothing waits for a client while it holds a lock.
--
-- Arrays hold the batch, a group of arrays per kind of thing; c is the commit
-- that a thing belongs to, from 1. What most things lack (actor to data, schema to
-- notify) is NULL if all lack it. The heads of all spaces are locked in byte
-- order, so that calls cannot wait for each other in a circle. Then each segment
-- is applied as a set: no commit in it reads what an earlier one of it changes.
CREATE FUNCTION thole.commit_1(
	spaces text[], new_epochs text[], -- in byte order; the epoch of one that is created
	g_commit integer[], g_check integer[], g_event integer[], g_write integer[], -- the last of each segment
	g_deletes boolean[], -- whether it deletes records
	c_space integer[], c_now timestamptz[], c_events integer[], -- its space's place in spaces, its number of events
	k_c integer[], k_stream text[], k_key text[], k_epoch text[], k_seq bigint[], -- checks: one of stream and key, the other is empty
	e_c integer[], e_n integer[], e_stream text[], e_type text[], e_schema bigint[], -- n: its place in the commit, from 0
	e_actor text[], e_subject text[], e_cause text[], e_refs text[], e_data text[],
	w_c integer[], w_key text[], w_value text[], w_schema bigint[], w_expires timestamptz[], w_notify boolean[],
	OUT seqs bigint[], -- of each commit: its last seq, or 0
	OUT epochs text[], -- of each space: the current epoch
	OUT f_c integer[], OUT f_item integer[], -- of each conflict: the commit, its check or, negative, its write
	OUT f_seq bigint[], OUT f_epoch text[], OUT f_expired boolean[] -- and what was there
)
LANGUAGE plpgsql
-- The tables may have no statistics yet; indexes are always right here.
SET enable_seqscan = off SET enable_hashjoin = off SET enable_mergejoin = off
SET plan_cache_mode = force_generic_plan SET jit = off
AS $$
#variable_conflict use_column
DECLARE
	ids    bigint[];
	lasts  bigint[];
	firsts bigint[];
	pasts  jsonb[];
	before bigint[];
	base   bigint[] := array_fill(0::bigint, ARRAY[cardinality(c_space)]); -- of each commit: the seq before its first
	failed boolean[] := array_fill(false, ARRAY[cardinality(c_space)]);
	at     integer;
	hits   integer;
	c1 integer := 1; k1 integer := 1; e1 integer := 1; w1 integer := 1;
	c2 integer; k2 integer; e2 integer; w2 integer;
	f      record;
BEGIN
	IF current_setting('synchronous_commit') = 'off' THEN
		PERFORM set_config('synchronous_commit', 'on', true);
	END IF;
	seqs := base;
	f_c := '{}'; f_item := '{}'; f_seq := '{}'; f_epoch := '{}'; f_expired := '{}';

	LOOP
		INSERT INTO thole.space (name, oldest, last, epoch, first, epochs)
		SELECT n.name, n.epoch || '-0000000000000001', 0, n.epoch, 1, jsonb_build_array(jsonb_build_object('epoch', n.epoch, 'first', 1, 'last', 0))
		FROM unnest(spaces, new_epochs) AS n (name, epoch)
		WHERE NOT EXISTS (SELECT FROM thole.space AS s WHERE s.name = n.name AND NOT s.staged)
		ORDER BY n.name COLLATE "C"
		ON CONFLICT DO NOTHING;

		SELECT array_agg(s.id), array_agg(s.last), array_agg(s.epoch), array_agg(s.first), array_agg(s.epochs)
		INTO ids, lasts, epochs, firsts, pasts
		FROM (SELECT * FROM thole.space WHERE name = ANY (spaces) AND NOT staged ORDER BY name FOR UPDATE) AS s;
		EXIT WHEN cardinality(ids) = cardinality(spaces); -- else one was purged meanwhile
	END LOOP;
	before := lasts;

	FOR g IN 1..cardinality(g_commit) LOOP
		c2 := g_commit[g]; k2 := g_check[g]; e2 := g_event[g]; w2 := g_write[g];

		IF k1 <= k2 THEN
			FOR f IN
				SELECT *, CASE WHEN k.seq = 0 THEN '' WHEN k.seq >= firsts[c_space[k.c]] THEN epochs[c_space[k.c]]
					ELSE thole.epoch_of(pasts[c_space[k.c]], k.seq) END AS epoch
				FROM (
					SELECT k.c, k.n, k.epoch AS wanted_epoch, k.seq AS wanted, coalesce(e.seq, 0) AS seq, false AS expired
					FROM unnest(k_c[k1:k2], k_stream[k1:k2], k_epoch[k1:k2], k_seq[k1:k2]) WITH ORDINALITY AS k (c, stream, epoch, seq, n)
					LEFT JOIN LATERAL (SELECT e.seq FROM thole.event AS e WHERE e.space = ids[c_space[k.c]] AND e.stream = k.stream
						ORDER BY e.seq DESC LIMIT 1) AS e ON true
					WHERE k.stream <> ''
				UNION ALL
					SELECT k.c, k.n, k.epoch, k.seq,
						coalesce(CASE WHEN r.notify OR r.expires IS NULL OR r.expires > c_now[k.c] THEN r.version END, 0),
						coalesce(r.notify AND r.expires <= c_now[k.c], false)
					FROM unnest(k_c[k1:k2], k_key[k1:k2], k_epoch[k1:k2], k_seq[k1:k2]) WITH ORDINALITY AS k (c, key, epoch, seq, n)
					LEFT JOIN thole.record AS r ON r.space = ids[c_space[k.c]] AND r.key = k.key
					WHERE k.key <> ''
				) AS k
				WHERE k.expired OR k.seq <> k.wanted OR k.wanted_epoch <> CASE WHEN k.seq = 0 THEN ''
					WHEN k.seq >= firsts[c_space[k.c]] THEN epochs[c_space[k.c]] ELSE thole.epoch_of(pasts[c_space[k.c]], k.seq) END
				ORDER BY k.n
			LOOP
				CONTINUE WHEN failed[f.c];
				failed[f.c] := true;
				f_c := f_c || f.c; f_item := f_item || (f.n + k1 - 1)::integer; f_seq := f_seq || f.seq;
				f_epoch := f_epoch || f.epoch; f_expired := f_expired || f.expired;
			END LOOP;
		END IF;

		IF w1 <= w2 THEN
			FOR f IN
				SELECT w.c, w.n::integer + w1 - 1 AS item, r.version AS seq,
					CASE WHEN r.version >= firsts[c_space[w.c]] THEN epochs[c_space[w.c]] ELSE thole.epoch_of(pasts[c_space[w.c]], r.version) END AS epoch
				FROM unnest(w_c[w1:w2], w_key[w1:w2]) WITH ORDINALITY AS w (c, key, n)
				JOIN thole.record AS r ON r.space = ids[c_space[w.c]] AND r.key = w.key
				WHERE r.notify AND coalesce(r.expires <= c_now[w.c], false) -- not by the index of expiries
				ORDER BY w.n
			LOOP
				CONTINUE WHEN failed[f.c];
				failed[f.c] := true;
				f_c := f_c || f.c; f_item := f_item || -f.item; f_seq := f_seq || f.seq;
				f_epoch := f_epoch || f.epoch; f_expired := f_expired || true;
			END LOOP;
		END IF;

		FOR c IN c1..c2 LOOP
			CONTINUE WHEN failed[c];
			at := c_space[c];
			base[c] := lasts[at];
			lasts[at] := lasts[at] + greatest(1, c_events[c]);
			seqs[c] := lasts[at];
		END LOOP;

		IF e1 <= e2 THEN
			INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data)
			SELECT ids[c_space[e.c]], base[e.c] + 1 + e.n, e.stream, e.type, c_now[e.c], coalesce(e.schema, 0),
				nullif(e.actor, ''), nullif(e.subject, ''), nullif(e.cause, ''), e.refs, e.data
			FROM unnest(e_c[e1:e2], e_n[e1:e2], e_stream[e1:e2], e_type[e1:e2], e_schema[e1:e2],
				e_actor[e1:e2], e_subject[e1:e2], e_cause[e1:e2], e_refs[e1:e2], e_data[e1:e2])
				AS e (c, n, stream, type, schema, actor, subject, cause, refs, data)
			WHERE NOT failed[e.c];
		END IF;

		IF w1 <= w2 THEN
			UPDATE thole.record AS r SET version = seqs[w.c], updated = c_now[w.c], expires = w.expires,
				notify = coalesce(w.notify, false), schema = coalesce(w.schema, 0), value = w.value
			FROM unnest(w_c[w1:w2], w_key[w1:w2], w_value[w1:w2], w_schema[w1:w2], w_expires[w1:w2], w_notify[w1:w2])
				AS w (c, key, value, schema, expires, notify)
			WHERE w.value IS NOT NULL AND NOT failed[w.c] AND r.space = ids[c_space[w.c]] AND r.key = w.key;
			GET DIAGNOSTICS hits = ROW_COUNT;
			IF hits <= w2 - w1 THEN -- some are new, or deletions, or failed
				INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value)
				SELECT ids[c_space[w.c]], w.key, seqs[w.c], c_now[w.c], w.expires, coalesce(w.notify, false), coalesce(w.schema, 0), w.value
				FROM unnest(w_c[w1:w2], w_key[w1:w2], w_value[w1:w2], w_schema[w1:w2], w_expires[w1:w2], w_notify[w1:w2])
					AS w (c, key, value, schema, expires, notify)
				WHERE w.value IS NOT NULL AND NOT failed[w.c]
				ON CONFLICT DO NOTHING; -- it was updated
			END IF;

			IF g_deletes[g] THEN
				DELETE FROM thole.record AS r
				USING unnest(w_c[w1:w2], w_key[w1:w2], w_value[w1:w2]) AS w (c, key, value)
				WHERE w.value IS NULL AND NOT failed[w.c] AND r.space = ids[c_space[w.c]] AND r.key = w.key;
			END IF;
		END IF;

		c1 := c2 + 1; k1 := k2 + 1; e1 := e2 + 1; w1 := w2 + 1;
	END LOOP;

	UPDATE thole.space AS s SET last = n.last
	FROM unnest(ids, before, lasts) AS n (id, before, last)
	WHERE s.id = n.id AND n.last <> n.before;
	IF 0 = ANY (lasts) THEN
		DELETE FROM thole.space WHERE id = ANY (ids) AND last = 0; -- created for commits that failed
	END IF;
END
$$;

CREATE VIEW thole.spaces AS
SELECT name, oldest, thole.position_of(epochs, last) AS last, jsonb_array_length(epochs) AS epochs
FROM thole.space WHERE NOT staged;

CREATE VIEW thole.streams AS
SELECT s.name AS space, e.stream, e.events, thole.position_of(s.epochs, e.last) AS last
FROM (SELECT space, stream, count(*) AS events, max(seq) AS last FROM thole.event GROUP BY space, stream) AS e
JOIN thole.space AS s ON s.id = e.space WHERE NOT s.staged;

CREATE VIEW thole.events AS
SELECT s.name AS space, thole.position_of(s.epochs, e.seq) AS position, e.stream, e.type, e.time,
	e.actor, e.cause, e.subject, e.refs::jsonb AS refs, e.schema, thole.queryable(e.data) AS data
FROM thole.event AS e JOIN thole.space AS s ON s.id = e.space WHERE NOT s.staged;

CREATE VIEW thole.records AS
SELECT s.name AS space, r.key, thole.position_of(s.epochs, r.version) AS version, r.updated, r.expires,
	r.notify, r.schema, thole.queryable(r.value) AS value
FROM thole.record AS r JOIN thole.space AS s ON s.id = r.space WHERE NOT s.staged;
