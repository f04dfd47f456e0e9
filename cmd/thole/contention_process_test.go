package main_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
	"github.com/thole-dev/thole/state/document"
)

// load is the work of each of several processes that use the library on one SQLite
// file: goroutines that increment one document so many times each.
type load struct {
	path                              string
	processes, goroutines, increments int
}

func (l load) total() int { return l.processes * l.goroutines * l.increments }

func TestIncrementsOfTwoProcessesAllCount(t *testing.T) {
	load{filepath.Join(t.TempDir(), "thole.db"), 2, effort.Amount(8, 32, 32), effort.Amount(10, 50, 200)}.together(t)
}

// loadVariable contains a load; it makes this test binary one of these processes.
const loadVariable = "THOLE_TEST_LOAD"

// together runs the processes at the same time. Each prints what its watcher sees,
// which must be all changes, in the same order.
func (l load) together(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	saw := make([]string, l.processes)
	var ready, done sync.WaitGroup
	begin := make(chan struct{})
	for i := range saw {
		ready.Add(1)
		done.Go(func() {
			var err error
			if saw[i], err = l.process(ctx, ready.Done, begin); err != nil {
				cancel() // the others wait for its changes
				t.Errorf("process %d: %v\n%s", i+1, err, saw[i])
			}
		})
	}
	ready.Wait()
	start := time.Now()
	close(begin)
	done.Wait()
	for i, text := range saw {
		if n := strings.Count(text, "document.changed"); n != l.total() || text != saw[0] {
			t.Errorf("process %d saw %d changes, want the %d that the first saw, in their order", i+1, n, l.total())
		}
		if want := fmt.Sprintf("counter %d\n", l.total()); !strings.HasSuffix(text, want) {
			t.Errorf("process %d ended with %q, want %q", i+1, text[max(0, len(text)-100):], want)
		}
	}
	servertest.MustBeHealthy(t, "sqlite:"+l.path)
	t.Logf("%d processes × %d goroutines × %d increments: counter %d, each saw all changes in the same order, in %v",
		l.processes, l.goroutines, l.increments, l.total(), time.Since(start).Round(time.Millisecond))
}

// process runs one process and returns its output after it was ready.
func (l load) process(ctx context.Context, ready func(), begin <-chan struct{}) (string, error) {
	ready = sync.OnceFunc(ready)
	defer ready()
	exe, err := os.Executable()
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, exe)
	cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %s", loadVariable, l.processes, l.goroutines, l.increments, l.path))
	cmd.Stderr = os.Stderr
	in, inErr := cmd.StdinPipe()
	out, outErr := cmd.StdoutPipe()
	if err := errors.Join(inErr, outErr); err != nil {
		return "", err
	}
	if err := cmd.Start(); err != nil {
		return "", err
	}
	r := bufio.NewReader(out)
	if _, err := r.ReadString('\n'); err == nil {
		ready()
		<-begin
		in.Close() // it begins
	}
	text, err := io.ReadAll(r)
	return string(text), errors.Join(err, cmd.Wait())
}

// runLoad is the program of such a process.
func runLoad(description string) error {
	var l load
	if _, err := fmt.Sscanf(description, "%d %d %d %s", &l.processes, &l.goroutines, &l.increments, &l.path); err != nil {
		return err
	}
	ctx := context.Background()
	b, err := sqlitestore.Open(ctx, l.path, nil)
	if err != nil {
		return err
	}
	store, err := thole.Open(ctx, b, &thole.Options{Concepts: rest.Concepts()})
	if err != nil {
		return err
	}
	sp := store.Space("project:shared")
	w, err := sp.Watch(ctx, &thole.WatchOptions{Oldest: true, Durable: true})
	if err != nil {
		return errors.Join(err, store.Close())
	}
	fmt.Println("ready")
	if _, err = io.ReadAll(os.Stdin); err == nil {
		err = errors.Join(l.write(ctx, sp), l.watch(ctx, w))
	}
	w.Close()
	if err == nil {
		err = printCounter(ctx, sp)
	}
	return errors.Join(err, store.Close())
}

func (l load) write(ctx context.Context, sp *thole.Space) error {
	var wg sync.WaitGroup
	errs := make([]error, l.goroutines)
	for i := range errs {
		wg.Go(func() {
			for n := 0; n < l.increments && errs[i] == nil; n++ {
				_, errs[i] = document.In(sp).Apply(ctx, "counter", []document.Op{{Op: "increment", Path: "/n"}}, nil)
			}
		})
	}
	wg.Wait()
	return errors.Join(errs...)
}

// watch prints all changes that the processes make.
func (l load) watch(ctx context.Context, w *thole.Watch) error {
	for n := 0; n < l.total(); {
		batch, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, d := range batch {
			fmt.Println(d.Position, d.Type)
		}
		n += len(batch)
	}
	return nil
}

func printCounter(ctx context.Context, sp *thole.Space) error {
	doc, err := document.In(sp).Get(ctx, "counter", nil)
	var value struct{ N int }
	if err == nil {
		err = doc.As(&value)
	}
	fmt.Printf("counter %d\n", value.N)
	return err
}
