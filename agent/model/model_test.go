package model

import (
	"errors"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/thole-dev/thole"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestOpenSaysWhatIsWrongWithASpec(t *testing.T) {
	for _, v := range []string{"OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL"} {
		t.Setenv(v, "")
	}
	for spec, want := range map[string]string{
		"":                         "openai:MODEL",
		"gpt":                      "openai:MODEL",
		"openai:":                  "names nothing",
		"openai:gpt-5":             "set OPENAI_API_KEY",
		"anthropic:claude":         "set ANTHROPIC_API_KEY",
		"openai:x@http://":         "not an http or https address",
		"script:/no/such/file.yml": "not found",
	} {
		_, err := Open(spec, nil)
		if err == nil || !strings.Contains(err.Error(), want) || !errors.Is(err, thole.ErrInvalid) && !errors.Is(err, thole.ErrNotFound) {
			t.Errorf("Open(%q) = %v, want an error with %q", spec, err, want)
		}
	}
}

func TestOpenTakesKeysAndAddressesFromTheEnvironment(t *testing.T) {
	t.Setenv("OPENAI_API_KEY", "sk-x")
	t.Setenv("OPENAI_BASE_URL", "http://127.0.0.1:1/env")
	for spec, want := range map[string][2]string{
		"openai:qwen3:8b": {"openai:qwen3:8b", "http://127.0.0.1:1/env"},
		"openai:@cf/llama@http://127.0.0.1:11434/v1": {"openai:@cf/llama", "http://127.0.0.1:11434/v1"},
	} {
		m, err := Open(spec, nil)
		if err != nil {
			t.Fatalf("Open(%q): %v", spec, err)
		}
		o := m.(*openAI).o
		if m.Name() != want[0] || o.BaseURL != want[1] || o.APIKey != "sk-x" {
			t.Errorf("Open(%q) = %s at %s with key %q, want %v", spec, m.Name(), o.BaseURL, o.APIKey, want)
		}
	}
}

func TestWaitHonoursRetryAfterWithinItsCap(t *testing.T) {
	o := (&Options{MaxWait: 10 * time.Second}).withDefaults()
	refused := &StatusError{Status: 429, RetryAfter: 3 * time.Second}
	if got := o.wait(0, refused); got != 3*time.Second {
		t.Errorf("wait = %v, want the 3 s asked for", got)
	}
	refused.RetryAfter = time.Hour
	if got := o.wait(0, refused); got != 10*time.Second {
		t.Errorf("wait = %v, want the cap of 10 s", got)
	}
	for n := range 40 {
		if got := o.wait(n, ErrIncomplete); got < 375*time.Millisecond || got > 10*time.Second {
			t.Errorf("wait after attempt %d = %v, want 375 ms to 10 s", n, got)
		}
	}
}

func TestRetryAfterIsReadInAllItsForms(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		key, value string
		want       time.Duration
	}{
		{"Retry-After", "2", 2 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:15 GMT", 10 * time.Second},
		{"Retry-After", "Fri, 02 Jan 2025 03:04:15 GMT", 0},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"Retry-After", "soon", 0},
		{"Retry-After", "-1", 0},
		{"Retry-After", "NaN", 0},
		{"X", "1", 0},
	} {
		h := map[string][]string{tt.key: {tt.value}}
		if got := retryAfter(h, now); got != tt.want {
			t.Errorf("retryAfter(%v) = %v, want %v", h, got, tt.want)
		}
	}
}
