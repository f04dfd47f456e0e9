package main

import (
	"context"
	"slices"
	"sync"
	"syscall"
	"time"
)

// load runs op from n goroutines for about d, each waiting for its own
// acknowledgement before the next, and reports the rate and the latencies. The
// first op of each goroutine is not counted.
func load(ctx context.Context, n int, d time.Duration, op func(worker, i int) error) (sample, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	latencies := make([][]time.Duration, n)
	var wg sync.WaitGroup
	var ready sync.WaitGroup
	ready.Add(n)
	start := make(chan struct{})
	for w := range n {
		wg.Go(func() {
			if err := op(w, 0); err != nil {
				stop(err)
			}
			ready.Done()
			<-start
			end := time.Now().Add(d)
			for i := 1; ctx.Err() == nil; i++ {
				began := time.Now()
				if began.After(end) {
					return
				}
				if err := op(w, i); err != nil {
					stop(err)
					return
				}
				latencies[w] = append(latencies[w], time.Since(began))
			}
		})
	}
	ready.Wait()
	began, used := time.Now(), cpuTime()
	close(start)
	wg.Wait()
	took := time.Since(began)
	used = cpuTime() - used
	if err := context.Cause(ctx); err != nil {
		return sample{}, err
	}
	all := slices.Concat(latencies...)
	slices.Sort(all)
	if len(all) == 0 {
		return sample{}, nil
	}
	return sample{
		rate: float64(len(all)) / took.Seconds(),
		p50:  all[len(all)/2],
		p99:  all[len(all)*99/100],
		cpu:  used / time.Duration(len(all)),
	}, nil
}

// cpuTime is what this process has used so far, in user and system mode.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
