package model

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/thole-dev/thole"
)

type turn struct {
	Prompt pattern `yaml:"prompt"`
	Steps  []step  `yaml:"steps"`
	number int     // in the script, from 1
	nth    int     // of the turns with the same prompt, from 0
}

type step struct {
	Expect    []pattern         `yaml:"expect"`
	Otherwise string            `yaml:"otherwise"`
	Capture   map[string]string `yaml:"capture"`
	Text      string            `yaml:"text"`
	ToolCalls []call            `yaml:"tool_calls"`
	Usage     *Usage            `yaml:"usage"`
	DelayMS   *int              `yaml:"delay_ms"`
	Error     string            `yaml:"error"`
	captures  map[string]*regexp.Regexp
}

type call struct {
	Name  string         `yaml:"name"`
	Input map[string]any `yaml:"input"`
}

// pattern is a text to be found, or a regex between slashes.
type pattern struct {
	text string
	re   *regexp.Regexp
}

// UnmarshalYAML reads a pattern from a string.
func (p *pattern) UnmarshalYAML(n *yaml.Node) error {
	if err := n.Decode(&p.text); err != nil {
		return err
	}
	if len(p.text) > 1 && strings.HasPrefix(p.text, "/") && strings.HasSuffix(p.text, "/") {
		var err error
		if p.re, err = regexp.Compile("(?m)" + p.text[1:len(p.text)-1]); err != nil {
			return fmt.Errorf("line %d: %w", n.Line, err)
		}
	}
	return nil
}

func (p pattern) in(s string) bool {
	if p.re != nil {
		return p.re.MatchString(s)
	}
	return strings.Contains(s, p.text)
}

// ParseScript reads a script from YAML; name is for messages. Unknown fields
// and scripts that could not be played are thole.ErrInvalid.
func ParseScript(name string, data []byte) (*Script, error) {
	var file struct {
		DelayMS int    `yaml:"delay_ms"`
		Where   string `yaml:"where"`
		Turns   []turn `yaml:"turns"`
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&file); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("script %s: %w: %w", name, thole.ErrInvalid, err)
	}
	if len(file.Turns) == 0 {
		return nil, fmt.Errorf("script %s: %w: it has no turns", name, thole.ErrInvalid)
	}
	seen := map[string]int{}
	for i := range file.Turns {
		t := &file.Turns[i]
		t.number, t.nth = i+1, seen[t.Prompt.text]
		seen[t.Prompt.text]++
		if err := t.prepare(); err != nil {
			return nil, fmt.Errorf("script %s: %w: turn %d: %w", name, thole.ErrInvalid, t.number, err)
		}
	}
	return &Script{name: name, where: file.Where, delay: time.Duration(file.DelayMS) * time.Millisecond, turns: file.Turns}, nil
}

func (t *turn) prepare() error {
	switch {
	case t.Prompt.text == "":
		return errors.New("it has no prompt")
	case len(t.Steps) == 0:
		return errors.New("it has no steps")
	}
	for i := range t.Steps {
		st := &t.Steps[i]
		if len(st.ToolCalls) == 0 && st.Error == "" && i < len(t.Steps)-1 {
			return fmt.Errorf("step %d calls no tool, so step %d can never come", i+1, i+2)
		}
		st.captures = map[string]*regexp.Regexp{}
		for name, expr := range st.Capture {
			re, err := regexp.Compile("(?m)" + expr)
			if err == nil && re.NumSubexp() != 1 {
				err = errors.New("it must have one group")
			}
			if err != nil {
				return fmt.Errorf("step %d: capture %s: %w", i+1, name, err)
			}
			st.captures[name] = re
		}
		for _, c := range st.ToolCalls {
			if c.Name == "" {
				return fmt.Errorf("step %d: a tool call has no name", i+1)
			}
			if _, err := json.Marshal(c.Input); err != nil {
				return fmt.Errorf("step %d: input of %s: %w", i+1, c.Name, err)
			}
		}
	}
	return nil
}

// values checks what step k expects and returns what was captured up to it.
func (t *turn) values(k int, prompt string) (map[string]string, error) {
	for _, want := range t.Steps[k].Expect {
		switch hint := t.Steps[k].Otherwise; {
		case want.in(prompt):
		case hint != "": // for people, who did not write the prompt
			return nil, fmt.Errorf("%s (the script expects %q)", hint, want.text)
		default:
			return nil, fmt.Errorf("expected %q in the prompt, which is:\n%s", want.text, ending(prompt))
		}
	}
	values := map[string]string{}
	for _, st := range t.Steps[:k+1] {
		for name, re := range st.captures {
			m := re.FindStringSubmatch(prompt)
			if m == nil {
				return nil, fmt.Errorf("nothing in the prompt matches %q, to capture %q; it is:\n%s", st.Capture[name], name, ending(prompt))
			}
			values[name] = m[1]
		}
	}
	return values, nil
}

// ending keeps an error readable: the end of a prompt is its news.
func ending(s string) string {
	const most = 4000
	if len(s) <= most {
		return s
	}
	return "…" + strings.ToValidUTF8(s[len(s)-most:], "")
}

var placeholder = regexp.MustCompile(`\{\{\s*([A-Za-z_]\w*)\s*\}\}`)

// fill puts captured values in the place of {{name}}. Other braces stay: code
// is full of them.
func fill(s string, values map[string]string) (string, error) {
	var missing error
	out := placeholder.ReplaceAllStringFunc(s, func(m string) string {
		name := placeholder.FindStringSubmatch(m)[1]
		v, ok := values[name]
		if !ok {
			missing = fmt.Errorf("%s was not captured in this turn", m)
		}
		return v
	})
	return out, missing
}

// fill returns the input as JSON.
func (c call) fill(values map[string]string) (json.RawMessage, error) {
	if c.Input == nil {
		return json.RawMessage("{}"), nil
	}
	filled, err := fillAny(c.Input, values)
	if err != nil {
		return nil, fmt.Errorf("input of %s: %w", c.Name, err)
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false) // so that expectations can look for <div>
	if err := e.Encode(filled); err != nil {
		return nil, fmt.Errorf("input of %s: %w", c.Name, err)
	}
	return bytes.TrimSpace(b.Bytes()), nil
}

func fillAny(v any, values map[string]string) (any, error) {
	var err error
	switch v := v.(type) {
	case string:
		return fill(v, values)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			if out[i], err = fillAny(v[i], values); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(v))
		for k := range v {
			if out[k], err = fillAny(v[k], values); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// usage returns the step's, or a guess from the lengths.
func (st step) usage(prompt, text string) Usage {
	u := Usage{InputTokens: int64(len(prompt)+3) / 4, OutputTokens: int64(len(text)+3) / 4}
	if st.Usage != nil {
		u = *st.Usage
	}
	if u.TotalTokens == 0 {
		u.TotalTokens = u.InputTokens + u.OutputTokens
	}
	return u
}
