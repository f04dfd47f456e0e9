package sandbox

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// BenchmarkCancel measures the time from cancel until Exec has returned, which is after
// the last process of an escaping command is gone. Run it with -benchtime 100x.
func BenchmarkCancel(b *testing.B) {
	for name, o := range map[string]*Options{"supervised": {Supervisor: supervisor}, "plain": nil} {
		b.Run(name, func(b *testing.B) {
			s := open(b, o)
			var took []time.Duration
			for b.Loop() {
				took = append(took, cancelOnce(b, s))
			}
			slices.Sort(took)
			ms := func(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
			b.ReportMetric(ms(took[len(took)/2]), "p50-ms")
			b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
			b.ReportMetric(ms(took[len(took)-1]), "max-ms")
			b.ReportMetric(0, "ns/op") // the time of the whole loop means nothing
		})
	}
}

func cancelOnce(b *testing.B, s *Sandbox) time.Duration {
	command, mark, n := escapist()
	ctx, cancel := context.WithCancel(b.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Exec(ctx, command, nil)
		done <- err
	}()
	await(b, mark, n)
	begin := time.Now()
	cancel()
	err := <-done
	took := time.Since(begin)
	if left := processes(mark); len(left) > 0 || !errors.Is(err, context.Canceled) {
		b.Fatalf("left %v, error %v; want none and the cancel", left, err)
	}
	return took
}
