package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/servertest"
)

// A server whose disk fails ends and says why; started again, it has everything that it
// acknowledged.
func TestAServerWhoseDiskFailsEndsAndSaysSo(t *testing.T) {
	const kv = "/v1/spaces/project:fail/kv/ns/"
	const failsAt = 256 << 10 // the log of the server stays shorter
	value := strings.Repeat("0123456789abcdef", 1000)
	for name, start := range map[string]func(*testing.T) (s *servertest.Server, token string){
		"dev on SQLite": func(t *testing.T) (*servertest.Server, string) {
			return servertest.Start(t, servertest.Setup{}), ""
		},
		"dev on files": func(t *testing.T) (*servertest.Server, string) {
			dir := t.TempDir()
			return servertest.Start(t, servertest.Setup{Dir: dir, Store: "file:" + filepath.Join(dir, "store")}), ""
		},
		"serve on SQLite": func(t *testing.T) (*servertest.Server, string) {
			s := servertest.Serve(t, t.TempDir())
			made := servertest.Command(t, s.Dir, nil, "token", "create", "t", "--grant", "*=admin", "--store", s.Store)
			var created struct{ Secret string }
			if err := json.Unmarshal([]byte(made.Out), &created); err != nil {
				t.Fatalf("token create: %v in %+v", err, made)
			}
			return s, created.Secret
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, token := start(t)
			var header []string
			if token != "" {
				header = []string{"Authorization", "Bearer " + token}
			}
			s.FailWrites(failsAt)
			acknowledged := 0
			for {
				r, err := s.Do(t.Context(), "PUT", kv+fmt.Sprint(acknowledged), map[string]any{"data": value}, header...)
				if err != nil || r.Status != 200 {
					t.Logf("refused after %d: %d %s %v", acknowledged, r.Status, r.Body, err)
					break
				}
				if acknowledged++; acknowledged > 1000 {
					t.Fatal("no write ever failed")
				}
			}
			if code := s.Wait(30 * time.Second); code != 1 {
				t.Errorf("exit code: got %d, want 1", code)
			}
			said := s.LogTail()
			for _, part := range []string{"stopped, because its disk failed", "nothing that was acknowledged is lost", "start the process again", "file too large"} {
				if !strings.Contains(said, part) {
					t.Errorf("the server does not say %q:\n%s", part, said)
				}
			}
			if n := strings.Count(said, "thole: unavailable: "); n != 1 || acknowledged == 0 {
				t.Errorf("%d values were acknowledged, and the server said %d times why it ended; want some, and once:\n%s", acknowledged, n, said)
			}
			s.Start()
			for n := range acknowledged {
				s.Must("GET", kv+fmt.Sprint(n), nil, nil, header...)
			}
			s.Must("PUT", kv+"after", map[string]any{"data": value}, nil, header...)
			s.Terminate()
			servertest.MustBeHealthy(t, s.Store)
			if log, err := os.ReadFile(s.Log); err != nil || len(log) > failsAt {
				t.Errorf("the log of the server: %d bytes, %v", len(log), err)
			}
		})
	}
}
