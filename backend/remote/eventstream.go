package remote

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/thole-dev/thole/journal"
)

// Events of the streams, as server-sent events: a line "event:", a line "data:" with
// JSON, an empty line. A line that begins with a colon is a heartbeat.
const (
	EventWake      = "wake"      // data: the name of a space
	EventBroadcast = "broadcast" // data: a journal.Broadcast

	eventStream = "text/event-stream"
)

// maxLine is the most bytes of a line: the largest broadcast with every byte of its
// names escaped.
const maxLine = 2*journal.MaxValueBytes + journal.MaxCommitItems*journal.MaxNameBytes*6

// AppendEvent appends an event with v as JSON. A v that JSON cannot hold is ErrInvalid.
func AppendEvent(out []byte, event string, v any) ([]byte, error) {
	b := bytes.NewBuffer(out)
	fmt.Fprintf(b, "event: %s\ndata: ", event)
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return out, fmt.Errorf("%w: %v", journal.ErrInvalid, err)
	}
	b.WriteByte('\n')
	return b.Bytes(), nil
}

// readStream calls each with every event until the stream ends or each fails, and
// returns that error, io.EOF at the end of the stream. It calls alive for every line.
func readStream(r io.Reader, alive func(), each func(event string, data []byte) error) error {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 4<<10), maxLine)
	var event string
	var data []byte
	for lines.Scan() {
		alive()
		line := lines.Bytes()
		name, value, _ := bytes.Cut(line, []byte(":"))
		value = bytes.TrimPrefix(value, []byte(" "))
		switch {
		case len(line) == 0:
			if data != nil {
				if err := each(event, data); err != nil {
					return err
				}
			}
			event, data = "", nil
		case string(name) == "event":
			event = string(value)
		case string(name) == "data":
			data = bytes.Clone(value)
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.EOF
}
