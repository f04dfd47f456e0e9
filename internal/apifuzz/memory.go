package apifuzz

import (
	"math/rand/v2"
	"sync"
)

// fact is what earlier answers said about one thing: values by name, such as thread,
// run and fence.
type fact map[string]string

func (f fact) with(pairs ...string) fact {
	g := make(fact, len(f)+len(pairs)/2)
	for k, v := range f {
		g[k] = v
	}
	for i := 0; i < len(pairs); i += 2 {
		g[pairs[i]] = pairs[i+1]
	}
	return g
}

// keep bounds how many facts of a kind are remembered.
const keep = 200

// memory is what all clients learned. It is safe for concurrent use.
type memory struct {
	mu    sync.Mutex
	facts map[string][]fact
}

func newMemory() *memory { return &memory{facts: make(map[string][]fact)} }

func (m *memory) learn(kind string, f fact) {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := append(m.facts[kind], f)
	if len(all) > keep {
		all = all[len(all)-keep:]
	}
	m.facts[kind] = all
}

// recall returns a fact of a kind, nil if there is none. If take is set, nobody else
// gets it.
func (m *memory) recall(r *rand.Rand, kind string, take bool) fact {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := m.facts[kind]
	if len(all) == 0 {
		return nil
	}
	i := r.IntN(len(all))
	f := all[i]
	if take {
		m.facts[kind] = append(all[:i:i], all[i+1:]...)
	}
	return f
}

// forget drops the facts of a kind whose value under name is value.
func (m *memory) forget(kind, name, value string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var left []fact
	for _, f := range m.facts[kind] {
		if f[name] != value {
			left = append(left, f)
		}
	}
	m.facts[kind] = left
}

// forgetSpace drops everything in a space.
func (m *memory) forgetSpace(space string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for kind, all := range m.facts {
		var left []fact
		for _, f := range all {
			if f["space"] != space {
				left = append(left, f)
			}
		}
		m.facts[kind] = left
	}
}
