package model

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// vendor is a protocol: how to open its model, and what its server sends.
type vendor struct {
	spec      string
	greeting  []string // frames of a whole answer: "Hello" in two pieces, two tool calls
	cutAt     int      // frames until the middle of a tool call's JSON
	badInput  []string // a whole stream with invalid JSON as input
	atLimit   []string // the same, because the limit of tokens was reached
	midError  string   // an overload after the stream has begun
	wantParts []string // of the body of the request
}

var wantBlocks = []Block{
	{Type: Text, Text: "Hello"},
	{Type: ToolCall, ID: "c1", Name: "Read", Input: json.RawMessage(`{"path":"a.ts"}`)},
	{Type: ToolCall, ID: "c2", Name: "List", Input: json.RawMessage(`{}`)},
}

func chunk(delta, finish string) string {
	return fmt.Sprintf("data: {\"id\":\"x\",\"object\":\"chat.completion.chunk\",\"choices\":[{\"index\":0,\"delta\":%s,\"finish_reason\":%s}]}\n\n", delta, finish)
}

func event(data string) string {
	var e struct{ Type string }
	json.Unmarshal([]byte(data), &e)
	return "event: " + e.Type + "\ndata: " + data + "\n\n"
}

func callStart(index int, id, name string) string {
	return event(fmt.Sprintf(`{"type":"content_block_start","index":%d,"content_block":{"type":"tool_use","id":%q,"name":%q,"input":{}}}`, index, id, name))
}

func callInput(index int, part string) string {
	return event(fmt.Sprintf(`{"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":%q}}`, index, part))
}

const messageStart = `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"x","content":[],"usage":{"input_tokens":5,"cache_read_input_tokens":30,"cache_creation_input_tokens":5,"output_tokens":1}}}`

func messageEnd(reason string) string {
	return event(`{"type":"message_delta","delta":{"stop_reason":"`+reason+`"},"usage":{"output_tokens":7,"output_tokens_details":{"thinking_tokens":2}}}`) + event(`{"type":"message_stop"}`)
}

