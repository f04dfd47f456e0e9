package model

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"
)

var (
	// ErrIncomplete is a response that ended before it was whole, perhaps in
	// the middle of a tool call.
	ErrIncomplete = errors.New("the model's response is incomplete")
	// ErrStalled is a model that sent nothing for too long. It is ErrIncomplete too.
	ErrStalled = fmt.Errorf("%w: the model stalled", ErrIncomplete)
	// ErrMalformed is a response that is not what the protocol says.
	ErrMalformed = errors.New("the model's response is malformed")
)

// StatusError is a refusal by the model's service.
type StatusError struct {
	Status     int           // HTTP status, or the one that matches an error in the stream
	Type       string        // the service's name for it, such as "overloaded_error"; may be empty
	Message    string        // what the service said
	RetryAfter time.Duration // what the service asks to wait; zero if it did not say
}

func (e *StatusError) Error() string {
	text := strconv.Itoa(e.Status)
	if name := http.StatusText(e.Status); name != "" {
		text += " " + name
	}
	if e.Type != "" {
		text += " (" + e.Type + ")"
	}
	if e.Message != "" {
		text += ": " + e.Message
	}
	if e.Status == http.StatusUnauthorized {
		text += "; check the API key"
	}
	return text
}

// passing reports whether the refusal is about now, not about the request.
func (e *StatusError) passing() bool {
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusConflict ||
		e.Status == http.StatusTooManyRequests || e.Status >= 500 // 529: overloaded
}

// Retryable reports whether a failed Generate may succeed when it is called
// again with the same request. After it has yielded, only the caller can know
// what to do with what came.
func Retryable(err error) bool {
	var status *StatusError
	var cut *lengthError
	var network net.Error
	switch {
	case errors.As(err, &status):
		return status.passing()
	case errors.As(err, &cut):
		return false
	case errors.Is(err, ErrIncomplete), errors.Is(err, ErrMalformed):
		return true
	}
	return errors.As(err, &network) // no connection
}

// lengthError is a tool call that reached the limit of tokens. It unwraps to
// ErrIncomplete, but would do so again.
type lengthError struct{ tool string }

func (e *lengthError) Error() string {
	return fmt.Sprintf("%v: the limit of tokens was reached within a call of %s; allow more, or ask for less at once", ErrIncomplete, e.tool)
}

func (e *lengthError) Unwrap() error { return ErrIncomplete }

// retryAfter reads how long a service asks to wait (RFC 9110, 10.2.3, and the
// finer retry-after-ms); zero if it does not.
func retryAfter(h http.Header, now time.Time) time.Duration {
	if ms, err := strconv.ParseFloat(h.Get("Retry-After-Ms"), 64); err == nil && ms > 0 && ms < 1e9 {
		return time.Duration(ms * float64(time.Millisecond))
	}
	value := h.Get("Retry-After")
	if s, err := strconv.ParseFloat(value, 64); err == nil && s > 0 && s < 1e6 {
		return time.Duration(s * float64(time.Second))
	}
	if at, err := http.ParseTime(value); err == nil {
		return max(0, at.Sub(now))
	}
	return 0
}
