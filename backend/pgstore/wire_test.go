package pgstore_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/internal/pgtest"
	"github.com/thole-dev/thole/journal"
)

// deaf is a proxy before a server. It can cut its connections and leave the next LISTEN
// unanswered.
type deaf struct {
	listener net.Listener
	target   string

	mu      sync.Mutex
	silent  bool          // leave the next LISTEN unanswered
	stuck   chan struct{} // closed when a LISTEN was left unanswered
	clients map[net.Conn]bool
}

// before returns a proxy to the server of dsn, and the DSN through it.
func before(t *testing.T, dsn string) (*deaf, string) {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	d := &deaf{listener: l, target: u.Host, stuck: make(chan struct{}), clients: map[net.Conn]bool{}}
	var all sync.WaitGroup
	all.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() { d.pass(c) })
		}
	})
	t.Cleanup(func() { l.Close(); d.cut(false); all.Wait() })
	u.Host = l.Addr().String()
	return d, u.String()
}

// cut ends all connections.
func (d *deaf) cut(silent bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.silent = silent
	for c := range d.clients {
		c.Close()
	}
}

// swallow reports whether to drop what a client sends, and everything after it.
func (d *deaf) swallow(said []byte) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.silent || !bytes.Contains(said, []byte("LISTEN")) {
		return false
	}
	d.silent = false
	close(d.stuck)
	return true
}

func (d *deaf) pass(client net.Conn) {
	d.mu.Lock()
	d.clients[client] = true
	d.mu.Unlock()
	defer client.Close()
	server, err := net.Dial("tcp", d.target)
	if err != nil {
		return
	}
	var answers sync.WaitGroup
	answers.Go(func() { io.Copy(client, server); client.Close() })
	defer answers.Wait()
	defer server.Close()
	for buf := make([]byte, 64<<10); ; {
		n, err := client.Read(buf)
		if err != nil {
			return
		}
		if d.swallow(buf[:n]) {
			io.Copy(io.Discard, client)
			return
		}
		if _, err := server.Write(buf[:n]); err != nil {
			return
		}
	}
}

// hears waits until s gets a hint of another store's commit.
func hears(t *testing.T, s *pgstore.Store, other *pgstore.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	woken, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- s.Capabilities().Hints(ctx, func(space string) {
			if space == "user:2" {
				select {
				case woken <- space:
				default:
				}
			}
		})
	}()
	eventually(t, "a hint", func() error {
		commit(t, other, "user:2", "s", `1`)
		select {
		case <-woken:
			return nil
		default:
			return errors.New("none has come")
		}
	})
	stop()
	if err := <-done; err != nil {
		t.Errorf("watch: got %v, want nil", err)
	}
}

func TestAServerThatGoesSilentWhileAConnectionForHintsIsMadeEndsOnlyThat(t *testing.T) {
	t.Parallel() // it mostly waits
	dsn := pgtest.Start(t).Database(t)
	proxy, through := before(t, dsn)
	s, other := open(t, with(t, dsn, "direct", through)), open(t, dsn)
	hears(t, s, other)
	proxy.cut(true)
	<-proxy.stuck
	hears(t, s, other)
}

func TestWhatOthersSendOnItsChannelsDoesNoHarm(t *testing.T) {
	dsn := pgtest.Start(t).Database(t)
	s, other := open(t, dsn), open(t, dsn)
	for _, payload := range []string{``, `?`, `>`, `-`, `=`, `={}`, `<[`} {
		for _, channel := range []string{"thole hints", "thole signals"} {
			execSQL(t, dsn, `NOTIFY "`+channel+`", '`+payload+`'`)
		}
	}
	hears(t, s, other)
}

func TestADirectConnectionThroughAPoolerIsRefused(t *testing.T) {
	server := pgtest.Start(t)
	dsn := server.Database(t)
	pooled := server.Pooled(t, dsn)
	s, err := pgstore.Open(t.Context(), with(t, pooled, "direct", pooled))
	if err == nil {
		s.Close()
	}
	if !errors.Is(err, journal.ErrInvalid) || !strings.Contains(err.Error(), "direct") {
		t.Errorf("got %v, want ErrInvalid that names direct", err)
	}
}
