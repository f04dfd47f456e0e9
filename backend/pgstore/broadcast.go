package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/thole-dev/thole/journal"
)

// A message is a JSON array of broadcasts. It is sent in one or more notifications of
// at most maxPayload bytes, in order. Each is a mark and a part of the message:
//
//	=[…]    the whole message
//	<[…     the first part, followed by -… for more parts and >…] for the last
const (
	partWhole = "="
	partFirst = "<"
	partNext  = "-"
	partLast  = ">"

	maxPayload = 7900    // the server accepts 7,999 bytes
	maxMessage = 1 << 20 // more than any broadcast has
)

// sendBroadcasts sends broadcasts to the other processes. Without a direct connection
// it does nothing. It returns ErrUnavailable while that connection is down.
func (s *Store) sendBroadcasts(ctx context.Context, broadcasts []journal.Broadcast) error {
	ctx, leave, err := s.enter(ctx)
	if err != nil {
		return err
	}
	defer leave()
	if s.wire == nil {
		return nil
	}
	payloads, err := pack(broadcasts)
	if err != nil {
		return err
	}
	return s.wire.post(ctx, payloads)
}

// pack returns the notifications for broadcasts. Several small broadcasts share one.
func pack(broadcasts []journal.Broadcast) (payloads []string, err error) {
	var message []byte
	end := func() {
		if len(message) > 0 {
			payloads = append(payloads, split(append(message, ']'))...)
		}
		message = nil
	}
	for i := range broadcasts {
		var encoded bytes.Buffer
		encoder := json.NewEncoder(&encoded)
		encoder.SetEscapeHTML(false) // keep data unchanged
		if err := encoder.Encode(&broadcasts[i]); err != nil {
			return nil, err
		}
		text := bytes.TrimSuffix(encoded.Bytes(), []byte("\n"))
		if len(message)+len(text)+3 > maxPayload {
			end()
		}
		comma := byte(',')
		if len(message) == 0 {
			comma = '['
		}
		message = append(append(message, comma), text...)
	}
	end()
	return payloads, nil
}

// split returns the notifications of one message. It splits between characters, since
// each notification must be valid text.
func split(message []byte) (payloads []string) {
	if len(message) < maxPayload {
		return []string{partWhole + string(message)}
	}
	mark := partFirst
	for len(message) >= maxPayload {
		n := maxPayload - 1
		for !utf8.RuneStart(message[n]) {
			n--
		}
		payloads = append(payloads, mark+string(message[:n]))
		message, mark = message[n:], partNext
	}
	return append(payloads, partLast+string(message))
}
