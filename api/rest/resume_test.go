package rest_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
	"time"

	"github.com/thole-dev/thole"
)

// readCut reads at most bytes of a stream, from the cursor on, and returns at most so
// many complete events.
func (s *server) readCut(path, cursor string, bytes int64, most int) []frame {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, "GET", s.http.URL+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Accept", "text/event-stream")
	if cursor != "" {
		req.Header.Set("Last-Event-ID", cursor)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != 200 {
		body, _ := io.ReadAll(resp.Body)
		s.t.Fatalf("resume after %q: %d %s", cursor, resp.StatusCode, body)
	}
	w := &watcher{t: s.t, lines: bufio.NewScanner(io.LimitReader(resp.Body, bytes))}
	w.lines.Split(wholeLines)
	var frames []frame
	for len(frames) < most {
		f, ok := w.next()
		if !ok {
			break
		}
		frames = append(frames, f)
	}
	return frames
}

// wholeLines is bufio.ScanLines that drops a last line without an end.
func wholeLines(data []byte, atEOF bool) (int, []byte, error) {
	advance, line, err := bufio.ScanLines(data, false)
	if advance == 0 && atEOF {
		return len(data), nil, err
	}
	return advance, line, err
}

func TestAClientThatIsCutOffAgainAndAgainMissesNothing(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	const writers, each = 4, 100
	for _, path := range []string{"/v1/spaces/project:a/events?after=", "/v1/events?watch=project:a,project:b&after="} {
		s := serve(t, nil)
		stop := make(chan bool)
		for w := range writers {
			space := s.store.Space([]string{"project:a", "project:b"}[w%2])
			if path[4] == 's' {
				space = s.store.Space("project:a")
			}
			go func() {
				for n := range each {
					data := fmt.Appendf(nil, `"%d.%d"`, w, n)
					if _, err := space.Commit(context.Background(), thole.Commit{Events: []thole.Event{{Stream: "app/x", Type: "app.n", Data: data}}}); err != nil {
						t.Error(err)
					}
				}
				stop <- true
			}()
		}
		cursor, cuts := "", 0
		next := map[string]int{}
		last := map[string]thole.Position{}
		for got := 0; got < writers*each; cuts++ {
			for _, f := range s.readCut(path, cursor, 50+random.Int64N(4000), writers*each-got) {
				cursor = f.id
				got++
				var w string
				var n int
				fmt.Sscanf(string(f.data.Data), `"%1s.%d"`, &w, &n)
				if n != next[w] {
					t.Fatalf("after %d cuts: writer %s's event %d came where %d was due", cuts, w, n, next[w])
				}
				next[w]++
				if at := f.data.Position; at.Compare(last[f.data.Space]) <= 0 {
					t.Fatalf("%s came after %s", at, last[f.data.Space])
				}
				last[f.data.Space] = f.data.Position
			}
		}
		for range writers {
			<-stop
		}
		if cuts < 10 {
			t.Errorf("only %d cuts", cuts)
		}
	}
}
