package backendtest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/thole-dev/thole/journal"
)

func (m *modelRun) gets() {
	name := m.space()
	keys := []string{m.key(), m.key(), "absent", m.key()}
	m.log("get %s %q", name, keys)
	var want []journal.Record
	for _, key := range keys {
		var r journal.Record
		if s := m.want[name]; s != nil {
			r = s.records[key]
		}
		want = append(want, r)
	}
	m.equal("get", m.env.get(name, keys...), want)
}

func (m *modelRun) lists() {
	name := m.space()
	q := journal.ListQuery{Prefix: pick(m, "", "", "a/", "A/", "b/", "none/"), Limit: m.rand.IntN(5)}
	if m.rand.IntN(3) == 0 {
		q.After = m.key()
	}
	if m.rand.IntN(3) == 0 {
		q.DueBy = m.now.Add(time.Duration(m.rand.IntN(120)-60) * time.Second)
	}
	m.log("list %s %+v", name, q)
	m.equal("list", m.listAll(name, q), m.want.list(name, q))
}

func (m *modelRun) reads() {
	name := m.space()
	q := journal.ReadQuery{Backward: m.rand.IntN(3) == 0, Limit: m.rand.IntN(12)}
	for _, set := range []func(){
		func() { q.Stream = m.stream() },
		func() { q.After = m.position(name) },
		func() {
			if s := m.want[name]; s != nil {
				q.Before = s.at(m.rand.Uint64N(s.last + 3))
			}
		},
		func() { q.Types = []string{m.typ(), pick(m, "run.*", "message.*", "message.added")} },
		func() { q.Actor = pick(m, "user:1", "agent:a") },
		func() { q.Subject = "user:7" },
		func() { q.Since = m.now.Add(-time.Duration(m.rand.IntN(600)) * time.Second) },
		func() { q.Until = m.now.Add(-time.Duration(m.rand.IntN(600)) * time.Second) },
	} {
		if m.rand.IntN(4) == 0 {
			set()
		}
	}
	m.log("read %s %+v", name, q)
	if m.want.resumes(name, q.After) {
		m.equal("read", m.readAll(name, q), m.want.read(name, q))
		return
	}
	_, err := m.b.Read(m.ctx, name, q)
	m.trimmed("read", err, q.After)
}

func (m *modelRun) names() {
	names := append(slices.Sorted(maps.Keys(m.want)), "user:absent")
	m.log("heads and spaces")
	for i, h := range m.heads(names...) {
		m.equal("head", h, m.want.head(names[i]))
	}
	limit := m.rand.IntN(4)
	names = names[:len(names)-1]
	m.equal("spaces", m.spaces(journal.SpacesQuery{Limit: limit}), names)
	by := m.now.Add(time.Duration(m.rand.IntN(60)-30) * time.Second)
	due := m.spaces(journal.SpacesQuery{Limit: limit, DueBy: by})
	for _, name := range names {
		if len(m.want.list(name, journal.ListQuery{DueBy: by})) > 0 {
			m.ok(slices.Contains(due, name), "spaces due by %v: got %q, want %q in it", by, due, name)
		}
	}
}

func (m *modelRun) purges() {
	name := m.space()
	s := m.want[name]
	var p journal.Purge
	switch m.rand.IntN(7) {
	case 0:
		p.All = true
	case 1, 2:
		p.Streams = []string{m.stream(), m.stream()}
		if s != nil && m.rand.IntN(2) == 0 {
			p.UpTo = s.at(1 + m.rand.Uint64N(s.last+1)) // sometimes not a position of the space
		}
	case 3, 4:
		p.Events = []journal.Position{{Epoch: "0001aaaaaaaa", Seq: 1}}
		for range 4 {
			if s != nil && len(s.events) > 0 {
				p.Events = append(p.Events, pick(m, s.events...).Position)
			}
		}
	default:
		p.Before = journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}
		if s != nil {
			p.Before = s.at(1 + m.rand.Uint64N(s.last+1))
		}
	}
	m.log("purge %s %+v", name, p)
	if s == nil {
		m.is("purge", m.b.Purge(m.ctx, name, p), journal.ErrNotFound)
		return
	}
	m.env.purge(name, p)
	m.want.purge(name, p)
	m.compare(name)
}

// loads copies a space to a new name, sometimes to one that exists.
func (m *modelRun) loads() {
	from := m.space()
	if m.want[from] == nil || len(m.want) > 9 {
		return
	}
	m.copies++
	to := fmt.Sprintf("project:copy%d", m.copies)
	m.log("copy %s to %s", from, to)
	m.env.copy(from, to)
	m.want.copy(from, to)
	m.compare(to)
	err := m.b.Load(m.ctx, from, journal.Chunk{Head: m.want.head(from), Done: true})
	m.ok(errors.Is(err, journal.ErrExists), "load to %s: got %v, want ErrExists", from, err)
}

// compare compares a whole space with the model.
func (m *modelRun) compare(name string) {
	m.Helper()
	m.log("compare %s", name)
	m.equal("head of "+name, m.env.head(name), m.want.head(name))
	m.equal("journal of "+name, m.readAll(name, journal.ReadQuery{}), m.want.read(name, journal.ReadQuery{}))
	m.equal("records of "+name, m.listAll(name, journal.ListQuery{}), m.want.list(name, journal.ListQuery{}))
}
