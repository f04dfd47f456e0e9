package journal

import "sync/atomic"

// Delivery is what a watch returns: a durable event, or a broadcast, which has no
// position. All watchers share it, so it must not be changed.
type Delivery struct {
	Event
	encoded atomic.Pointer[encoding]
}

// encoding is a list of a delivery's encodings, one for each encoder.
type encoding struct {
	by    any
	bytes []byte
	next  *encoding
}

// IsBroadcast reports whether d is live only.
func (d *Delivery) IsBroadcast() bool { return d.Position.IsZero() }

// Encoded returns encode(d) and remembers it for other watchers that pass the same by.
// Like the key of a context value, by has a type of the encoder's own, so that two
// encoders never use equal ones. The result must not be changed.
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
