package remote

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/thole-dev/thole/journal"
)

// This file is how a change is carried out at most once although its request may
// be sent several times. Each change has a number, under which the server
// process that gets it remembers the answer; every try names the process that
// alone may carry it out. Whether an earlier try has arrived need not be known
// then: the process knows. Only if that has gone is the outcome unknown.

// maxStrangers is how many answers in a row from another process of the server
// are taken for the end of the one that has the batch.
const maxStrangers = 3

// once sends a change until its outcome is known. A guarded one may be carried
// out by two processes.
func (b *Backend) once(ctx context.Context, path string, body []byte, guarded bool) (*Answer, error) {
	number := b.begin()
	defer b.finish(number)
	arrived := false // an earlier try may have been carried out by instance
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
				break // the one that has it may be behind the same address
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

// begin numbers a change.
func (b *Backend) begin() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.next
	b.next++
	b.waiting[n] = struct{}{}
	return n
}

// finish says that nobody waits for the change any more.
func (b *Backend) finish(number uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.waiting, number)
}

// destination returns the process that changes go to, and below which number all
// are finished.
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
