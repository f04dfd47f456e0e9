package main_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/linear"
	"github.com/thole-dev/thole/internal/servertest"
)

// linearServers is a target: the servers of one store, over HTTP. They may be killed,
// paused and restarted at any time, as long as each keeps its URL.
type linearServers struct {
	t      testing.TB
	client *http.Client // with a token; it must not repeat requests by itself
	urls   []string
	paths  sync.Map // of runs, by part and number
	tokens sync.Map // of leases, by base and position
	odd    sync.Map // answers that no operation should get
}

// answerWithin is how long a client waits before an operation counts as unanswered.
const answerWithin = 3 * time.Second

// loadLinear has clients do everything that linear checks with servers of one store,
// each operation with any of them, until ctx ends. It then checks the history: at least
// that many operations must be linearizable.
func loadLinear(ctx context.Context, t testing.TB, client *http.Client, urls []string, load *linearLoad, least int) {
	t.Helper()
	s := &linearServers{t: t, client: client, urls: urls}
	begin := time.Now()
	ops := load.run(ctx, s)
	t.Logf("%d clients of %d servers for %v", load.Clients, len(urls), time.Since(begin).Round(time.Second))
	linearized(t, ops, least)
	s.odd.Range(func(answer, _ any) bool {
		t.Errorf("an operation ended with: %v", answer)
		return true
	})
}

// send sends a request to any server. It returns the outcome of its operation, and
// decodes the answer into out if it is not a problem.
func (s *linearServers) send(ctx context.Context, method, path string, body, out any, header ...string) linear.Outcome {
	limited, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerWithin)
	defer cancel()
	r, err := servertest.Request(limited, s.client, method, s.urls[rand.IntN(len(s.urls))]+path, body, header...)
	var refused *net.OpError
	switch {
	case errors.As(err, &refused) && refused.Op == "dial":
		linger(ctx, 5*time.Millisecond)
		return linear.Never
	case err != nil || r.Status >= 500:
		return linear.Unknown
	case r.Status == http.StatusConflict || r.Status == http.StatusPreconditionFailed:
		return linear.Refused
	case r.Status == http.StatusNotFound && strings.HasSuffix(path, "/claim"):
		return linear.Never // none waits, but a claim may overlook one
	case r.Status >= 300:
		s.odd.Store(fmt.Sprintf("%s %s: %d %s", method, path, r.Status, r.Body), true)
		return linear.Unknown
	}
	if out != nil {
		if err := json.Unmarshal(r.Body, out); err != nil {
			s.odd.Store(fmt.Sprintf("%s %s: %v in %s", method, path, err, r.Body), true)
		}
	}
	return linear.Done
}

func (s *linearServers) name(ctx context.Context, kind linear.Kind, space string, n int) string {
	space = "/v1/spaces/" + space
	switch kind {
	case linear.Record:
		return fmt.Sprintf("%s %s%d", space, []string{"kv/linear/key", "documents/document"}[n%2], n)
	case linear.Lock:
		return fmt.Sprintf("%s lock%d", space, n)
	}
	var thread struct{ ID string }
	agent := fmt.Sprintf("worker%d", n)
	if s.send(ctx, "POST", space+"/threads", map[string]any{"assistant": agent}, &thread) != linear.Done {
		return ""
	}
	return fmt.Sprintf("%s threads/%s/runs %s", space, thread.ID, agent)
}

func (s *linearServers) do(ctx context.Context, op *linear.Op) linear.Outcome {
	space, name, _ := strings.Cut(op.Part, " ")
	switch op.Kind {
	case linear.Record:
		return s.record(ctx, space+"/"+name, op)
	case linear.Lock:
		return s.lock(ctx, space, name, op)
	default:
		path, agent, _ := strings.Cut(name, " ")
		return s.line(ctx, space, path, agent, op)
	}
}

func (s *linearServers) record(ctx context.Context, path string, op *linear.Op) linear.Outcome {
	var header []string
	switch op.If {
	case linear.Anyway:
	case linear.Absent:
		header = []string{"If-None-Match", "*"}
	default:
		header = []string{"If-Match", `"` + op.If + `"`}
	}
	if op.Do == linear.Delete {
		return s.send(ctx, "DELETE", path, nil, nil, header...)
	}
	var got struct {
		Data, Value string
		Version     string
	}
	if op.Do == linear.Get {
		end := s.send(ctx, "GET", path, nil, &got)
		op.Version, op.Value = got.Version, got.Data+got.Value
		return end
	}
	member := "data"
	if strings.Contains(path, "/documents/") {
		member = "value"
	}
	end := s.send(ctx, "PUT", path, map[string]any{member: op.Value}, &got, header...)
	op.Version = got.Version
	return end
}

