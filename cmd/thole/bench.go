package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/thread"
)

func benchCommand(a *app) *cobra.Command {
	c := &cobra.Command{
		Use:   "bench",
		Short: "Measure durable appends on the store that --store names",
		Long: `Append messages of 512 bytes to threads of a new space, each acknowledged before
the next, and remove the space afterwards. It shows what this disk and this store
give; for comparisons with limits and peers see bench/ in the source.`,
		Example: "  thole bench --store sqlite:/tmp/bench.db --writers 1,64 --time 5s",
		Args:    cobra.NoArgs,
	}
	writers := c.Flags().IntSlice("writers", []int{1, 16, 64}, "how many writers at once")
	length := c.Flags().Duration("time", 2*time.Second, "how long each measurement takes")
	c.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		ctx := cmd.Context()
		s, err := a.open(ctx, true, nil)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, s.Close()) }()
		sp := s.Space("bench:" + thole.NewID("bench"))
		defer func() {
			if purge := sp.Purge(context.WithoutCancel(ctx), thole.Purge{All: true}); !errors.Is(purge, thole.ErrNotFound) {
				err = errors.Join(err, purge)
			}
		}()
		p := a.printer(cmd.OutOrStdout())
		for _, n := range *writers {
			m, err := measureAppends(ctx, sp, n, *length)
			if err != nil {
				return err
			}
			if err := p.print(m, "%3d writers  %8.0f appends/s  p50 %6.2f ms  p99 %6.2f ms", m.Writers, m.Rate, m.P50, m.P99); err != nil {
				return err
			}
		}
		return nil
	}
	return c
}

// appends is one measurement.
type appends struct {
	Writers int     `json:"writers"`
	Rate    float64 `json:"appends_per_second"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
}

func measureAppends(ctx context.Context, sp *thole.Space, writers int, length time.Duration) (appends, error) {
	if writers < 1 || length <= 0 {
		return appends{}, fmt.Errorf("%w: %d writers for %v", thole.ErrInvalid, writers, length)
	}
	threads := thread.In(sp)
	ids := make([]string, 16*writers)
	for i := range ids {
		t, err := threads.Create(ctx, nil)
		if err != nil {
			return appends{}, err
		}
		ids[i] = t.ID
	}
	m := thread.Message{Role: thread.User, Blocks: []thread.Block{thread.TextBlock(strings.Repeat("x", 512))}}
	took := make([][]time.Duration, writers)
	errs := make([]error, writers)
	var wg sync.WaitGroup
	began := time.Now()
	for w := range writers {
		wg.Go(func() {
			for i := 0; time.Since(began) < length && errs[w] == nil; i++ {
				start := time.Now()
				_, errs[w] = threads.Append(ctx, ids[(w*16+i%16)], m, nil)
				took[w] = append(took[w], time.Since(start))
			}
		})
	}
	wg.Wait()
	all := slices.Concat(took...)
	slices.Sort(all)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	return appends{
		Writers: writers, Rate: float64(len(all)) / time.Since(began).Seconds(),
		P50: ms(all[len(all)/2]), P99: ms(all[len(all)*99/100]),
	}, errors.Join(errs...)
}
