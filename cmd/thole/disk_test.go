package main_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

// oldStore returns a store that a server wrote and closed.
func oldStore(t *testing.T) []byte {
	t.Helper()
	s := servertest.Start(t, servertest.Setup{})
	for n := range 20 {
		s.Must("POST", "/v1/spaces/project:old/threads", map[string]any{"title": fmt.Sprint("thread ", n, strings.Repeat(" word", 400))}, nil)
	}
	for n := range 3 {
		s.Must("PATCH", "/v1/spaces/project:old/documents/d", map[string]any{"n": n}, nil)
	}
	s.Terminate()
	data, err := os.ReadFile(filepath.Join(s.Dir, "thole.db"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestAStoreThatCannotBeOpenedSaysWhereAndWhatToDo(t *testing.T) {
	effort.SlowUnderRace(t)
	dir, old := t.TempDir(), oldStore(t)
	write := func(name string, data []byte) {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	noise := make([]byte, 100_000)
	rand.Read(noise)
	if err := os.Mkdir(filepath.Join(dir, "folder.db"), 0o755); err != nil {
		t.Fatal(err)
	}
	write("noise.db", noise)
	write("torn.db", old[:len(old)-100])
	write("short.db", old[:len(old)-8192])
	write("newer.db", old)
	sql(t, filepath.Join(dir, "newer.db"), `PRAGMA user_version = 999`)
	sql(t, filepath.Join(dir, "other.db"), `CREATE TABLE t (x); INSERT INTO t VALUES (1)`)
	for _, c := range []struct {
		path string
		says []string
	}{
		{"folder.db", []string{"is a directory", "name a file"}},
		{"noise.db/below.db", []string{"not a directory"}},
		{"noise.db", []string{"is no SQLite database", "name another file"}},
		{"torn.db", []string{"is damaged", "restore a backup"}},
		{"short.db", []string{"is damaged", "restore a backup"}},
		{"newer.db", []string{"version 999", "use a newer program"}},
		{"other.db", []string{"of another program", "name another file"}},
	} {
		store := filepath.Join(dir, c.path)
		before, _ := os.ReadFile(store)
		for _, use := range []string{"dev --listen 127.0.0.1:0 --dir .", "serve --listen 127.0.0.1:0", "doctor", "get", "token list", "migrate --dry-run"} {
			if strings.HasPrefix(use, "migrate") && (c.path == "torn.db" || c.path == "short.db") {
				continue // it reads only the version
			}
			args := append(strings.Fields(use), "--store", "sqlite:"+store)
			servertest.MustFail(t, dir, nil, args, append(c.says, c.path)...)
		}
		if after, _ := os.ReadFile(store); !bytes.Equal(before, after) {
			t.Errorf("%s was changed by programs that could not open it", c.path)
		}
	}
}

// sql changes a file without the program.
func sql(t *testing.T, path, statements string) {
	t.Helper()
	db, err := sqlite3.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Exec(statements); err != nil {
		t.Fatal(err)
	}
}

func TestDoctorFindsWhatIsDamaged(t *testing.T) {
	old := oldStore(t)
	for name, damage := range map[string]string{
		"a change that is gone": `DELETE FROM event WHERE id = (SELECT max(id) FROM event WHERE type = 'document.changed')`,
		"an event no JSON":      `UPDATE event SET data = '{"a":' WHERE id & 0xFFFFFFFFFF = 5`,
		"a record no JSON":      `UPDATE record SET value = '{' WHERE key LIKE 'thread/%'`,
		"a record of tomorrow":  `UPDATE record SET version = 9999 WHERE key LIKE 'thread/%'`,
		"a head too far":        `UPDATE space SET last = substr(last, 1, 13) || '0000000000009999'`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "thole.db")
			if err := os.WriteFile(file, old, 0o644); err != nil {
				t.Fatal(err)
			}
			servertest.MustBeHealthy(t, "sqlite:"+file)
			sql(t, file, damage)
			got := servertest.Command(t, dir, nil, "doctor", "--store", "sqlite:"+file)
			if got.Code != 1 || !strings.Contains(got.Out, `"level":"problem"`) || !strings.Contains(got.Err, "problems") {
				t.Errorf("doctor: got %+v", got)
			}
		})
	}
}

// One server writes; the other one watches, reads and locks.
func TestTwoServersShareOneFile(t *testing.T) {
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "thole.db")
	servers := []*servertest.Server{servertest.Start(t, servertest.Setup{Dir: filepath.Join(dir, "a"), Store: store}), servertest.Start(t, servertest.Setup{Dir: filepath.Join(dir, "b"), Store: store})}
	const space, writes = "/v1/spaces/project:both", 100
	seen := make([]chan string, 2)
	for i, s := range servers {
		seen[i] = make(chan string, 2*writes)
		stop := s.Watch(space+"/events", func(f servertest.Frame) { seen[i] <- f.ID })
		defer stop()
	}
	type result struct{ err error }
	done := make(chan result, 2)
	for i, s := range servers {
		go func() {
			for n := range writes {
				r, err := s.Do(t.Context(), "POST", space+"/events", map[string]any{"type": "app.written", "data": map[string]any{"server": i, "n": n}})
				if err != nil || r.Status != 201 {
					done <- result{fmt.Errorf("server %d: %d %s %v", i, r.Status, r.Body, err)}
					return
				}
			}
			done <- result{}
		}()
	}
	for range servers {
		if r := <-done; r.err != nil {
			t.Fatal(r.err)
		}
	}
	for i := range servers {
		for n := range 2 * writes {
			select {
			case id := <-seen[i]:
				if _, at := servertest.Seq(t, id); at != uint64(n+1) {
					t.Fatalf("event %d through server %d: got %s", n+1, i, id)
				}
			case <-time.After(20 * time.Second):
				t.Fatalf("server %d delivered %d of %d events", i, n, 2*writes)
			}
		}
	}
	lockBoth(t, servers, space)
	for _, s := range servers {
		s.Terminate()
	}
	servertest.MustBeHealthy(t, store)
}

