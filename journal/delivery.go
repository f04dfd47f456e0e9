package journal

import "sync/atomic"

// Delivery is what a watch hands out: a durable event, or a broadcast, which has
// no position. It is shared by all watchers and must not be changed.
type Delivery struct {
	Event
	encoded atomic.Pointer[encoding]
}

// encoding is a delivery as one encoder wrote it, and those of other encoders.
type encoding struct {
	by    any
	bytes []byte
	next  *encoding
}

// IsBroadcast reports whether d is live only.
func (d *Delivery) IsBroadcast() bool { return d.Position.IsZero() }

// Encoded returns encode(d), computed once for all watchers of d that name the same
// encoder. Like the key of a context's value, by is of a type that the encoder does
// not share with others. The result must not be changed.
func (d *Delivery) Encoded(by any, encode func(*Delivery) []byte) []byte {
	first := d.encoded.Load()
	for e := first; e != nil; e = e.next {
		if e.by == by {
			return e.bytes
		}
	}
	b := encode(d)
	d.encoded.CompareAndSwap(first, &encoding{by: by, bytes: b, next: first})
	return b
}
