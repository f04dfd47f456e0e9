package pgstore

import (
	"bytes"
	"context"
	"encoding/json"
	"unicode/utf8"

	"github.com/thole-dev/thole/journal"
)

// A message is a JSON array of broadcasts. It goes out in notifications of at most
// maxPayload bytes, in order, each a mark and a part of it:
//
//	=[…]    the whole
//	<[…     the first part, then -… the next ones and >…] the last
const (
	partWhole = "="
	partFirst = "<"
	partNext  = "-"
	partLast  = ">"

	maxPayload = 7900    // the server takes 7,999 bytes
	maxMessage = 1 << 20 // more than any broadcast has
)

// sendBroadcasts notifies the other processes. Without a direct connection it does nothing.
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

// pack makes notifications of broadcasts: several small ones share one.
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
		encoder.SetEscapeHTML(false) // data stays as it is
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

// split makes the notifications of one message. They are texts, so none ends
// within a character.
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
