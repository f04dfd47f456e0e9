package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole/journal"
)

// A change is applied at most once even if its request is sent several times. Each
// change has a number, under which the server process remembers its answer, and every
// try names the only process that may apply it. The client therefore need not know
// whether an earlier try arrived. The outcome is unknown only if that process is gone.

// maxStrangers is after how many answers in a row from other server processes the one
// that has the change counts as gone.
const maxStrangers = 3

// once sends a change until its outcome is known or Options.Retry has passed. A guarded
// change may also be sent to a second process. If the outcome stays unknown, once
// returns journal.ErrUnavailable and says so.
func (b *Backend) once(ctx context.Context, path string, body []byte, guarded bool) (*Answer, error) {
	number := b.begin()
	defer b.finish(number)
	arrived := false // instance may have applied an earlier try
	strangers := 0
	instance, finished := b.destination()
	for p := b.patience(); ; {
		r, err := b.try(ctx, http.MethodPost, path, body, map[string]string{
			HeaderInstance: instance,
			HeaderChange:   fmt.Sprintf("%s %d %d", b.client, number, finished),
		})
		if err == nil {
			return readAnswer(r)
		}
		var no *refusal
		var gone *lost
		switch {
		case errors.As(err, &gone):
			arrived, strangers = arrived || gone.sent, 0
		case !errors.As(err, &no) || no.unknown:
			return nil, p.gaveUp(ctx, err)
		case no.Status == http.StatusMisdirectedRequest && no.instance != "":
			if strangers++; arrived && !guarded {
				if strangers >= maxStrangers {
					return nil, fmt.Errorf("%w: the connection broke and another server process answers now; it is unknown what became of the change", journal.ErrUnavailable)
				}
				break // the process that has the change may share the address
			}
			instance = no.instance
			b.adopt(instance)
			if strangers < maxStrangers {
				continue
			}
		case !passing(err):
			return nil, err
		}
		if !p.wait(ctx, err) {
			if err = p.gaveUp(ctx, err); arrived {
				err = fmt.Errorf("%w; it is unknown what became of the change", err)
			}
			return nil, err
		}
	}
}

// begin returns the number of a new change.
func (b *Backend) begin() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.next
	b.next++
	b.waiting[n] = struct{}{}
	return n
}

// finish notes that nobody waits for the change any more.
func (b *Backend) finish(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, number)
}

// destination returns the process that changes go to, and the number below which all
// changes are finished.
func (b *Backend) destination() (instance string, finished uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	finished = b.next
	for n := range b.waiting {
		finished = min(finished, n)
	}
	return b.instance, finished
}

func (b *Backend) adopt(instance string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.instance = instance
}
