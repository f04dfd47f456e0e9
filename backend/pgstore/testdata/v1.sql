INSERT INTO thole.space (id, name, staged, oldest, last, epoch, first, epochs) OVERRIDING SYSTEM VALUE VALUES (1, 'project:shop', 'f', '000111bd67e9-0000000000000001', 5, '000111bd67e9', 1, '[{"last": 0, "epoch": "000111bd67e9", "first": 1}]');
INSERT INTO thole.space (id, name, staged, oldest, last, epoch, first, epochs) OVERRIDING SYSTEM VALUE VALUES (2, 'user:42', 'f', '0001bcae781a-0000000000000002', 2, '0001bcae781a', 1, '[{"last": 0, "epoch": "0001bcae781a", "first": 1}]');
INSERT INTO thole.space (id, name, staged, oldest, last, epoch, first, epochs) OVERRIDING SYSTEM VALUE VALUES (3, 'user:restored', 'f', '0001aaaaaaaa-0000000000000002', 3, '0002bbbbbbbb', 3, '[{"last": 2, "epoch": "0001aaaaaaaa", "first": 1}, {"last": 3, "epoch": "0002bbbbbbbb", "first": 3}]');
INSERT INTO thole.space (id, name, staged, oldest, last, epoch, first, epochs) OVERRIDING SYSTEM VALUE VALUES (4, 'user:half', 't', '0001aaaaaaaa-0000000000000001', 2, '0001aaaaaaaa', 1, '[{"last": 2, "epoch": "0001aaaaaaaa", "first": 1}]');
SELECT setval(pg_get_serial_sequence('thole.space', 'id'), 4);
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (1, 1, 'thread/a', 'message.added', '2026-01-02 03:04:05.000006+00', 2, 'user:42', 'user:42', 'sess_1', E'["task_1","a\\"b"]', E'{"n": 1.0,
 "text":"it''s ü\\u0000"}');
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (1, 2, E'thread/ü''\\', 'note.added', '2026-01-02 03:04:05.000006+00', 0, 'user:42', NULL, 'sess_1', NULL, NULL);
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (1, 3, 'thread/b', 'message.added', '2026-01-02 03:04:05.000006+00', 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (2, 2, 's', 's.made', '2026-01-02 03:04:05.000006+00', 0, NULL, NULL, NULL, NULL, '1');
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (3, 2, 's', 's.made', '2026-01-02 03:04:05.000006+00', 0, 'system', NULL, NULL, NULL, NULL);
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (3, 3, 's', 's.made', '2026-01-02 03:04:05.000006+00', 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO thole.event (space, seq, stream, type, time, schema, actor, subject, cause, refs, data) VALUES (4, 1, 's', 's.made', '1970-01-01 00:00:01+00', 0, NULL, NULL, NULL, NULL, NULL);
INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value) VALUES (1, 'idem/x', 4, '2026-01-02 03:04:05.000006+00', '2026-01-02 02:04:05.000006+00', 'f', 0, '[]');
INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value) VALUES (1, 'thread/a', 4, '2026-01-02 03:04:05.000006+00', NULL, 'f', 3, '{"turns": 1, "a": 1E400}');
INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value) VALUES (1, 'thread/b', 5, '2026-01-02 03:04:06.000006+00', NULL, 'f', 0, '2');
INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value) VALUES (1, E'thread/ü''\\', 4, '2026-01-02 03:04:05.000006+00', '2026-01-02 04:04:05.000006+00', 't', 0, 'null');
INSERT INTO thole.record (space, key, version, updated, expires, notify, schema, value) VALUES (3, 'k', 1, '2026-01-02 03:04:05.000006+00', NULL, 'f', 0, '1');
