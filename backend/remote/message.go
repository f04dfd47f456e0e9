package remote

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"github.com/thole-dev/thole/journal"
)

// A message keeps the bytes of values unchanged and outside of its JSON, so that they
// need no parsing. The head has the length of each value, in the order in which the
// values follow it.
//
//	┌──────────────────────────┬────┬───────────────────────────────┐
//	│ head: JSON on one line   │ \n │ values, one after the other   │
//	└──────────────────────────┴────┴───────────────────────────────┘

// Encode returns the request as a message. It returns ErrInvalid for a name that is
// not UTF-8 and for a value that is empty but not nil, which is not JSON.
func (r *Request) Encode() ([]byte, error) {
	var w writer
	h := requestHead{
		Space: w.text(r.Space), Names: w.texts(r.Names),
		Batch: convert(r.Batch, w.commit), Broadcasts: convert(r.Broadcasts, w.broadcast), Partial: r.Partial,
		List: listQuery(r.List), Read: readQuery(r.Read), Spaces: spacesQuery(r.Spaces), Purge: purge(r.Purge),
		Chunk: chunk{
			Head: r.Chunk.Head, Events: convert(r.Chunk.Events, w.event),
			Records: convert(r.Chunk.Records, w.record), Done: r.Chunk.Done,
		},
	}
	w.texts([]string{r.List.Prefix, r.List.After, r.Spaces.After, r.Read.Stream, r.Read.Actor, r.Read.Subject})
	w.texts(r.Read.Types)
	w.texts(r.Purge.Streams)
	return w.message(h)
}

// DecodeRequest decodes a message of [Request.Encode]; any other is ErrInvalid. The
// result aliases data.
func DecodeRequest(data []byte) (*Request, error) {
	var h requestHead
	r, err := open(data, &h)
	if err != nil {
		return nil, err
	}
	req := &Request{
		Space: h.Space, Names: h.Names,
		Batch: convert(h.Batch, r.commit), Broadcasts: convert(h.Broadcasts, r.broadcast), Partial: h.Partial,
		List: journal.ListQuery(h.List), Read: journal.ReadQuery(h.Read), Spaces: journal.SpacesQuery(h.Spaces), Purge: journal.Purge(h.Purge),
		Chunk: journal.Chunk{
			Head: h.Chunk.Head, Events: convert(h.Chunk.Events, r.event),
			Records: convert(h.Chunk.Records, r.record), Done: h.Chunk.Done,
		},
	}
	return req, r.end()
}

// Encode returns the answer as a message.
func (a *Answer) Encode() ([]byte, error) {
	var w writer
	return w.message(answerHead{
		Results: convert(a.Results, func(r journal.Result) result {
			return result{r.First, r.Last, (*conflict)(r.Conflict), problemIn(r.Err)}
		}),
		Records: convert(a.Records, w.record),
		Page:    page{convert(a.Page.Events, w.event), a.Page.Next},
		Heads:   a.Heads,
		Names:   w.texts(a.Names),
	})
}

// DecodeAnswer decodes a message of [Answer.Encode]; any other is ErrCorrupt. The
// result aliases data.
func DecodeAnswer(data []byte) (*Answer, error) {
	var h answerHead
	r, err := open(data, &h)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", journal.ErrCorrupt, err)
	}
	a := &Answer{
		Results: convert(h.Results, func(r result) journal.Result {
			return journal.Result{First: r.First, Last: r.Last, Conflict: (*journal.ConflictError)(r.Conflict), Err: errorOf(r.Error)}
		}),
		Records: convert(h.Records, r.record),
		Page:    journal.Page{Events: convert(h.Page.Events, r.event), Next: h.Page.Next},
		Heads:   h.Heads,
		Names:   h.Names,
	}
	if err := r.end(); err != nil {
		return nil, fmt.Errorf("%w: %v", journal.ErrCorrupt, err)
	}
	return a, nil
}

// writer collects the values of a message while its head is built.
type writer struct {
	values [][]byte
	size   int
	err    error
}

func (w *writer) value(v json.RawMessage) int {
	if len(v) > 0 {
		w.values = append(w.values, v)
		w.size += len(v)
	}
	return len(v)
}

// text returns s. If s is not UTF-8, it sets the writer's error to ErrInvalid.
func (w *writer) text(s string) string {
	if w.err == nil && !utf8.ValidString(s) {
		w.err = fmt.Errorf("%w: %.80q is not UTF-8", journal.ErrInvalid, s)
	}
	return s
}

func (w *writer) texts(all []string) []string {
	for _, s := range all {
		w.text(s)
	}
	return all
}

func (w *writer) message(head any) ([]byte, error) {
	if w.err != nil {
		return nil, w.err
	}
	b := bytes.NewBuffer(make([]byte, 0, w.size+512))
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(head); err != nil { // a year beyond 9999
		return nil, fmt.Errorf("%w: %v", journal.ErrInvalid, err)
	}
	for _, v := range w.values {
		b.Write(v)
	}
	return b.Bytes(), nil
}

// reader reads the values after a head.
type reader struct {
	rest []byte
	err  error
}

func open(data []byte, head any) (*reader, error) {
	line, rest, ok := bytes.Cut(data, []byte("\n"))
	if !ok {
		return nil, fmt.Errorf("%w: the message has no head", journal.ErrInvalid)
	}
	if err := json.Unmarshal(line, head); err != nil {
		return nil, fmt.Errorf("%w: head of the message: %v", journal.ErrInvalid, err)
	}
	return &reader{rest: rest}, nil
}

func (r *reader) value(size int) json.RawMessage {
	switch {
	case size == 0 || r.err != nil:
		return nil
	case size < 0 || size > len(r.rest):
		r.err = fmt.Errorf("%w: the message ends within a value", journal.ErrInvalid)
		return nil
	}
	v := r.rest[:size:size]
	r.rest = r.rest[size:]
	return json.RawMessage(v)
}

func (r *reader) end() error {
	if r.err == nil && len(r.rest) > 0 {
		r.err = fmt.Errorf("%w: %d bytes follow the message", journal.ErrInvalid, len(r.rest))
	}
	return r.err
}

// convert applies to to each element of list; nil stays nil.
func convert[A, B any](list []A, to func(A) B) []B {
	if list == nil {
		return nil
	}
	out := make([]B, len(list))
	for i := range list {
		out[i] = to(list[i])
	}
	return out
}
