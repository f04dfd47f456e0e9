// Command bench measures Thole beside the raw limits of this machine and
// beside what people would write by hand, all in one run.
//
//	go run . [-rounds 5] [-time 2s] [-dir DIR] [case …]
//
// Each case has several sides. A round measures every side once, in turn, so
// that a noisy moment hits all of them; what is printed is the median and the
// minimum over the rounds, and the ratio of the medians to the first side.
// Compare only within one run.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime/pprof"
	"slices"
	"strings"
	"time"
)

// side is one of the things that a case compares.
type side struct {
	name string
	// run measures for about d in the empty folder dir.
	run func(ctx context.Context, dir string, d time.Duration) (sample, error)
}

// sample is what one run of a side measured.
type sample struct {
	rate  float64 // per second; the figure that ratios are made of
	p50   time.Duration
	p99   time.Duration
	cpu   time.Duration // of this process, for one operation; 0: not measured
	extra string
}

// bench is a named comparison.
type bench struct {
	name, unit string
	sides      []side
}

func main() {
	rounds := flag.Int("rounds", 5, "interleaved rounds")
	length := flag.Duration("time", 2*time.Second, "length of one measurement")
	only := flag.String("side", "", "measure only the sides whose name holds this; for profiles")
	dir := flag.String("dir", "", "where to put stores (default: a temporary folder)")
	server := flag.String("serve", "", "be the server of a measurement (for this program's own use)")
	profile := flag.String("cpuprofile", "", "write a CPU profile of the whole run to this file")
	flag.Parse()
	if *server != "" {
		if err := serve(*server, *dir); err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		return
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			err = pprof.StartCPUProfile(f)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, "bench:", err)
			os.Exit(1)
		}
		defer pprof.StopCPUProfile()
	}
	err := run(context.Background(), *rounds, *length, *dir, *only, flag.Args())
	for _, l := range libraries {
		l.remove()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, rounds int, length time.Duration, dir, sides string, cases []string) error {
	for _, b := range benches() {
		if len(cases) > 0 && !slices.ContainsFunc(cases, func(c string) bool { return strings.HasPrefix(b.name, c) }) {
			continue
		}
		b.sides = slices.DeleteFunc(b.sides, func(s side) bool { return !strings.Contains(s.name, sides) })
		samples := make([][]sample, len(b.sides))
		for round := range rounds {
			for i, s := range b.sides {
				fmt.Fprintf(os.Stderr, "\r%-30s round %d/%d %-40s", b.name, round+1, rounds, s.name)
				one, err := measure(ctx, s, dir, length)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", b.name, s.name, err)
				}
				samples[i] = append(samples[i], one)
			}
		}
		fmt.Fprint(os.Stderr, "\r", strings.Repeat(" ", 90), "\r")
		report(b, samples)
	}
	return nil
}

func measure(ctx context.Context, s side, dir string, length time.Duration) (sample, error) {
	tmp, err := os.MkdirTemp(dir, "thole-bench-")
	if err != nil {
		return sample{}, err
	}
	defer os.RemoveAll(tmp)
	return s.run(ctx, tmp, length)
}

func report(b bench, samples [][]sample) {
	fmt.Printf("\n%s\n", b.name)
	fmt.Printf("  %-44s %12s %12s %7s %9s %9s %9s\n", "", "median "+b.unit, "min", "ratio", "p50", "p99", "CPU")
	var first float64
	for i, s := range b.sides {
		slices.SortFunc(samples[i], func(a, b sample) int {
			switch {
			case a.rate < b.rate:
				return -1
			case a.rate > b.rate:
				return 1
			}
			return 0
		})
		mid := samples[i][len(samples[i])/2]
		if i == 0 {
			first = mid.rate
		}
		fmt.Printf("  %-44s %12.0f %12.0f %7.2f %9s %9s %9s %s\n", s.name, mid.rate, samples[i][0].rate, mid.rate/first,
			short(mid.p50), short(mid.p99), short(mid.cpu), mid.extra)
	}
}

func short(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.Round(d / 100).String()
}
