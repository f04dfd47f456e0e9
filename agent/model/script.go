package model

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// Script is a model that plays recorded turns, from YAML:
//
//	delay_ms: 0                          # between deltas, for tests of cancel
//	where: the shop                      # in which project it can be played, for messages
//	turns:
//	  - prompt: Create a button          # the user's prompt contains this, or matches /regex/
//	    steps:                           # one step = one response of the model
//	      - text: I will create it.
//	        tool_calls:
//	          - name: Write
//	            input: {path: src/Button.tsx, content: "export …"}
//	      - expect: ["[tool_result Write]"]
//	        text: Done.
//	  - prompt: Make it blue
//	    steps:
//	      - expect: [Create a button, '/Write\b.*Button/']
//	        otherwise: first create a button   # what the error says if not
//	        capture: {file: 'Write.*?"path":"([^"]+)"'}
//	        text: "Now {{file}}."
//	        tool_calls: [{name: Read, input: {path: "{{file}}"}}]
//	        usage: {input_tokens: 100, output_tokens: 20}
//	        delay_ms: 5                  # instead of the script's
//	      - text: Done.
//
// What is played depends on the request alone, so one Script serves any number
// of conversations, and one that goes on after a crash:
//
//	messages: … user prompt  call  result  call call  result result
//	               │                └─ 1 ─┘            └─ 2 and 3 ─┘
//	             turn         results since the prompt → step
//
// The prompt is the last text of a user. Of several turns for the same prompt,
// the n-th is for the n-th such prompt of the conversation, the last for all
// further ones. The step is the one that follows as many tool calls as there are
// results since the prompt; one that a crash cut short, so that only some of its
// calls have results, makes the rest.
//
// Expectations and captures (the leftmost match of a regex with one group) are
// looked for in the whole request as [Render] shows it. Regexes have RE2's
// syntax, ^ and $ match at lines. A captured value is {{name}} in the texts and
// inputs of its step and the later ones of the turn. What is not found is an
// error that says where and what.
//
// A step with "error: TEXT" says its text and fails as ErrIncomplete. Without
// usage, four bytes count as a token.
type Script struct {
	name  string
	where string        // in which project it can be played; "": anywhere
	delay time.Duration // between deltas
	turns []turn
}

// OpenScript reads a script from a file. Errors: thole.ErrNotFound,
// thole.ErrInvalid.
func OpenScript(file string) (*Script, error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("script: %w: %w", thole.ErrNotFound, err)
	}
	if err != nil {
		return nil, fmt.Errorf("script: %w", err)
	}
	return ParseScript(filepath.Base(file), data)
}

// Name returns "script:" and the base name of the file.
func (s *Script) Name() string { return "script:" + s.name }

// Generate plays the step that a request asks for.
func (s *Script) Generate(ctx context.Context, req Request, yield func(Delta) error) (Response, error) {
	t, k, done, err := s.find(req)
	if err != nil {
		return Response{}, fmt.Errorf("%s: %w", s.Name(), err)
	}
	where := fmt.Sprintf("%s: turn %d (%s), step %d", s.Name(), t.number, t.Prompt.text, k+1)
	prompt := Render(req)
	values, err := t.values(k, prompt)
	if err != nil {
		return Response{}, fmt.Errorf("%s: %w", where, err)
	}
	st := t.Steps[k]
	if done > 0 {
		st.Text = "" // said before the crash
	}
	text, err := fill(st.Text, values)
	if err != nil {
		return Response{}, fmt.Errorf("%s: %w", where, err)
	}
	p := player{ctx: ctx, delay: s.delay, build: build{yield: yield, stop: StopEnd}}
	if st.DelayMS != nil {
		p.delay = time.Duration(*st.DelayMS) * time.Millisecond
	}
	if err := p.say(text); err != nil {
		return p.build.partial(), fmt.Errorf("%s: %w", where, err)
	}
	if st.Error != "" {
		return p.build.partial(), fmt.Errorf("%s: %w: %s", where, ErrIncomplete, st.Error)
	}
	for i, c := range st.ToolCalls[done:] {
		input, err := c.fill(values)
		if err == nil {
			err = p.call(i, fmt.Sprintf("call_%d_%d_%d", t.number, k+1, done+i+1), c.Name, input)
		}
		if err != nil {
			return p.build.partial(), fmt.Errorf("%s: %w", where, err)
		}
	}
	p.build.usage = st.usage(prompt, text)
	return p.build.finish()
}

// find returns the turn and the index of the step that a request asks for, and
// how many of the step's calls have a result already.
func (s *Script) find(req Request) (turn, int, int, error) {
	prompts, results := prompts(req.Messages)
	if len(prompts) == 0 {
		return turn{}, 0, 0, errors.New("the request has no text of a user")
	}
	last := prompts[len(prompts)-1]
	var found *turn
	for i := range s.turns {
		t := &s.turns[i]
		if !t.Prompt.in(last) {
			continue
		}
		found = t
		earlier := 0
		for _, p := range prompts[:len(prompts)-1] {
			if t.Prompt.in(p) {
				earlier++
			}
		}
		if earlier <= t.nth {
			break
		}
	}
	if found == nil {
		var known []string
		for _, t := range s.turns {
			known = append(known, fmt.Sprintf("%.60q", t.Prompt.text))
		}
		where := s.where
		if where != "" {
			where = ", in " + where
		}
		return turn{}, 0, 0, fmt.Errorf("no turn has the prompt %.200q; the script answers %.500s%s; for anything else name a model with --model", last, strings.Join(known, ", "), where)
	}
	k := 0
	for calls := 0; k < len(found.Steps); k++ {
		n := len(found.Steps[k].ToolCalls)
		if results == calls || results < calls+n {
			return *found, k, results - calls, nil
		}
		calls += n
	}
	return turn{}, 0, 0, fmt.Errorf("turn %d (%s): it has %d steps, and one more was asked for", found.number, found.Prompt.text, k)
}

// prompts returns the users' texts and how many results follow the last.
func prompts(messages []Message) (prompts []string, results int) {
	for _, m := range messages {
		var text []string
		for _, b := range m.Blocks {
			switch {
			case b.Type == ToolResult:
				results++
			case m.Role == User && b.Type == Text:
				text = append(text, b.Text)
			}
		}
		if len(text) > 0 {
			prompts, results = append(prompts, strings.Join(text, "\n")), 0
		}
	}
	return prompts, results
}

// player says things slowly.
type player struct {
	build
	ctx   context.Context
	delay time.Duration
}

// deltaRunes is how much is said at once.
const deltaRunes = 12

func (p *player) say(text string) error {
	return p.pieces(text, func(piece string) error { return p.build.say(Text, piece) })
}

func (p *player) call(key int, id, name string, input json.RawMessage) error {
	if err := p.build.call(int64(key), id, name, ""); err != nil {
		return err
	}
	return p.pieces(string(input), func(piece string) error { return p.build.call(int64(key), "", "", piece) })
}

func (p *player) pieces(text string, f func(string) error) error {
	for runes := []rune(text); len(runes) > 0; {
		if p.delay > 0 {
			select {
			case <-time.After(p.delay):
			case <-p.ctx.Done():
			}
		}
		if p.ctx.Err() != nil {
			return context.Cause(p.ctx)
		}
		n := min(deltaRunes, len(runes))
		if err := f(string(runes[:n])); err != nil {
			return err
		}
		runes = runes[n:]
	}
	return nil
}
