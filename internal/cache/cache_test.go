package cache_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/cache"
	"github.com/thole-dev/thole/journal"
)

const name = "project:shop"

func at(seq int) journal.Position { return journal.Position{Epoch: "0001aaaaaaaa", Seq: uint64(seq)} }

// commit tells c of a commit that wrote value under key, or deleted it if value is nil.
func commit(c *cache.Records, key string, value json.RawMessage, res journal.Result) {
	c.Committed([]journal.Commit{{Space: name, Writes: []journal.Write{{Key: key, Value: value}}}}, []journal.Result{res})
}

func holds(t *testing.T, c *cache.Records, key string, want bool) {
	t.Helper()
	if _, got := c.Get(name, key); got != want {
		t.Errorf("the cache holds %s: %t, want %t", key, got, want)
	}
}

func TestRecordsFollowWhatWasCommitted(t *testing.T) {
	c := cache.NewRecords(100)
	commit(c, "a", json.RawMessage("1"), journal.Result{Last: at(1)})
	commit(c, "a", json.RawMessage("2"), journal.Result{Conflict: &journal.ConflictError{}})
	if r, ok := c.Get(name, "a"); !ok || string(r.Value) != "1" || r.Version != at(1) {
		t.Errorf("after a conflict: got %s at %s, %t; want 1", r.Value, r.Version, ok)
	}
	commit(c, "a", nil, journal.Result{Last: at(2)})
	holds(t, c, "a", false)
	commit(c, "a", json.RawMessage("3"), journal.Result{Last: at(3)})
	c.DropSpace("project:other")
	holds(t, c, "a", true)
	c.DropSpace(name)
	holds(t, c, "a", false)
}

// If replaced and deleted values still counted, they would soon take all the room.
func TestWhatIsReplacedOrDeletedTakesNoRoom(t *testing.T) {
	large := json.RawMessage(`"` + strings.Repeat("x", 60<<10) + `"`)
	for _, tt := range []struct {
		name  string
		after json.RawMessage // what each large value is followed by
	}{{"replaced", large}, {"deleted", nil}} {
		t.Run(tt.name, func(t *testing.T) {
			c := cache.NewRecords(100)
			commit(c, "small", json.RawMessage("1"), journal.Result{Last: at(1)})
			for i := range 2000 {
				commit(c, "large", large, journal.Result{Last: at(2 * i)})
				commit(c, "large", tt.after, journal.Result{Last: at(2*i + 1)})
			}
			holds(t, c, "small", true)
			holds(t, c, "large", tt.after != nil)
		})
	}
}

func key(stream string) cache.StreamKey { return cache.StreamKey{Space: name, Stream: stream} }

func TestAProjectionIsReplacedByANewerOneOnly(t *testing.T) {
	m := cache.NewProjections(1 << 20)
	_, era, _ := m.Get(key("a"))
	want := func(value string) {
		t.Helper()
		if got, _, _ := m.Get(key("a")); got.Value != value {
			t.Errorf("got %v, want %s", got.Value, value)
		}
	}
	m.Put(key("a"), cache.Projected{At: at(2), Value: "two"}, era)
	m.Put(key("a"), cache.Projected{At: at(1), Value: "one"}, era)
	want("two")
	m.Put(key("a"), cache.Projected{At: at(3), Value: "three"}, era)
	want("three")
	m.Put(key("a"), cache.Projected{At: at(1), Erased: at(4), Value: "one of four"}, era) // a purge took the rest
	want("one of four")
}

// A value that was computed before the space was dropped may be one of the old space.
func TestAProjectionFromBeforeItsSpaceWasDroppedIsNotKept(t *testing.T) {
	m := cache.NewProjections(1 << 20)
	other := cache.StreamKey{Space: "project:other"}
	_, era, _ := m.Get(key("a"))
	m.Put(key("a"), cache.Projected{At: at(1)}, era)
	m.Put(other, cache.Projected{At: at(1)}, era)
	m.DropSpace(name)
	m.Put(key("b"), cache.Projected{At: at(1)}, era)
	for _, stream := range []string{"a", "b"} {
		if _, _, ok := m.Get(key(stream)); ok {
			t.Errorf("the projection of %s is kept", stream)
		}
	}
	if _, _, ok := m.Get(other); !ok {
		t.Error("the projection of another space is gone")
	}
}

func TestTheProjectionThatWasUsedLeastRecentlyGoesFirst(t *testing.T) {
	for _, tt := range []struct {
		name            string
		bytes, size, of int // the cache's bytes, a projection's, and how many it holds
	}{{"bytes", 4 * 1512, 1000, 4}, {"count", 1 << 30, 0, 1 << 16}} {
		t.Run(tt.name, func(t *testing.T) {
			m := cache.NewProjections(tt.bytes)
			for i := range tt.of {
				m.Put(key(fmt.Sprint(i)), cache.Projected{Size: tt.size}, 0)
			}
			m.Get(key("0"))
			m.Put(key("one more"), cache.Projected{Size: tt.size}, 0)
			for stream, want := range map[string]bool{"0": true, "1": false, "2": true, "one more": true} {
				if _, _, got := m.Get(key(stream)); got != want {
					t.Errorf("the cache holds %s: %t, want %t", stream, got, want)
				}
			}
		})
	}
}
