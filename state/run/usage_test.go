package run_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/state/run"
)

func TestAWrongUsageEndsNoRunAndIsNotKept(t *testing.T) {
	each(t, func(b *bench) {
		ctx := b.t.Context()
		b.start("go", run.Request{})
		h := b.claim()
		many := map[string]run.Usage{}
		for i := range 65 {
			many[fmt.Sprint(i)] = run.Usage{InputTokens: 1}
		}
		for _, bad := range []run.Usage{{InputTokens: -1}, {OutputTokens: -1}, {TotalTokens: -1}} {
			if err := h.AddUsage(ctx, "m", bad); !errors.Is(err, thole.ErrInvalid) {
				b.t.Errorf("%+v: got %v, want ErrInvalid", bad, err)
			}
			if _, err := h.FinishWith(ctx, run.Succeeded, "", map[string]run.Usage{"m": bad}); !errors.Is(err, thole.ErrInvalid) {
				b.t.Errorf("%+v: got %v, want ErrInvalid", bad, err)
			}
		}
		if _, err := h.FinishWith(ctx, run.Succeeded, "", many); !errors.Is(err, thole.ErrTooLarge) {
			b.t.Errorf("65 models: got %v, want ErrTooLarge", err)
		}
		if r := b.status(h.ID(), run.Running); len(r.Usage) != 0 {
			b.t.Errorf("kept %v", r.Usage)
		}
		large := run.Usage{InputTokens: math.MaxInt64, OutputTokens: 1}
		r, err := h.FinishWith(ctx, run.Succeeded, "", map[string]run.Usage{"a": large, "b": large})
		if err != nil || r.Total().TotalTokens != math.MaxInt64 || r.Total().InputTokens != math.MaxInt64 {
			b.t.Errorf("got %+v, %v; want the largest sum", r, err)
		}
	})
}

func TestTheLargestRunHasRoomForItsUsageAndItsError(t *testing.T) {
	effort.SlowUnderRace(t)
	each(t, func(b *bench) {
		ctx := b.t.Context()
		options := func(n int) run.Request {
			return run.Request{Prompt: "go", Options: json.RawMessage(`"` + strings.Repeat("x", n) + `"`)}
		}
		least, most := 1, thole.MaxValueBytes
		for most-least > 1 { // each claimed run ends, so that the next is the only one
			n := (least + most) / 2
			if _, err := b.rs.Start(ctx, b.id, options(n)); err != nil {
				most = n
				continue
			}
			least = n
			usage := map[string]run.Usage{}
			for i := range 64 {
				name := fmt.Sprint(i)
				usage[name+strings.Repeat(`"`, thole.MaxNameBytes-len(name))] = run.Usage{InputTokens: math.MaxInt64 / 64, OutputTokens: math.MaxInt64 / 64, TotalTokens: math.MaxInt64 / 64}
			}
			if _, err := b.claim().FinishWith(ctx, run.Failed, strings.Repeat("\x01", 9000), usage); err != nil {
				b.t.Fatalf("options of %d bytes: %v", n, err)
			}
		}
		if least < 400<<10 {
			b.t.Errorf("the largest run has options of %d bytes", least)
		}
	})
}
