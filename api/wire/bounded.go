package wire

import (
	"context"
	"fmt"

	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// A short request may ask for a long answer, and the length is known only after the
// store has read it. So the server reads in pieces of bounded length and stops at
// maxAnswer.
const (
	maxAnswer = 16 << 20 // bytes of keys and values in one answer
	piece     = maxAnswer / journal.MaxValueBytes
)

// checkNames returns ErrTooLarge for more names than fit in a page.
func checkNames(names []string) error {
	if len(names) > journal.MaxPage {
		return fmt.Errorf("%w: the request has %d names, the limit is %d", journal.ErrTooLarge, len(names), journal.MaxPage)
	}
	return nil
}

// meter counts the bytes of an answer.
type meter int

// add counts records. It returns ErrTooLarge once the answer is longer than
// maxAnswer; the client then asks for fewer records.
func (m *meter) add(records []journal.Record) error {
	for i := range records {
		*m += meter(len(records[i].Key) + len(records[i].Value))
	}
	if *m > maxAnswer {
		return fmt.Errorf("%w: the answer has more than %d bytes; ask for fewer records", journal.ErrTooLarge, maxAnswer)
	}
	return nil
}

// get reads records. It reads many of them twice: first in pieces, to measure them,
// then in one call, so that all are from one state of the space.
func (s *Server) get(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	if err := checkNames(r.Names); err != nil {
		return nil, err
	}
	b := s.store.Backend()
	if len(r.Names) > piece {
		var size meter
		for rest := r.Names; len(rest) > 0; {
			now := rest[:min(piece, len(rest))]
			rest = rest[len(now):]
			records, err := b.Get(ctx, r.Space, now...)
			if err != nil {
				return nil, err
			}
			if err := size.add(records); err != nil {
				return nil, err
			}
		}
	}
	records, err := b.Get(ctx, r.Space, r.Names...)
	return &remote.Answer{Records: records}, err
}

// list reads a list of records. It reads a long one twice, as get does.
func (s *Server) list(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	b := s.store.Backend()
	limit := journal.PageLimit(r.List.Limit)
	var size meter
	for n, q := 0, r.List; ; {
		q.Limit = min(piece, limit-n)
		records, err := b.List(ctx, r.Space, q)
		if err != nil {
			return nil, err
		}
		if n == 0 && (len(records) < q.Limit || q.Limit == limit) {
			return &remote.Answer{Records: records}, nil
		}
		if err := size.add(records); err != nil {
			return nil, err
		}
		if n += len(records); len(records) < q.Limit || n >= limit {
			break
		}
		q.After = records[len(records)-1].Key
	}
	r.List.Limit = limit
	records, err := b.List(ctx, r.Space, r.List)
	return &remote.Answer{Records: records}, err
}

// read reads a page of events in pieces and ends it early when it gets too long. One
// reading is enough: what a journal holds does not change.
func (s *Server) read(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	limit := journal.PageLimit(r.Read.Limit)
	var page journal.Page
	for q, size := r.Read, 0; ; {
		q.Limit = min(piece, limit-len(page.Events))
		more, err := s.store.Backend().Read(ctx, r.Space, q)
		if err != nil {
			return nil, err
		}
		page.Events, page.Next = append(page.Events, more.Events...), more.Next
		for i := range more.Events {
			size += len(more.Events[i].Data)
		}
		if page.Next.IsZero() || len(more.Events) < q.Limit || len(page.Events) >= limit || size >= maxAnswer {
			return &remote.Answer{Page: page}, nil
		}
		if q.Backward {
			q.Before = page.Next
		} else {
			q.After = page.Next
		}
	}
}

func (s *Server) heads(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	if err := checkNames(r.Names); err != nil {
		return nil, err
	}
	heads, err := s.store.Backend().Heads(ctx, r.Names...)
	return &remote.Answer{Heads: heads}, err
}

func (s *Server) spaces(ctx context.Context, r *remote.Request) (*remote.Answer, error) {
	r.Spaces.Limit = journal.PageLimit(r.Spaces.Limit)
	names, err := s.store.Backend().Spaces(ctx, r.Spaces)
	return &remote.Answer{Names: names}, err
}
