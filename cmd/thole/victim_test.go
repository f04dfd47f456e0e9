package main_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// A run of the model below goes through these phases:
//
//	thinking … decision.planned … started … effect … outcome … talking … end
const killScript = `
turns:
  - prompt: Think, then make effect
    steps:
      - text: Let me think about this for quite a while before I do anything at all.
        capture: {n: 'Think, then make effect (\w+)'}
        delay_ms: 120
        tool_calls:
          - name: Bash
            input: {command: "echo {{n}} >> effects", description: Make the effect that was asked for}
      - text: It is done.
  - prompt: Make effect
    steps:
      - text: At once.
        capture: {n: 'Make effect (\w+)'}
        tool_calls:
          - name: Bash
            input: {command: "touch started-{{n}}; sleep 0.4; echo {{n}} >> effects; touch effect-{{n}}; sleep 5"}
      - expect: [whether it had its effect is unknown]
        text: It may be done.
  - prompt: Tell story
    steps:
      - delay_ms: 60
        text: >-
          Once there was a boat with one oar and a good pin to hold it. The pin was called a thole,
          and it had one task: to stay where it was while everything around it moved. It stayed in
          the calm of the morning, and it stayed when the wind came up. The oar grumbled, the water
          pulled, the boat went round in circles twice; the pin endured. In the evening they were home.
`

const killSpace = "project:kill"

// victim is a server whose agent's runs are interrupted.
type victim struct {
	*servertest.Server
	rec   *servertest.Recorder
	kills int // how often to kill it
}

// newVictim starts a server for runs of killScript on a store, with a short lease.
func newVictim(t *testing.T, store string, kills int) *victim {
	s := servertest.Start(t, servertest.Setup{Store: store, Script: killScript, Lease: 2 * time.Second})
	return &victim{s, servertest.NewRecorder(t, s, killSpace), kills}
}

type runView struct {
	ID, Thread, Status, Error, Turn string
}

// begin starts a run in a new thread.
func (v *victim) begin(prompt string) runView {
	v.T.Helper()
	var thread struct{ ID string }
	v.Must("POST", "/v1/spaces/"+killSpace+"/threads", map[string]any{}, &thread)
	return v.run(thread.ID, map[string]any{"prompt": prompt})
}

func (v *victim) run(thread string, request map[string]any) (r runView) {
	v.T.Helper()
	v.Must("POST", "/v1/spaces/"+killSpace+"/threads/"+thread+"/runs", request, &r)
	return r
}

// ended waits for the end of a run.
func (v *victim) ended(r runView) (now runView) {
	v.T.Helper()
	servertest.Eventually(v.T, 20*time.Second, "the end of "+r.ID, func() bool {
		v.Must("GET", "/v1/spaces/"+killSpace+"/threads/"+r.Thread+"/runs/"+r.ID, nil, &now)
		return !slices.Contains([]string{"queued", "running", "waiting"}, now.Status)
	})
	return now
}

// die kills the server and starts it again. Everything acknowledged must be there, and
// no process of the dead one.
func (v *victim) die() []servertest.Event {
	v.T.Helper()
	v.Kill()
	<-v.rec.Ended
	servertest.Eventually(v.T, 10*time.Second, "the end of what the killed server had started", func() bool { return len(v.Processes()) == 0 })
	servertest.MustBeHealthy(v.T, v.Store)
	v.Start()
	journal := v.rec.Compare()
	v.rec.Attach()
	return journal
}

// crashed checks that a run has crashed, with that many decisions without an outcome,
// and resumes it to its end.
func (v *victim) crashed(r runView, open int) {
	v.T.Helper()
	if got := v.ended(r); got.Status != "crashed" {
		v.T.Fatalf("a run whose server was killed: got %s %s, want crashed", got.Status, got.Error)
	}
	var got []string
	servertest.Eventually(v.T, 10*time.Second, "effects without outcome to be unknown", func() bool {
		got = v.statuses(r, "&incomplete=true")
		return !slices.Contains(got, "planned")
	})
	if len(got) != open || open == 1 && got[0] != "unknown" {
		v.T.Errorf("decisions without outcome after the crash: got %v, want %d unknown", got, open)
	}
	v.interrupted(r, open)
	next := v.run(r.Thread, map[string]any{"resumed_from": r.ID})
	if got := v.ended(next); got.Status != "succeeded" {
		v.T.Fatalf("the other run: got %s %s, want succeeded", got.Status, got.Error)
	}
	if got = v.statuses(r, "&incomplete=true"); len(got) != open || open == 1 && got[0] != "unknown" {
		v.T.Errorf("decisions without outcome after going on: got %v, want %d unknown", got, open)
	}
}

// statuses returns the statuses of a run's decisions.
func (v *victim) statuses(r runView, query string) (all []string) {
	v.T.Helper()
	var page struct{ Items []struct{ Status string } }
	v.Must("GET", "/v1/spaces/"+killSpace+"/decisions?run="+r.ID+query, nil, &page)
	for _, d := range page.Items {
		all = append(all, d.Status)
	}
	return all
}

// interrupted checks that a killed run's turn reads as interrupted, and so do its
// unfinished tool calls.
func (v *victim) interrupted(r runView, calls int) {
	v.T.Helper()
	var page struct {
		Items []struct {
			Run, Status string
			Response    []struct{ Type, Status string }
		}
	}
	v.Must("GET", "/v1/spaces/"+killSpace+"/threads/"+r.Thread+"/turns", nil, &page)
	for _, turn := range page.Items {
		if turn.Run != r.ID {
			continue
		}
		n := 0
		for _, b := range turn.Response {
			if b.Type == "tool" && b.Status == "interrupted" {
				n++
			}
		}
		if turn.Status != "interrupted" || n != calls {
			v.T.Errorf("the turn of a killed run: got %s with %d interrupted calls, want interrupted with %d", turn.Status, n, calls)
		}
		return
	}
	v.T.Errorf("the turn of %s is not in its thread", r.ID)
}

// effects counts how often an effect happened.
func (v *victim) effects(name string) int {
	data, _ := os.ReadFile(filepath.Join(v.Project, "effects"))
	return strings.Count(string(data), name+"\n")
}
