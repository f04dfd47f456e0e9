package main_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

// 10,000 messages of 300 bytes are posted over HTTP; the test compares the size of the
// files with that, before and after a checkpoint of the log.
func TestTenThousandTurnsTakeThreeTimesTheirText(t *testing.T) {
	effort.SlowUnderRace(t)
	s := servertest.Start(t, servertest.Setup{})
	const turns, size, clients = 10_000, 300, 16
	const space = "/v1/spaces/project:growth"
	text := strings.Repeat("what people say ", size)[:size-8]
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for client := range clients {
		var thread struct{ ID string }
		s.Must("POST", space+"/threads", map[string]any{"title": fmt.Sprint("Client ", client)}, &thread)
		wg.Go(func() {
			for n := client; n < turns; n += clients {
				message := map[string]any{"role": "user", "blocks": []any{map[string]any{"type": "text", "content": fmt.Sprintf("%07d %s", n, text)}}}
				r, err := s.Do(t.Context(), "POST", space+"/threads/"+thread.ID+"/messages", message)
				if err != nil || r.Status != 201 {
					errs <- fmt.Errorf("message %d: %d %s %v", n, r.Status, r.Body, err)
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		t.Fatal(err)
	}
	check := func(when string) {
		used := diskUsage(t, s.Dir, "thole.db*")
		ratio := float64(used) / (turns * size)
		t.Logf("%s a checkpoint: %d bytes for %d of content: %.2f", when, used, turns*size, ratio)
		if ratio > 3 {
			t.Errorf("storage ÷ content %s a checkpoint: got %.2f, want at most 3", when, ratio)
		}
	}
	check("before")
	s.Terminate()
	check("after")
	servertest.MustBeHealthy(t, s.Store)
}

// diskUsage returns the size of all files of a store, as du does.
func diskUsage(t *testing.T, dir, pattern string) (total int64) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("files: got %v, %v", files, err)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			t.Fatal(err)
		}
		total += (info.Size() + 4095) / 4096 * 4096
	}
	return total
}
