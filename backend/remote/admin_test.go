package remote

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/thole-dev/thole/journal"
)

// A server of an earlier version would remove what the purge must leave.
func TestABoundedPurgeIsNotSentToAServerThatKnowsNoBound(t *testing.T) {
	sent := 0
	server := answers(func(r *http.Request) *http.Response {
		sent++
		return answer(204, "", "", nil)
	})
	b, err := Open(t.Context(), "http://server", &Options{Transport: server})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	p := journal.Purge{Streams: []string{"s"}, UpTo: journal.Position{Epoch: "0001aaaaaaaa", Seq: 1}}
	if err := b.Purge(t.Context(), "project:a", p); !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "upgrade") {
		t.Errorf("got %v", err)
	}
	if sent != 0 {
		t.Errorf("%d requests were sent", sent)
	}
	p.UpTo = journal.Position{}
	if err := b.Purge(t.Context(), "project:a", p); err != nil || sent != 1 {
		t.Errorf("without a bound: got %v, %d requests", err, sent)
	}
}
