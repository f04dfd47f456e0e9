package main_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// batchClients write at the same time in the phase mid-batch.
const batchClients = 32

// poster is a client that posts as fast as it can and records what was acknowledged.
type poster struct {
	s      *servertest.Server
	name   string
	thread string
	posted int               // messages so far
	acks   map[string]string // path of a value → its ETag
	texts  map[string]string // text of a message → its ETag; "": not acknowledged yet
	counts int               // acknowledged increments
	lost   int               // increments without an answer
}

// write posts until the server is gone.
func (p *poster) write(ctx context.Context) error {
	for {
		p.posted++
		text := fmt.Sprintf("%s-%d.", p.name, p.posted)
		p.texts[text] = ""
		if err := p.message(ctx, text); err != nil {
			return err
		}
		item := fmt.Sprintf("/v1/spaces/%s/kv/%s/%d", killSpace, p.name, p.posted)
		r, err := p.s.Do(ctx, "PUT", item, map[string]any{"data": text})
		if err != nil {
			return err
		}
		p.acks[item] = r.Header.Get("ETag")
		p.lost++
		if _, err = p.s.Do(ctx, "PATCH", "/v1/spaces/"+killSpace+"/documents/counter", increment()); err != nil {
			return err
		}
		p.lost--
		p.counts++
	}
}

// message posts a message under an idempotency key of its own, so that it can be
// repeated.
func (p *poster) message(ctx context.Context, text string) error {
	body := map[string]any{"role": "user", "blocks": []any{map[string]any{"type": "text", "content": text}}}
	r, err := p.s.Do(ctx, "POST", "/v1/spaces/"+killSpace+"/threads/"+p.thread+"/messages", body, "Idempotency-Key", text)
	if err == nil && r.Status != 201 {
		err = fmt.Errorf("post %s: %d %s", text, r.Status, r.Body)
	}
	if err == nil {
		p.texts[text] = r.Header.Get("ETag")
	}
	return err
}

// repeat repeats the messages that got no answer.
func (p *poster) repeat(ctx context.Context) error {
	for text, tag := range p.texts {
		if tag == "" {
			if err := p.message(ctx, text); err != nil {
				return err
			}
		}
	}
	return nil
}

func killMidBatch(t *testing.T, v *victim) (n int) {
	posters := make([]*poster, batchClients)
	for i := range posters {
		var thread struct{ ID string }
		v.Must("POST", "/v1/spaces/"+killSpace+"/threads", map[string]any{}, &thread)
		posters[i] = &poster{s: v.Server, name: fmt.Sprintf("c%d", i), thread: thread.ID, acks: map[string]string{}, texts: map[string]string{}}
	}
	for range v.kills {
		var wg sync.WaitGroup
		for _, p := range posters {
			wg.Go(func() {
				if err := p.write(t.Context()); err == nil {
					v.rec.Fault("a writer stopped early")
				}
			})
		}
		pause(400 * time.Millisecond)
		v.Kill()
		wg.Wait()
		v.die()
		n++
		for _, p := range posters {
			if err := p.repeat(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		checkBatch(t, v, posters)
	}
	return n
}

// checkBatch checks the journal and the state against what was acknowledged. Every
// commit of this space has one event, so its events' seqs have no gaps.
func checkBatch(t *testing.T, v *victim, posters []*poster) {
	t.Helper()
	v.Must("PATCH", "/v1/spaces/"+killSpace+"/documents/counter", increment(), nil) // now it exists
	posters[0].counts++
	journal := v.Events(killSpace)
	if _, last := servertest.Seq(t, journal[len(journal)-1].Position); last != uint64(len(journal)) {
		t.Errorf("%d events end with position %s", len(journal), journal[len(journal)-1].Position)
	}
	said, at := map[string]int{}, map[string]servertest.Event{}
	for _, e := range journal {
		at[`"`+e.Position+`"`] = e
		if e.Type == "message.added" {
			said[textOf(t, e)]++
		}
	}
	counts, lost := 0, 0
	for _, p := range posters {
		counts, lost = counts+p.counts, lost+p.lost
		for text, tag := range p.texts {
			if said[text] != 1 || at[tag].Type != "message.added" {
				t.Errorf("message %s, acknowledged as %s: %d times in the journal, at its version is %q", text, tag, said[text], at[tag].Type)
			}
		}
		for item, tag := range p.acks {
			if at[tag].Type != "kv.set" {
				t.Errorf("%s, acknowledged as %s: at its version is %q", item, tag, at[tag].Type)
			}
		}
	}
	var doc struct{ Value struct{ N int } }
	v.Must("GET", "/v1/spaces/"+killSpace+"/documents/counter", nil, &doc)
	if doc.Value.N < counts || doc.Value.N > counts+lost {
		t.Errorf("the counter: got %d, want %d acknowledged to %d sent", doc.Value.N, counts, counts+lost)
	}
	checkValues(t, v, posters)
}

// checkValues reads the values that were acknowledged since the last time.
func checkValues(t *testing.T, v *victim, posters []*poster) {
	t.Helper()
	for _, p := range posters {
		for item, tag := range p.acks {
			if got := v.Must("GET", item, nil, nil).Header.Get("ETag"); got != tag {
				t.Errorf("%s: got version %s, want %s", item, got, tag)
			}
		}
		clear(p.acks)
		clear(p.texts)
	}
}

// textOf returns the text of a message.added event.
func textOf(t *testing.T, e servertest.Event) string {
	t.Helper()
	var data struct {
		Message struct{ Blocks []struct{ Content string } }
	}
	if err := json.Unmarshal(e.Data, &data); err != nil || len(data.Message.Blocks) != 1 {
		t.Fatalf("%s: %v", e.Text, err)
	}
	return data.Message.Blocks[0].Content
}
