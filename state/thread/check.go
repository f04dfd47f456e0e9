package thread

import (
	"context"
	"errors"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/cycle"
)

// check reports threads whose messages do not match their heads, that cannot be read,
// or that are below themselves, which only a commit from outside can make.
func check(ctx context.Context, sp *thole.Space, r *thole.Report) error {
	below := make(map[string][]string)
	for rec, err := range sp.Records(ctx, Key("")) {
		if err != nil {
			return err
		}
		id, rest, _ := strings.Cut(strings.TrimPrefix(rec.Key, Key("")), "/")
		if child, ok := strings.CutPrefix(rest, "child/"); ok {
			below[id] = append(below[id], child)
		}
		if rest != "" {
			continue
		}
		if err := checkHead(ctx, sp, r, id, rec); err != nil {
			return err
		}
	}
	cycle.Find(below, func(from, to string) {
		r.Problem("%s is below itself: %s/child/… names %s", Key(to), Key(from), Key(to))
	})
	return nil
}

// checkHead compares the number of messages in the journal with that in the head.
func checkHead(ctx context.Context, sp *thole.Space, r *thole.Report, id string, rec thole.Record) error {
	var t Thread
	if rec.As(&t) != nil {
		return nil // it does not fit its type, which doctor reports
	}
	messages := 0
	for e, err := range sp.Events(ctx, thole.ReadQuery{Stream: Key(id), Types: []string{"message.added"}}) {
		var a Added
		switch {
		case err != nil:
		case e.Data == nil:
			return nil // erased: there is nothing to compare with
		default:
			err = e.As(&a)
		}
		if errors.Is(err, thole.ErrCorrupt) {
			r.Problem("thread %s: %v", id, err)
			return nil
		}
		if err != nil {
			return err
		}
		if e.Position.Compare(rec.Version) > 0 {
			break // it came after the head was read
		}
		if a.Message != nil {
			messages++
		}
		if a.Run != "" {
			messages++ // the reply that the run makes
		}
	}
	if messages != t.Messages {
		r.Problem("thread %s has %d messages in its journal, its head says %d", id, messages, t.Messages)
	}
	if _, err := In(sp).Turns(ctx, id, nil); err != nil {
		r.Problem("thread %s cannot be read: %v", id, err)
	}
	return nil
}
