package main_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

// pause waits for a random time up to limit, so that kills may hit anywhere.
func pause(limit time.Duration) { <-time.After(rand.N(limit)) }

func TestWhatWasAcknowledgedSurvivesAKillInEveryPhase(t *testing.T) {
	servertest.Faults(t)
	phases := []struct {
		name string
		kill func(*testing.T, *victim) int
	}{
		{"before intent", killBeforeIntent},
		{"between intent and effect", killBeforeEffect},
		{"between effect and outcome", killBeforeOutcome},
		{"mid-chunk", killMidChunk},
		{"mid-batch", killMidBatch},
		{"idle", killIdle},
	}
	stores := []struct {
		name string
		dsn  func(t *testing.T) string
	}{
		{"sqlite", func(t *testing.T) string { return "sqlite:" + filepath.Join(t.TempDir(), "thole.db") }},
		{"file", func(t *testing.T) string { return "file:" + filepath.Join(t.TempDir(), "store") }},
		{"postgres", func(t *testing.T) string { return clusterStore(t) }},
	}
	kills := effort.Amount(2, 2, 12) // in each phase, at least
	for _, on := range stores {
		t.Run(on.name, func(t *testing.T) {
			table := make([]string, len(phases))
			t.Cleanup(func() { fmt.Printf("kills on %s: %s\n", on.name, strings.Join(table, ", ")) })
			for i, p := range phases {
				t.Run(p.name, func(t *testing.T) {
					t.Parallel()
					n := p.kill(t, newVictim(t, on.dsn(t), kills))
					if n < kills {
						t.Errorf("killed %d times in this phase, want at least %d", n, kills)
					}
					table[i] = fmt.Sprintf("%s %d", p.name, n)
				})
			}
		})
	}
}

func killBeforeIntent(t *testing.T, v *victim) (n int) {
	for i := range v.kills {
		name := fmt.Sprintf("b%d", i)
		r := v.begin("Think, then make effect " + name)
		v.rec.Await(10*time.Second, "the start of the run", 1, startOf(r))
		pause(500 * time.Millisecond)
		if slices.ContainsFunc(v.die(), func(e servertest.Event) bool { return e.Type == "decision.planned" && strings.Contains(e.Text, r.ID) }) {
			t.Errorf("the model had not finished to think, and something was planned")
		}
		n++
		v.crashed(r, 0)
		if got := v.effects(name); got != 1 {
			t.Errorf("effects after going on: got %d, want 1", got)
		}
	}
	return n
}

func startOf(r runView) func(servertest.Event) bool {
	return func(e servertest.Event) bool { return e.Type == "run.started" && strings.Contains(e.Text, r.ID) }
}

// killBeforeEffect kills the server when the intent is known and the command runs, but
// has not had its effect.
func killBeforeEffect(t *testing.T, v *victim) int {
	return killInEffect(t, v, 0, func(r runView, name string, round int) {
		if round%2 == 0 {
			v.rec.Await(30*time.Second, "the intent", 1, func(e servertest.Event) bool {
				return e.Type == "decision.planned" && strings.Contains(e.Text, r.ID)
			})
			return
		}
		servertest.Eventually(t, 30*time.Second, "the command", func() bool { return servertest.Exists(v.Project, "started-"+name) })
		pause(200 * time.Millisecond)
	})
}

// killBeforeOutcome kills the server while the command runs, after its effect.
func killBeforeOutcome(t *testing.T, v *victim) int {
	return killInEffect(t, v, 1, func(_ runView, name string, _ int) {
		servertest.Eventually(t, 30*time.Second, "the effect", func() bool { return servertest.Exists(v.Project, "effect-"+name) })
		pause(200 * time.Millisecond)
	})
}

// killInEffect kills the server when reach returns, and counts the kills after which
// the effect had happened as often as want.
func killInEffect(t *testing.T, v *victim, want int, reach func(r runView, name string, round int)) (n int) {
	for i := 0; n < v.kills && i < 2*v.kills; i++ {
		name := fmt.Sprintf("e%d", i)
		r := v.begin("Make effect " + name)
		reach(r, name, i)
		v.die()
		made := v.effects(name)
		v.crashed(r, 1)
		if got := v.effects(name); got != made {
			t.Errorf("an effect whose outcome is unknown was made again: %d times, then %d", made, got)
		}
		if made == want {
			n++
		}
	}
	return n
}

func killMidChunk(t *testing.T, v *victim) (n int) {
	for range v.kills {
		r := v.begin("Tell story")
		v.rec.Await(10*time.Second, "some text", 2+rand.IntN(3), func(e servertest.Event) bool {
			return e.Type == "message.delta" && strings.HasSuffix(e.Stream, r.Thread)
		})
		journal := v.die()
		n++
		want := streamed(t, journal, r.Thread)
		if got := v.answers(r.Thread); len(got) != 1 || got[0] != want {
			t.Errorf("the text after a kill: got %q, want %q", got, want)
		}
		v.crashed(r, 0)
		if got := v.answers(r.Thread); len(got) != 2 || got[0] != want || !strings.HasSuffix(got[1], "they were home.") {
			t.Errorf("the text after going on: got %q", got)
		}
	}
	return n
}

// streamed joins the committed chunks of a thread.
func streamed(t *testing.T, journal []servertest.Event, thread string) (text string) {
	t.Helper()
	for _, e := range journal {
		var d struct {
			Offset int
			Text   string
		}
		if e.Type != "message.delta" || !strings.HasSuffix(e.Stream, thread) {
			continue
		}
		if err := json.Unmarshal(e.Data, &d); err != nil || d.Offset != len(text) {
			t.Errorf("chunk %s begins at %d, want %d (%v)", e.Position, d.Offset, len(text), err)
		}
		text += d.Text
	}
	return text
}

// answers returns the texts of a thread's responses.
func (v *victim) answers(thread string) (all []string) {
	v.T.Helper()
	var page struct {
		Items []struct {
			Response []struct{ Type, Content string }
		}
	}
	v.Must("GET", "/v1/spaces/"+killSpace+"/threads/"+thread+"/turns", nil, &page)
	for _, turn := range page.Items {
		text := ""
		for _, b := range turn.Response {
			if b.Type == "text" {
				text += b.Content
			}
		}
		all = append(all, text)
	}
	return all
}

func killIdle(t *testing.T, v *victim) (n int) {
	const item = "/v1/spaces/" + killSpace + "/kv/idle/n"
	for i := range v.kills {
		version := v.Must("PUT", item, map[string]any{"data": i}, nil).Header.Get("ETag")
		v.rec.Await(10*time.Second, "the write", i+1, func(e servertest.Event) bool { return e.Type == "kv.set" })
		pause(100 * time.Millisecond)
		if journal := v.die(); len(journal) != i+1 {
			t.Errorf("after %d writes and a kill: %d events", i+1, len(journal))
		}
		n++
		r := v.Must("GET", item, nil, nil)
		if got := r.Header.Get("ETag"); got != version || !strings.Contains(string(r.Body), fmt.Sprintf(`"data":%d,`, i)) {
			t.Errorf("an acknowledged value: got %s %s, want %d at %s", got, r.Body, i, version)
		}
		if r, err := v.Do(t.Context(), http.MethodGet, "/readyz", nil); err != nil || r.Status != http.StatusOK {
			t.Errorf("/readyz after a restart: %d %v", r.Status, err)
		}
	}
	return n
}