var vendors = map[string]vendor{
	"openai": {
		spec: "openai:test-1",
		greeting: []string{
			chunk(`{"role":"assistant","content":"Hel"}`, "null"), chunk(`{"content":"lo"}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":"c1","type":"function","function":{"name":"Read","arguments":"{\"pa"}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"function":{"arguments":"th\":\"a.ts\"}"}}]}`, "null"),
			chunk(`{"tool_calls":[{"index":0,"id":"c2","type":"function","function":{"name":"List","arguments":""}}]}`, "null"),
			chunk(`{}`, `"tool_calls"`),
			"data: {\"choices\":[],\"usage\":{\"prompt_tokens\":40,\"completion_tokens\":7,\"total_tokens\":47,\"prompt_tokens_details\":{\"cached_tokens\":30,\"cache_write_tokens\":5},\"completion_tokens_details\":{\"reasoning_tokens\":2}}}\n\ndata: [DONE]\n\n",
		},
		cutAt:    3,
		badInput: []string{chunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"Read","arguments":"{\"pa"}}]}`, "null"), chunk(`{}`, `"tool_calls"`), "data: [DONE]\n\n"},
		atLimit:  []string{chunk(`{"tool_calls":[{"index":0,"id":"c1","function":{"name":"Read","arguments":"{\"pa"}}]}`, "null"), chunk(`{}`, `"length"`), "data: [DONE]\n\n"},
		midError: "data: {\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
		wantParts: []string{
			`"model":"test-1"`, `"role":"system"`, `"Make it blue"`, `"tool_call_id":"c0"`, `"arguments":"{\"path\":\"b\"}"`,
			`"include_usage":true`, `"parameters":{"properties":{"path":{"type":"string"}},"type":"object"}`, `"max_tokens":99`, `"url":"data:image/png;base64,AQI="`,
		},
	},
	"anthropic": {
		spec: "anthropic:test-1",
		greeting: []string{
			event(messageStart), event(`{"type":"ping"}`),
			event(`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`),
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hel"}}`),
			event(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`),
			callStart(1, "c1", "Read"), callInput(1, `{"pa`), callInput(1, `th":"a.ts"}`), callStart(2, "c2", "List"),
			messageEnd("tool_use"),
		},
		cutAt:    7,
		badInput: []string{event(messageStart), callStart(0, "c1", "Read"), callInput(0, `{"pa`), messageEnd("tool_use")},
		atLimit:  []string{event(messageStart), callStart(0, "c1", "Read"), callInput(0, `{"pa`), messageEnd("max_tokens")},
		midError: event(`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
		wantParts: []string{
			`"model":"test-1"`, `"system":[{"text":"Be brief"`, `"Make it blue"`, `"tool_use_id":"c0"`, `"input":{"path":"b"}`,
			`"input_schema":{"type":"object","properties":{"path":{"type":"string"}}}`, `"max_tokens":99`, `"data":"AQI="`,
		},
	},
}

// eachVendor runs f with a server that answers its n-th request (from 1) with
// answers[n-1], or the last of them. Both are in a synctest bubble and talk over pipes,
// so a stall means exactly that nothing more is sent.
func eachVendor(t *testing.T, answers func(v vendor) []http.HandlerFunc, f func(t *testing.T, m Model, requests *atomic.Int32)) {
	for name, v := range vendors {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var requests atomic.Int32
				list := answers(v)
				dial := serve(t, func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body) // completely, or the server does not notice that the client disconnects
					r.Body = io.NopCloser(bytes.NewReader(body))
					n := int(requests.Add(1))
					list[min(n, len(list))-1](w, r)
				})
				m, err := Open(v.spec, &Options{
					APIKey: "key", BaseURL: "http://model.test", Backoff: time.Millisecond, MaxWait: 20 * time.Millisecond,
					Transport: &http.Transport{DisableKeepAlives: true, DialContext: dial},
				})
				if err != nil {
					t.Fatal(err)
				}
				f(t, m, &requests)
			})
		})
	}
}

// pipes is a listener on pipes within this process.
type pipes struct {
	conns  chan net.Conn
	closed context.Context
	close  context.CancelFunc
}

// serve starts a server on pipes and returns how to dial it.
func serve(t *testing.T, handler http.HandlerFunc) func(context.Context, string, string) (net.Conn, error) {
	l := pipes{conns: make(chan net.Conn)}
	l.closed, l.close = context.WithCancel(context.Background())
	server := &http.Server{Handler: handler}
	go server.Serve(l)
	t.Cleanup(func() { server.Close() })
	return l.dial
}

func (l pipes) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l pipes) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed.Done():
		return nil, net.ErrClosed
	}
}

func (l pipes) Close() error   { l.close(); return nil }
func (l pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// options returns the options of an open model, to change them.
func options(m Model) *Options {
	if m, ok := m.(*openAI); ok {
		return &m.o
	}
	return &m.(*anthropicModel).o
}

// send responds with the frames of a stream.
func send(frames ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, f := range frames {
			io.WriteString(w, f)
			w.(http.Flusher).Flush()
		}
	}
}

// then responds with the frames of a stream and calls f.
func then(frames []string, f func(r *http.Request)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		send(frames...)(w, r)
		f(r)
	}
}

func refuse(status int, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

func hang(r *http.Request)  { <-r.Context().Done() }
func abort(r *http.Request) { panic(http.ErrAbortHandler) } // closes the connection

var ask = Request{Messages: []Message{{Role: User, Blocks: []Block{{Type: Text, Text: "Hi"}}}}}

func TestAStreamedAnswerArrivesWhole(t *testing.T) {
	body := make(chan string, 1)
	eachVendor(t, func(v vendor) []http.HandlerFunc {
		return []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			body <- r.Header.Get("Authorization") + r.Header.Get("X-Api-Key") + string(b)
			send(v.greeting...)(w, r)
		}}
	}, func(t *testing.T, m Model, requests *atomic.Int32) {
		req := Request{
			System: "Be brief", MaxTokens: 99,
			Messages: []Message{
				{User, []Block{{Type: Text, Text: "Make it blue"}, {Type: Image, MediaType: "image/png", Data: []byte{1, 2}}}},
				{Assistant, []Block{{Type: ToolCall, ID: "c0", Name: "Read", Input: json.RawMessage(`{"path":"b"}`)}}},
				{User, []Block{{Type: ToolResult, ID: "c0", Name: "Read", Text: "content"}}},
			},
			Tools: []Tool{{"Read", "reads", json.RawMessage(`{"type":"object","properties":{"path":{"type":"string"}}}`)}},
		}
		var text string
		inputs := map[int]string{}
		got, err := m.Generate(t.Context(), req, func(d Delta) error {
			text += d.Text
			if d.ToolCall != nil {
				inputs[d.ToolCall.Index] += d.ToolCall.Input
			}
			return nil
		})
		if err != nil || !reflect.DeepEqual(got.Blocks, wantBlocks) || got.Stop != StopTools {
			t.Fatalf("Generate = %+v, %v; want %+v", got, err, wantBlocks)
		}
		if text != "Hello" || inputs[0] != `{"path":"a.ts"}` || len(inputs) != 2 {
			t.Errorf("deltas = %q, %v", text, inputs)
		}
		if want := (Usage{InputTokens: 40, OutputTokens: 7, CacheReadTokens: 30, CacheWriteTokens: 5, ReasoningTokens: 2, TotalTokens: 47}); got.Usage != want {
			t.Errorf("Usage = %+v, want %+v", got.Usage, want)
		}
		sent := <-body
		for _, want := range append(vendors[strings.Split(m.Name(), ":")[0]].wantParts, "key") {
			if !strings.Contains(sent, want) {
				t.Errorf("the request lacks %s: %s", want, sent)
			}
		}
	})
}

func TestPassingRefusalsAreTriedAgain(t *testing.T) {
	eachVendor(t, func(v vendor) []http.HandlerFunc {
		return []http.HandlerFunc{
			refuse(429, `{"error":{"type":"rate_limit_error","message":"slow down"}}`, "Retry-After", "3600"),
			refuse(500, "<html>oops</html>"),
			refuse(529, `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`),
			send(v.greeting...),
		}
	}, func(t *testing.T, m Model, requests *atomic.Int32) {
		got, err := m.Generate(t.Context(), ask, nil)
		if err != nil || !reflect.DeepEqual(got.Blocks, wantBlocks) || requests.Load() != 4 {
			t.Errorf("Generate = %+v, %v after %d requests; want the answer after 4", got, err, requests.Load())
		}
	})
}

func TestAttemptsAreBounded(t *testing.T) {
	eachVendor(t, func(v vendor) []http.HandlerFunc {
		return []http.HandlerFunc{refuse(529, `{"error":{"type":"overloaded_error","message":"Overloaded"}}`)}
	}, func(t *testing.T, m Model, requests *atomic.Int32) {
		_, err := m.Generate(t.Context(), ask, nil)
		var status *StatusError
		if !errors.As(err, &status) || status.Status != 529 || status.Type != "overloaded_error" || !Retryable(err) || requests.Load() != 4 {
			t.Errorf("Generate = %v after %d requests; want 529 after 4", err, requests.Load())
		}
	})
}

func TestLastingRefusalsAreNotTriedAgain(t *testing.T) {
	eachVendor(t, func(v vendor) []http.HandlerFunc {
		return []http.HandlerFunc{refuse(401, `{"error":{"type":"authentication_error","message":"bad key"}}`)}
	}, func(t *testing.T, m Model, requests *atomic.Int32) {
		_, err := m.Generate(t.Context(), ask, nil)
		var status *StatusError
		if !errors.As(err, &status) || !strings.Contains(err.Error(), "bad key; check the API key") || Retryable(err) || requests.Load() != 1 {
			t.Errorf("Generate = %v after %d requests; want 401 after one", err, requests.Load())
		}
	})
}

// Each broken response is retried as long as nothing was yielded, and never after that,
// whichever way the caller waits.
func TestABrokenAnswerIsATypedErrorAndNeverHalfACall(t *testing.T) {
	faults := map[string]struct {
		answer  func(v vendor) http.HandlerFunc
		want    error
		yields  bool
		retries bool // Retryable
	}{
		"empty":                  {func(v vendor) http.HandlerFunc { return send() }, ErrIncomplete, false, true},
		"stalls at once":         {func(v vendor) http.HandlerFunc { return then(nil, hang) }, ErrStalled, false, true},
		"stalls within a call":   {func(v vendor) http.HandlerFunc { return then(v.greeting[:v.cutAt], hang) }, ErrStalled, true, true},
		"ends within a call":     {func(v vendor) http.HandlerFunc { return send(v.greeting[:v.cutAt]...) }, ErrIncomplete, true, true},
		"cut within a call":      {func(v vendor) http.HandlerFunc { return then(v.greeting[:v.cutAt], abort) }, ErrIncomplete, true, true},
		"not JSON":               {func(v vendor) http.HandlerFunc { return send("event: message_start\ndata: {\"oops\n\n") }, ErrMalformed, false, true},
		"not a stream":           {func(v vendor) http.HandlerFunc { return send(`{"choices":[]}`) }, ErrIncomplete, false, true},
		"a call's input no JSON": {func(v vendor) http.HandlerFunc { return send(v.badInput...) }, ErrMalformed, true, true},
		"a call over the limit":  {func(v vendor) http.HandlerFunc { return send(v.atLimit...) }, ErrIncomplete, true, false},
		"overload in mid-stream": {func(v vendor) http.HandlerFunc { return send(append(v.greeting[:v.cutAt:v.cutAt], v.midError)...) }, nil, true, true},
		"overload before a word": {func(v vendor) http.HandlerFunc { return send(v.midError) }, nil, false, true},
	}
	for name, fault := range faults {
		t.Run(name, func(t *testing.T) {
			eachVendor(t, func(v vendor) []http.HandlerFunc {
				return []http.HandlerFunc{fault.answer(v), send(v.greeting...)}
			}, func(t *testing.T, m Model, requests *atomic.Int32) {
				got, err := m.Generate(t.Context(), ask, func(Delta) error { return nil })
				if !fault.yields {
					if err != nil || !reflect.DeepEqual(got.Blocks, wantBlocks) || requests.Load() != 2 {
						t.Errorf("Generate = %+v, %v after %d requests; want the answer after 2", got, err, requests.Load())
					}
					return
				}
				var status *StatusError
				if requests.Load() != 1 || Retryable(err) != fault.retries || (fault.want == nil) != errors.As(err, &status) || fault.want != nil && !errors.Is(err, fault.want) {
					t.Errorf("Generate = %v after %d requests; want %v after one", err, requests.Load(), fault.want)
				}
				for _, b := range got.Blocks {
					if b.Type == ToolCall {
						t.Errorf("the broken answer has the call %+v", b)
					}
				}
			})
			eachVendor(t, func(v vendor) []http.HandlerFunc { return []http.HandlerFunc{fault.answer(v)} },
				func(t *testing.T, m Model, requests *atomic.Int32) {
					_, err := m.Generate(t.Context(), ask, nil) // without a function to yield to, every failure may be retried
					want := int32(4)
					if !fault.retries {
						want = 1
					}
					if err == nil || requests.Load() != want {
						t.Errorf("Generate = %v after %d requests; want an error after %d", err, requests.Load(), want)
					}
				})
		})
	}
}

func TestASlowAnswerIsNoStall(t *testing.T) {
	eachVendor(t, func(v vendor) []http.HandlerFunc {
		return []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			tick := time.NewTicker(59 * time.Second)
			defer tick.Stop()
			for _, frame := range append([]string{": ping\n\n", ": ping\n\n"}, v.greeting...) {
				<-tick.C
				send(frame)(w, r)
			}
		}}
	}, func(t *testing.T, m Model, requests *atomic.Int32) {
		if got, err := m.Generate(t.Context(), ask, nil); err != nil || !reflect.DeepEqual(got.Blocks, wantBlocks) || requests.Load() != 1 {
			t.Errorf("Generate = %+v, %v after %d requests; want the answer after one", got, err, requests.Load())
		}
	})
}

func TestCancelEndsGenerateAtOnceWithItsCause(t *testing.T) {
	cause := errors.New("the user left")
	for name, answer := range map[string]func(v vendor) http.HandlerFunc{
		"while it streams": func(v vendor) http.HandlerFunc { return then(v.greeting[:v.cutAt], hang) },
		"while it waits":   func(v vendor) http.HandlerFunc { return then(nil, hang) },
	} {
		t.Run(name, func(t *testing.T) {
			started := make(chan struct{}, 8)
			eachVendor(t, func(v vendor) []http.HandlerFunc {
				return []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
					started <- struct{}{}
					answer(v)(w, r)
				}}
			}, func(t *testing.T, m Model, requests *atomic.Int32) {
				ctx, cancel := context.WithCancelCause(t.Context())
				go func() { <-started; cancel(cause) }()
				_, err := m.Generate(ctx, ask, func(Delta) error { return nil })
				if !errors.Is(err, cause) || requests.Load() != 1 {
					t.Errorf("Generate = %v after %d requests; want the cause after one", err, requests.Load())
				}
			})
		})
	}
}

func TestCancelEndsTheWaitForARetry(t *testing.T) {
	refused := make(chan struct{}, 1)
	eachVendor(t, func(v vendor) []http.HandlerFunc {
		return []http.HandlerFunc{func(w http.ResponseWriter, r *http.Request) {
			refuse(429, "{}", "Retry-After", "3600")(w, r)
			refused <- struct{}{}
		}}
	}, func(t *testing.T, m Model, requests *atomic.Int32) {
		options(m).MaxWait = time.Hour
		ctx, cancel := context.WithCancel(t.Context())
		go func() { <-refused; cancel() }()
		if _, err := m.Generate(ctx, ask, nil); !errors.Is(err, context.Canceled) {
			t.Errorf("Generate = %v, want the cancel", err)
		}
	})
}

func TestAnErrorOfYieldEndsGenerate(t *testing.T) {
	full := errors.New("disk full")
	eachVendor(t, func(v vendor) []http.HandlerFunc { return []http.HandlerFunc{then(v.greeting, hang)} },
		func(t *testing.T, m Model, requests *atomic.Int32) {
			n := 0
			_, err := m.Generate(t.Context(), ask, func(Delta) error { n++; return full })
			if !errors.Is(err, full) || n != 1 || requests.Load() != 1 {
				t.Errorf("Generate = %v after %d deltas; want the error of the first", err, n)
			}
		})
}

func TestAServerThatIsNotThereIsAnErrorAfterRetries(t *testing.T) {
	m, err := Open("openai:x@http://127.0.0.1:1/v1", &Options{Backoff: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Generate(t.Context(), ask, nil); err == nil || !Retryable(err) {
		t.Errorf("Generate = %v, want a connection error", err)
	}
}

func TestReasoningIsStreamedApart(t *testing.T) {
	server := httptest.NewServer(send(chunk(`{"reasoning_content":"hm","reasoning":"hm"}`, "null"), chunk(`{"content":"yes"}`, `"stop"`)))
	t.Cleanup(server.Close)
	m, err := Open("openai:x@"+server.URL, &Options{Transport: &http.Transport{DisableKeepAlives: true}})
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.Generate(t.Context(), ask, nil)
	want := []Block{{Type: Reasoning, Text: "hm"}, {Type: Text, Text: "yes"}}
	if err != nil || !reflect.DeepEqual(got.Blocks, want) || got.Stop != StopEnd {
		t.Errorf("Generate = %+v, %v; want %+v", got, err, want)
	}
}
