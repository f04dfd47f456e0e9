package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/thole-dev/thole"
)

// idleWatchers is what n watchers of as many spaces cost while nothing happens:
// transactions a second at the database, the share of the machine's processors
// that anything uses, and memory. It measures for at least ten seconds.
func idleWatchers(n int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, _ string, d time.Duration) (sample, error) {
		dsn, drop, err := database(ctx)
		if err != nil {
			return sample{}, err
		}
		defer drop()
		s, err := openWith(ctx, dsn, nil)
		if err != nil {
			return sample{}, err
		}
		defer s.Close()
		if err := makeSpaces(ctx, s, n); err != nil {
			return sample{}, err
		}
		before := inUse()
		stop, err := watchAll(ctx, s, n)
		if err != nil {
			return sample{}, err
		}
		defer stop()
		each := (inUse() - before) / uint64(n)

		db, err := pgx.Connect(ctx, dsn)
		if err != nil {
			return sample{}, err
		}
		defer db.Close(ctx)
		time.Sleep(statsDelay)
		d = max(d, 10*time.Second)
		txs, busy, total, err := usage(ctx, db)
		if err != nil {
			return sample{}, err
		}
		time.Sleep(d)
		txs2, busy2, total2, err := usage(ctx, db)
		if err != nil {
			return sample{}, err
		}
		return sample{
			rate:  float64(txs2-txs) / d.Seconds(),
			extra: fmt.Sprintf("%.1f %% CPU, %.1f kB a watcher", 100*float64(busy2-busy)/float64(total2-total), float64(each)/1000),
		}, nil
	}
}

// statsDelay is how late PostgreSQL counts the transactions of a connection that
// went idle, such as those that made the spaces, and more.
const statsDelay = 15 * time.Second

func idleSpace(i int) string { return "project:idle-" + strconv.Itoa(i) }

func makeSpaces(ctx context.Context, s *thole.Store, n int) error {
	_, err := load(ctx, 64, 0, func(w, _ int) error {
		for i := w; i < n; i += 64 {
			if _, err := s.Space(idleSpace(i)).Commit(ctx, thole.Commit{Writes: []thole.Write{{Key: "app/a", Value: []byte("1")}}}); err != nil {
				return err
			}
		}
		return nil
	})
	return err
}

// watchAll watches n spaces, each in a goroutine of its own, until stop.
func watchAll(ctx context.Context, s *thole.Store, n int) (stop func(), err error) {
	ctx, cancel := context.WithCancel(ctx)
	var wg sync.WaitGroup
	stop = func() { cancel(); wg.Wait() }
	for i := range n {
		w, err := s.Space(idleSpace(i)).Watch(ctx, nil)
		if err != nil {
			stop()
			return nil, err
		}
		wg.Go(func() {
			defer w.Close()
			if _, err := w.Next(ctx); !errors.Is(err, context.Canceled) {
				fmt.Fprintln(os.Stderr, "bench: an idle watcher was woken:", err)
			}
		})
	}
	return stop, nil
}

// inUse returns the bytes of memory in use.
func inUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// usage returns how many transactions the database has ended, and how long all
// processors were busy and existed, in ticks (Linux, /proc/stat).
func usage(ctx context.Context, db *pgx.Conn) (txs, busy, total int64, err error) {
	err = db.QueryRow(ctx, `SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()`).Scan(&txs)
	if err != nil {
		return 0, 0, 0, err
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0, 0, err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	for i, f := range strings.Fields(line)[1:] {
		ticks, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			return 0, 0, 0, err
		}
		total += ticks
		if i != 3 && i != 4 { // idle, waiting for the disk
			busy += ticks
		}
	}
	return txs, busy, total, nil
}
