package pgstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/thole-dev/thole/journal"
)

const (
	hintPause   = 10 * time.Millisecond // between two notifications of commits, since notifying takes a server-wide lock
	pingAfter   = 15 * time.Second      // of silence
	wireTimeout = 5 * time.Second       // for an answer
	dialTimeout = 15 * time.Second      // for a new connection
	maxUnheard  = 1 << 12               // broadcasts that wait for one receiver; beyond that, the oldest are dropped
	maxRedial   = 5 * time.Second
	maxTouched  = 1 << 10 // spaces in a set of names; beyond that, it becomes all spaces
)

// errDown means that the connection for broadcasts is down.
var errDown = fmt.Errorf("%w: the connection for hints and broadcasts is down", journal.ErrUnavailable)

// wire carries hints and broadcasts between processes by LISTEN and NOTIFY, over one
// direct connection. Committing transactions do not notify themselves, since a
// transaction with NOTIFY takes a server-wide lock when it commits.
type wire struct {
	*config
	stop context.CancelFunc
	done chan struct{} // closed when run has returned

	mu        sync.Mutex
	touched   names // spaces with commits that other processes were not notified of
	outbox    []letter
	down      bool
	interrupt context.CancelFunc // makes run check touched and outbox; nil: it will do so anyway
	watchers  map[*watcher]bool
	receivers map[*receiver]bool

	parts map[uint32]string // incomplete messages by the sender's process id; used only by run
}

// letter is a payload of broadcasts that waits to be sent.
type letter struct {
	payload string
	sent    chan error // capacity 1
}

// openWire connects and starts run. ctx limits only the connecting.
func openWire(ctx context.Context, s *Store) (*wire, error) {
	w := &wire{
		config: s.config, done: make(chan struct{}),
		touched: names{}, watchers: map[*watcher]bool{}, receivers: map[*receiver]bool{},
	}
	conn, err := w.connect(ctx)
	if err != nil {
		return nil, err
	}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	go w.run(ctx, conn)
	return w, nil
}

func (w *wire) close() {
	w.stop()
	<-w.done
}

// The notification channels. PostgreSQL delivers notifications only within a database.
func (w *wire) hintChannel() string      { return w.schema + " hints" }
func (w *wire) broadcastChannel() string { return w.schema + " signals" }

// run serves conn, and connects again when it breaks, until ctx ends.
func (w *wire) run(ctx context.Context, conn *pgx.Conn) {
	defer close(w.done)
	for {
		w.serve(ctx, conn)
		w.drop(ctx, conn)
		if conn = w.redial(ctx); conn == nil {
			return
		}
	}
}

// redial connects again, with increasing pauses. It returns nil when ctx ends.
func (w *wire) redial(ctx context.Context) *pgx.Conn {
	for pause := 100 * time.Millisecond; ; pause = min(2*pause, maxRedial) {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(pause):
		}
		if conn, err := w.connect(ctx); err == nil {
			return conn
		}
	}
}