// tokenOf returns the position in a token, which sorts. It remembers the token, which
// cannot be made from its position.
func (s *linearServers) tokenOf(token string) string {
	f, err := thole.ParseFence(token)
	if err != nil {
		s.odd.Store(err.Error(), true)
	}
	s.tokens.Store(f.String(), token)
	return f.Token.String()
}

// token returns the token that tokenOf was given.
func (s *linearServers) token(base, position string) string {
	token, ok := s.tokens.Load(fenceOf(s.t, base, position).String())
	if !ok {
		s.odd.Store("no token of "+base+" at "+position, true)
		return ""
	}
	return token.(string)
}

func (s *linearServers) lock(ctx context.Context, space, name string, op *linear.Op) linear.Outcome {
	if op.Do == linear.Acquire {
		var held struct{ Token string }
		end := s.send(ctx, "POST", space+"/locks", map[string]any{"name": name, "ttl": op.TTL.Seconds()}, &held)
		if end == linear.Done {
			op.Version = s.tokenOf(held.Token)
		}
		return end
	}
	fence := []string{"Thole-Fence", s.token(lockBase(name), op.If)}
	if op.Do == linear.Release {
		return s.send(ctx, "DELETE", space+"/locks/"+name, nil, nil, fence...)
	}
	return s.send(ctx, "PUT", space+"/kv/under/"+name, map[string]any{"data": 1}, nil, fence...)
}

func (s *linearServers) line(ctx context.Context, space, path, agent string, op *linear.Op) linear.Outcome {
	type job struct{ ID, Status string }
	switch op.Do {
	case linear.Start:
		var r job
		end := s.send(ctx, "POST", space+"/"+path, map[string]any{"prompt": op.Value}, &r)
		if end == linear.Done {
			s.paths.Store(op.Part+" "+op.Value, r.ID)
		}
		return end
	case linear.Claim:
		var got struct {
			Run     job
			Request []struct{ Content string }
			Token   string
		}
		spaces := []string{strings.TrimPrefix(space, "/v1/spaces/")}
		end := s.send(ctx, "POST", "/v1/runs/claim", map[string]any{"spaces": spaces, "agent": agent}, &got)
		if end == linear.Done {
			op.Value, op.Version = got.Request[0].Content, s.tokenOf(got.Token)
			s.paths.Store(op.Part+" "+op.Value, got.Run.ID)
		}
		return end
	}
	id, known := s.paths.Load(op.Part + " " + op.Value)
	if !known {
		return linear.Never
	}
	path = fmt.Sprintf("%s/%s/%v", space, path, id)
	if op.Do == linear.Look {
		var r job
		end := s.send(ctx, "GET", path, nil, &r)
		op.Version = r.Status
		return end
	}
	fence := s.token(fmt.Sprintf("run/%v", id), op.If)
	return s.send(ctx, "POST", path+"/finish", map[string]any{"status": "succeeded"}, nil, "Thole-Fence", fence)
}

// Two servers on a SQLite file are under load, while one of them is killed and
// restarted again and again.
func TestServersOfOneFileAreLinearizableWhileTheyAreKilled(t *testing.T) {
	servertest.Faults(t)
	c := startCluster(t, same("sqlite:"+filepath.Join(t.TempDir(), "thole.db"), 2))
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var killer sync.WaitGroup
	killer.Go(func() {
		for i := 0; ctx.Err() == nil; i++ {
			linger(ctx, 2*time.Second)
			c.Members[i%2].Kill()
			linger(ctx, 200*time.Millisecond)
			if err := c.Members[i%2].TryStart(); err != nil {
				t.Errorf("start again: %v", err)
			}
		}
	})
	loadLinear(ctx, t, c.HTTP, c.URLs, &linearLoad{Clients: 16}, 2000)
	killer.Wait()
	servertest.MustBeHealthy(t, c.Members[0].Store)
}
