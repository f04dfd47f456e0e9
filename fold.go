package thole

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
)

// Fold says how the events of a stream add up to a state. S must survive a
// round trip through JSON.
type Fold[S any] struct {
	Name    string // one path segment, such as "todo"
	Version int    // counts up whenever New, Apply or S change: older snapshots then no longer count
	New     func() S
	// Apply returns the state after e. It depends on its arguments alone and may
	// change and return s. An event that was redacted has nil Data.
	Apply func(s S, e Event) (S, error)
	Every int // events between snapshots, at least; 0: 200
}

// Snapshots are disposable records that FoldStream leaves behind:
//
//	snap/<fold>/<version>/<stream>/<16 digits>   {"position": …, "state": …}
//
// with / and % of the stream escaped (or, too long for a key, its SHA-256) and
// MaxSeq − seq as digits, so that the first key at or after that of a position
// is the newest snapshot not beyond it. Together they are never larger than the
// events they stand for: the larger the state, the rarer its snapshots.
type snapshot struct {
	Position Position        `json:"position"`
	State    json.RawMessage `json:"state"`
}

func snapshotPrefix(name string, version int, stream string) string {
	prefix := fmt.Sprintf("snap/%s/%d/", url.PathEscape(name), version)
	part := url.PathEscape(stream)
	if len(prefix)+len(part)+1+seqLen > MaxNameBytes {
		sum := sha256.Sum256([]byte(stream))
		part = hex.EncodeToString(sum[:])
	}
	return prefix + part + "/"
}

// FoldStream returns the state of a stream as of at, with events up to at and
// including it applied, and the position of the last of them (zero: none). A
// zero at is now. It begins at the newest usable snapshot and leaves new ones,
// so that the work stays the same however long the stream is. Events that were
// purged count no more, unless a snapshot from before still holds them.
//
// Errors: those of fold.Apply; *TrimmedError when at is not a position that the
// space's history still has; ErrInvalid.
func FoldStream[S any](ctx context.Context, sp *Space, stream string, fold Fold[S], at Position) (S, Position, error) {
	var none S
	if err := checkName("stream", stream); err != nil {
		return none, Position{}, err
	}
	head, err := sp.Head(ctx)
	if err == nil {
		err = head.Resume(at)
	}
	if err != nil {
		return none, Position{}, err
	}
	if at.IsZero() {
		at = head.Last
	}
	if at.IsZero() {
		return fold.New(), Position{}, nil
	}
	f := folding[S]{Fold: fold, sp: sp, stream: stream, prefix: snapshotPrefix(fold.Name, fold.Version, stream), past: sp.store.past()}
	if f.Every <= 0 {
		f.Every = 200
	}
	if err := f.begin(ctx, head, at); err != nil {
		return none, Position{}, err
	}
	if err := f.run(ctx, at); err != nil {
		return none, Position{}, fmt.Errorf("fold %s of %s in %s: %w", fold.Name, stream, sp.name, err)
	}
	return f.state, f.pos, nil
}

// folding is one FoldStream at work.
type folding[S any] struct {
	Fold[S]
	sp     *Space
	stream string
	prefix string
	past   int // see Store.past
	state  S
	pos    Position // of the last event applied

	events, bytes int // applied since the last snapshot
	writes        []Write
	size          int // of writes, in bytes
}

// begin sets state and pos from the newest usable snapshot that is not beyond
// at. One that cannot be read, or is of a lost history, is as good as none.
func (f *folding[S]) begin(ctx context.Context, head Head, at Position) error {
	q := ListQuery{Prefix: f.prefix, Limit: 1}
	if at.Seq < MaxSeq {
		q.After = f.prefix + seqDigits(MaxSeq-at.Seq-1)
	}
	for {
		recs, err := f.sp.List(ctx, q)
		if err != nil {
			return err
		}
		if len(recs) == 0 {
			f.state, f.pos = f.New(), Position{}
			return nil
		}
		q.After = recs[0].Key
		var snap snapshot
		var state S
		if json.Unmarshal(recs[0].Value, &snap) != nil || snap.Position.IsZero() || snap.Position.Compare(at) > 0 ||
			json.Unmarshal(snap.State, &state) != nil || head.Resume(snap.Position) != nil {
			continue
		}
		f.state, f.pos = state, snap.Position
		return nil
	}
}

func seqDigits(n uint64) string { return fmt.Sprintf("%0*d", seqLen, n) }

func (f *folding[S]) run(ctx context.Context, at Position) error {
	end := at
	end.Seq++ // Before excludes
	for e, err := range f.sp.Events(ctx, ReadQuery{Stream: f.stream, After: f.pos, Before: end}) {
		if err != nil {
			return err
		}
		if f.state, err = f.Apply(f.state, e); err != nil {
			return fmt.Errorf("%s at %s: %w", e.Type, e.Position, err)
		}
		f.pos = e.Position
		f.events++
		f.bytes += e.size()
		if f.events >= f.Every {
			if err := f.snapshot(); err != nil {
				return err
			}
			if f.size > MaxCommitBytes/4 || len(f.writes) == 64 {
				f.flush(ctx)
			}
		}
	}
	f.flush(ctx)
	return nil
}

// snapshot notes the state at pos, unless that is larger than what it saves.
func (f *folding[S]) snapshot() error {
	state, err := marshal(f.state)
	if err != nil {
		return err
	}
	if len(state) > f.bytes {
		f.events /= 2 // look again a while later
		return nil
	}
	value, err := marshal(snapshot{Position: f.pos, State: state})
	if err != nil || len(value) > MaxValueBytes {
		return err
	}
	f.events, f.bytes = 0, 0
	f.size += len(value)
	f.writes = append(f.writes, Write{Key: f.prefix + seqDigits(MaxSeq-f.pos.Seq), Value: value})
	return nil
}

// flush stores the snapshots at hand. That they can be stored is not needed.
func (f *folding[S]) flush(ctx context.Context) {
	if len(f.writes) == 0 {
		return
	}
	s := f.sp.store
	s.purging.RLock()
	defer s.purging.RUnlock()
	var err error
	if s.purges == f.past { // else they may hold what is to be forgotten
		plain := s.Space(f.sp.name) // a fence guards the state, not its copies
		_, err = plain.commit(WithoutIdempotencyKey(ctx), Commit{Writes: f.writes})
	}
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrClosed) {
		f.sp.store.log.Warn("snapshots not stored", "space", f.sp.name, "fold", f.Name, "error", err)
	}
	f.writes, f.size = nil, 0
}