// connect opens a listening connection. It takes no longer than dialTimeout, since the
// network may fail at any moment.
func (w *wire) connect(ctx context.Context) (*pgx.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	cc := w.direct
	if cc == nil {
		cc = w.config.pool.ConnConfig
	}
	cc = cc.Copy()
	cc.DefaultQueryExecMode = pgx.QueryExecModeExec
	conn, err := pgx.ConnectConfig(ctx, cc)
	if err != nil {
		return nil, err
	}
	if err := w.listen(ctx, conn); err != nil {
		conn.Close(ctx)
		return nil, err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down, w.parts = false, map[uint32]string{}
	w.tell("") // earlier notifications are lost
	return conn, nil
}

// listen subscribes to the channels. It returns ErrInvalid behind a pooler, which would
// silently drop the subscription.
func (w *wire) listen(ctx context.Context, conn *pgx.Conn) error {
	var pid uint32
	if err := conn.QueryRow(ctx, `SELECT pg_backend_pid()`).Scan(&pid); err != nil {
		return err
	}
	if pid != conn.PgConn().PID() {
		return fmt.Errorf("%w: it goes through a pooler: name the server itself with direct= in the DSN, or say hints=off", journal.ErrInvalid)
	}
	_, err := conn.Exec(ctx, `SET synchronous_commit = off; `+ // a notification need not outlive a crash
		`LISTEN `+pgx.Identifier{w.hintChannel()}.Sanitize()+`; LISTEN `+pgx.Identifier{w.broadcastChannel()}.Sanitize())
	return err
}

// drop closes a connection and fails the waiting broadcasts with errDown.
func (w *wire) drop(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	conn.Close(ctx)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.down = true
	for _, l := range w.outbox {
		l.sent <- errDown
	}
	w.outbox = nil
}

// serve sends and receives notifications until the connection breaks or ctx ends.
func (w *wire) serve(ctx context.Context, conn *pgx.Conn) {
	var told time.Time // when hints were sent
	heard := time.Now()
	for ctx.Err() == nil {
		if err := w.send(ctx, conn, &told); err != nil {
			return
		}
		n, err := w.wait(ctx, conn, told)
		switch {
		case n != nil:
			heard = time.Now()
			if n.PID != conn.PgConn().PID() { // otherwise it is our own
				w.deliver(n)
			}
		case conn.IsClosed():
			return
		case err != nil && time.Since(heard) > pingAfter:
			if err := w.exec(ctx, conn, `SELECT 1`); err != nil {
				return
			}
			heard = time.Now()
		}
	}
}

// wait waits for a notification, at most until there is something to send or a ping is
// due.
func (w *wire) wait(ctx context.Context, conn *pgx.Conn, told time.Time) (*notification, error) {
	w.mu.Lock()
	if len(w.outbox) > 0 {
		w.mu.Unlock()
		return nil, nil
	}
	patience := pingAfter
	if len(w.touched) > 0 {
		patience = max(0, time.Until(told.Add(hintPause)))
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	w.interrupt = cancel
	w.mu.Unlock()
	n, err := conn.WaitForNotification(ctx)
	w.mu.Lock()
	w.interrupt = nil
	w.mu.Unlock()
	return n, err
}

// send sends the waiting broadcasts, and hints if hintPause has passed since the last
// ones.
func (w *wire) send(ctx context.Context, conn *pgx.Conn, told *time.Time) error {
	w.mu.Lock()
	letters := w.outbox
	w.outbox = nil
	var spaces []string
	if time.Since(*told) >= hintPause {
		for name := range w.touched {
			spaces = append(spaces, name)
		}
		clear(w.touched)
	}
	w.mu.Unlock()
	var failed error
	for _, l := range letters {
		if failed == nil {
			failed = w.notify(ctx, conn, w.broadcastChannel(), l.payload)
		}
		l.sent <- failed
	}
	if failed != nil || len(spaces) == 0 {
		return failed
	}
	*told = time.Now()
	payload, err := json.Marshal(spaces)
	if err != nil {
		return err
	}
	if len(payload) > maxPayload {
		payload = []byte(`[""]`) // check all
	}
	return w.notify(ctx, conn, w.hintChannel(), string(payload))
}

func (w *wire) notify(ctx context.Context, conn *pgx.Conn, channel, payload string) error {
	return w.exec(ctx, conn, `SELECT pg_notify($1, $2)`, channel, payload)
}

func (w *wire) exec(ctx context.Context, conn *pgx.Conn, sql string, args ...any) error {
	ctx, cancel := context.WithTimeout(ctx, wireTimeout)
	defer cancel()
	_, err := conn.Exec(ctx, sql, args...)
	return err
}

// committed queues a hint for these spaces.
func (w *wire) committed(spaces []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	idle := len(w.touched) == 0
	w.touched.add(spaces)
	if idle && w.interrupt != nil {
		w.interrupt()
	}
}

// post sends payloads of broadcasts and waits until they are sent. It returns errDown
// if that fails.
func (w *wire) post(ctx context.Context, payloads []string) error {
	for _, payload := range payloads {
		l := letter{payload: payload, sent: make(chan error, 1)}
		w.mu.Lock()
		if w.down {
			w.mu.Unlock()
			return errDown
		}
		w.outbox = append(w.outbox, l)
		if w.interrupt != nil {
			w.interrupt()
		}
		w.mu.Unlock()
		select {
		case err := <-l.sent:
			if err != nil {
				return errors.Join(errDown, err)
			}
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-w.done:
			return journal.ErrClosed
		}
	}
	return nil
}

// deliver passes a notification to watchers or receivers. It ignores malformed ones,
// which come from other programs.
func (w *wire) deliver(n *notification) {
	if n.Channel == w.broadcastChannel() {
		w.assemble(n)
		return
	}
	var spaces []string
	if json.Unmarshal([]byte(n.Payload), &spaces) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tell(spaces...)
}

// assemble adds a part to its message. When the message is complete, it passes the
// broadcasts to the receivers.
func (w *wire) assemble(n *notification) {
	if n.Payload == "" { // not one of ours
		return
	}
	mark, text := n.Payload[:1], n.Payload[1:]
	before, begun := w.parts[n.PID]
	delete(w.parts, n.PID)
	if mark == partWhole || mark == partFirst {
		before = ""
	} else if !begun {
		return // its first part was sent before we listened
	}
	if text = before + text; len(text) > maxMessage {
		return
	}
	if mark == partFirst || mark == partNext {
		w.parts[n.PID] = text
		return
	}
	var broadcasts []journal.Broadcast
	if json.Unmarshal([]byte(text), &broadcasts) != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for r := range w.receivers {
		r.put(broadcasts)
	}
}

// tell passes spaces to the watchers. The caller holds w.mu.
func (w *wire) tell(spaces ...string) {
	for x := range w.watchers {
		x.put(spaces)
	}
}
