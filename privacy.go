package thole

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// What is in a space may belong to threads. Whoever may not know of a thread may not know
// of what belongs to it either. This file says what belongs to which threads, from the
// declarations of the concepts. Who may know of a thread says the concept of threads: see
// [RecordType.MayKnow]. The Store itself hides nothing; servers such as package api/rest
// do.

// MayKnow reports whether sp's actor may know of a thread and of what belongs to it. It is
// false if no concept declares threads, or none says who may know of them.
func (cs *Concepts) MayKnow(ctx context.Context, sp *Space, thread string) (bool, error) {
	if cs.threads == nil {
		return false, nil
	}
	return cs.threads.MayKnow(ctx, sp, thread)
}

// MayKnowTypes returns the types of the events in a thread's stream after which MayKnow
// may have another result.
func (cs *Concepts) MayKnowTypes() []string { return cs.mayKnow }

// StreamThread returns the id of the thread to which a stream belongs by its name, or ""
// if it belongs to none. known is false for a stream that no concept declares or that is
// [Reserved]: only admins may know of it.
func (cs *Concepts) StreamThread(stream string) (thread string, known bool) {
	if below, ok := strings.CutPrefix(stream, "app/thread/"); ok {
		thread, _, _ = strings.Cut(below, "/")
		return thread, thread != ""
	}
	if Reserved(stream) || stream == "app/thread" { // to which earlier versions wrote events about any thread
		return "", false
	}
	noun, _, _ := strings.Cut(stream, "/")
	for i := range cs.streams[noun] {
		if p := &cs.streams[noun][i]; p.matches(stream) {
			return p.threadIn(stream), true
		}
	}
	return "", false
}

// StreamsOf returns the streams that belong to a thread by their names, without those of
// applications, as patterns for [WatchOptions].
func (cs *Concepts) StreamsOf(thread string) (all []string) {
	for _, patterns := range cs.streams {
		for i := range patterns {
			if name, ok := patterns[i].of(thread); ok {
				all = append(all, name)
			}
		}
	}
	slices.Sort(all)
	return all
}

// EventOf returns the keys of the records to which an event belongs whose stream belongs to
// no thread: none, if every reader of the space may know of it. known is false if that
// cannot be told: then only admins may know of it.
func (cs *Concepts) EventOf(e *Event) (of []string, known bool) {
	if strings.HasPrefix(e.Stream, "app/") || e.Data == nil { // a redacted event says nothing
		return nil, true
	}
	t := cs.events[e.Type]
	switch {
	case t == nil || t.Private:
		return nil, false
	case t.Of == nil:
		return nil, true
	}
	of, err := t.Of(e.Data)
	return of, err == nil
}

// maxOf bounds how many records are read to find the threads of one.
const maxOf = 32

// ThreadsOf returns the ids of the threads to which the record under key belongs. Whoever
// may know of all of them may know of it. It reads records with get. It returns an error if
// the threads cannot be told, such as ErrNotFound for a record that does not exist: then
// only admins may know of it.
func (cs *Concepts) ThreadsOf(key string, get func(key string) (Record, error)) ([]string, error) {
	var threads []string
	rest, seen := []string{key}, 0
	for ; len(rest) > 0; seen++ {
		key, rest = rest[0], rest[1:]
		r := cs.recordOf(key)
		switch {
		case r == nil || r.Private || seen == maxOf:
			return nil, fmt.Errorf("%w: it cannot be told to which threads %s belongs", ErrInvalid, key)
		case r.pattern.thread >= 0:
			threads = append(threads, r.pattern.threadIn(key))
		case r.Of != nil:
			rec, err := get(key)
			if err == nil && !rec.Exists() {
				err = fmt.Errorf("%s: %w", key, ErrNotFound)
			}
			var more []string
			if err == nil {
				more, err = r.Of(rec.Value)
			}
			if err != nil {
				return nil, err
			}
			rest = append(rest, more...)
		case r.above != nil:
			rest = append(rest, cs.Above(key))
		}
	}
	return threads, nil
}

// IDPrefixes returns the prefixes of the ids of records, the longest first: see
// [RecordType.ID].
func (cs *Concepts) IDPrefixes() []string { return cs.prefixes }

// KeyOfID returns the key of the record with that id, or "" if no record type has such
// ids.
func (cs *Concepts) KeyOfID(id string) string {
	r := cs.ids[id[:max(0, strings.LastIndexByte(id, '_'))]]
	if r == nil {
		return ""
	}
	return r.Key[:strings.LastIndexByte(r.Key, '/')+1] + id
}