// lockBoth takes a lock through both servers in turn: they never both have it.
func lockBoth(t *testing.T, servers []*servertest.Server, space string) {
	t.Helper()
	ask := map[string]any{"name": "src/app.ts", "owner": "first", "ttl": 60}
	var held struct{ Token string }
	servers[0].Must("POST", space+"/locks", ask, &held)
	ask["owner"] = "second"
	r, err := servers[1].Do(t.Context(), "POST", space+"/locks", ask)
	if err != nil || r.Status != 409 || r.Code() != "conflict" || !strings.Contains(string(r.Body), `"holder":"first"`) {
		t.Errorf("a lock that is held through the other server: got %d %s, %v", r.Status, r.Body, err)
	}
	ask["wait"] = 20
	waited := make(chan servertest.Reply, 1)
	go func() {
		r, _ := servers[1].Do(t.Context(), "POST", space+"/locks", ask)
		waited <- r
	}()
	servers[0].Must("DELETE", space+"/locks/src%2Fapp.ts", nil, nil, "Thole-Fence", held.Token)
	var next struct{ Owner, Token string }
	select {
	case r := <-waited:
		if err := json.Unmarshal(r.Body, &next); err != nil || next.Owner != "second" || next.Token == held.Token {
			t.Errorf("the waiter: got %d %s, %v", r.Status, r.Body, err)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the waiter at the other server never got the lock")
	}
	// The first holder's token is stale on both servers.
	for i, s := range servers {
		r, err := s.Do(t.Context(), "POST", space+"/events", map[string]any{"type": "app.written"}, "Thole-Fence", held.Token)
		if err != nil || r.Status != 409 || r.Code() != "fenced" {
			t.Errorf("a stale token at server %d: got %d %s, %v", i, r.Status, r.Body, err)
		}
	}
}
