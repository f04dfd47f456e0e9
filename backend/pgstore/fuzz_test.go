package pgstore

import (
	"encoding/json"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// Anybody who is connected to the database may send notifications. Whatever they send
// between the parts of a broadcast, the broadcast must arrive, and the memory used must
// stay bounded.
func FuzzNotification(f *testing.F) {
	for _, payload := range []string{"", `["user:1"]`, "=[]", `=[{"space":"user:1"}]`, "<[", "-{", ">]", "=[null]", `["`} {
		f.Add(false, payload, payload)
		f.Add(true, payload, payload)
	}
	f.Fuzz(func(t *testing.T, broadcasts bool, first, second string) {
		r, x := &receiver{news: make(chan struct{}, 1)}, &watcher{spaces: names{}, news: make(chan struct{}, 1)}
		w := &wire{
			config: &config{schema: "thole"}, parts: map[uint32]string{},
			receivers: map[*receiver]bool{r: true}, watchers: map[*watcher]bool{x: true},
		}
		channel := "thole spaces"
		if broadcasts {
			channel = w.broadcastChannel()
		}
		mine := journal.Broadcast{Origin: "o", Space: "user:1", Event: journal.Event{Stream: "s", Type: "a.b", Data: json.RawMessage(`"x"`)}}
		payloads, err := pack([]journal.Broadcast{mine})
		if err != nil {
			t.Fatal(err)
		}
		long, err := json.Marshal([]journal.Broadcast{mine})
		if err != nil {
			t.Fatal(err)
		}
		half := len(long) / 2
		payloads = append(payloads, partFirst+string(long[:half]), partLast+string(long[half:]))
		for _, p := range payloads {
			for _, other := range []string{first, second} {
				w.deliver(&notification{PID: 1, Channel: channel, Payload: other})
			}
			w.deliver(&notification{PID: 2, Channel: w.broadcastChannel(), Payload: p})
		}
		heard := 0
		for _, s := range r.broadcasts {
			if s.Origin == mine.Origin && string(s.Event.Data) == string(mine.Event.Data) {
				heard++
			}
		}
		if heard < 2 && len(r.broadcasts) < maxUnheard {
			t.Errorf("heard the message %d times, want 2: %+v", heard, r.broadcasts)
		}
		if len(w.parts) > 1 || len(w.parts[1]) > maxMessage {
			t.Errorf("%d parts are kept", len(w.parts))
		}
	})
}
