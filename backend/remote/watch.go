package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/thole-dev/thole/journal"
)

// Heartbeat is how often a server writes a comment to an idle event stream.
const Heartbeat = 15 * time.Second

// stall is how long an event stream may be silent.
const stall = 3 * Heartbeat

// hints calls wake with the spaces of a stream of hints, and opens the stream again
// when it breaks. The server first sends "", since hints may have been missed. hints
// returns nil when ctx ends. Errors: problem.ErrUnauthorized, problem.ErrForbidden, and
// ErrClosed if the Backend is closed.
func (b *Backend) hints(ctx context.Context, wake func(space string)) error {
	return b.follow(ctx, "/watch", func(event string, data []byte) error {
		if event != EventWake {
			return nil
		}
		var space string
		if err := json.Unmarshal(data, &space); err != nil {
			return fmt.Errorf("%w: hint: %v", journal.ErrCorrupt, err)
		}
		wake(space)
		return nil
	})
}

// sendBroadcasts sends broadcasts in one request, which it does not retry.
func (b *Backend) sendBroadcasts(ctx context.Context, broadcasts []journal.Broadcast) error {
	ctx, leave, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	req := Request{Broadcasts: broadcasts}
	body, err := req.Encode()
	if err != nil {
		return err
	}
	_, err = b.try(ctx, http.MethodPost, "/broadcasts", body, nil)
	return err
}

// receiveBroadcasts calls hear with the broadcasts of an event stream, which it opens
// again as hints does.
func (b *Backend) receiveBroadcasts(ctx context.Context, hear func(journal.Broadcast)) error {
	return b.follow(ctx, "/broadcasts", func(event string, data []byte) error {
		if event != EventBroadcast {
			return nil
		}
		var sent journal.Broadcast
		if err := json.Unmarshal(data, &sent); err != nil {
			return fmt.Errorf("%w: broadcast: %v", journal.ErrCorrupt, err)
		}
		hear(sent)
		return nil
	})
}

// follow reads an event stream, and opens it again when it breaks, until ctx ends or
// the server refuses it permanently.
func (b *Backend) follow(ctx context.Context, path string, each func(event string, data []byte) error) error {
	inner, leave, err := b.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	for p := forever(); inner.Err() == nil; p.wait(inner, err) {
		begun := time.Now()
		if err = b.stream(inner, path, each); final(err) {
			return err
		}
		if time.Since(begun) > maxPause {
			p = forever()
		}
	}
	if ctx.Err() != nil {
		return nil
	}
	return context.Cause(inner)
}

// final reports whether the server itself refused and would do so again. Any other
// error may come from a proxy while servers are being replaced.
func final(err error) bool {
	var no *refusal
	return errors.As(err, &no) && no.Status < http.StatusInternalServerError && !passing(err)
}

// stream reads one event stream to its end, and always returns an error.
func (b *Backend) stream(ctx context.Context, path string, each func(event string, data []byte) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silent := time.AfterFunc(b.opts.Timeout, cancel)
	defer silent.Stop()
	r, err := b.request(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", eventStream)
	res, err := b.http.Do(r)
	if err != nil {
		return &lost{err: err}
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != eventStream {
		body, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
		if err != nil {
			return &lost{err: err}
		}
		if _, err := judge(&reply{status: res.StatusCode, header: res.Header, body: body}); err != nil {
			return err
		}
		return notThole(&reply{status: res.StatusCode, header: res.Header})
	}
	silent.Reset(stall)
	err = readStream(res.Body, func() { silent.Reset(stall) }, each)
	return &lost{err: fmt.Errorf("the event stream ended: %w", err)}
}
