package sqlitestore

// generations is a bounded cache in two halves. It drops entries that were not used
// while the newer half filled up, but only in age, so a transaction can rely on what
// it put.
type generations[K comparable, V any] struct {
	newer, older map[K]V
}

// generationSize is how many entries fill one half.
const generationSize = 1 << 16

func (g *generations[K, V]) get(k K) (V, bool) {
	v, ok := g.newer[k]
	if ok {
		return v, true
	}
	if v, ok = g.older[k]; ok {
		g.put(k, v)
	}
	return v, ok
}

func (g *generations[K, V]) put(k K, v V) {
	if g.newer == nil {
		g.newer = map[K]V{}
	}
	g.newer[k] = v
}

// age drops the older half if the newer one is full.
func (g *generations[K, V]) age() {
	if len(g.newer) >= generationSize {
		g.newer, g.older = nil, g.newer
	}
}

func (g *generations[K, V]) clear() { g.newer, g.older = nil, nil }
