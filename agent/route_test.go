package agent

import (
	"errors"
	"regexp"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/model"
)

func TestTheFirstRuleThatARequestMeetsChoosesTheModel(t *testing.T) {
	a := &Agent{opts: Options{
		Models: map[string]model.Model{"small": nil, "big": nil, "eyes": nil, "other": nil},
		Model:  "other",
		Routes: []Rule{
			{Name: "pictures", Attachments: true, Model: "eyes"},
			{Name: "architecture", Pattern: regexp.MustCompile(`(?i)\barchitect`), Model: "big"},
			{Name: "short", MaxPrompt: 10, Model: "small"},
			{Name: "long", MinPrompt: 100, Model: "big"},
		},
	}}
	for _, c := range []struct {
		req  Request
		want string
	}{
		{Request{Prompt: "Architect it", Attachments: []Attachment{{}}}, "eyes"},
		{Request{Prompt: "Architect it"}, "big"},
		{Request{Prompt: "Grün, ja?"}, "small"},
		{Request{Prompt: string(make([]byte, 100))}, "big"},
		{Request{Prompt: "Make it blue, please"}, "other"},
		{Request{Prompt: "Architect it", Model: "small"}, "small"},
	} {
		if got, err := a.route(&c.req); err != nil || got != c.want {
			t.Errorf("route(%.30q) = %v, %v; want %v", c.req.Prompt, got, err, c.want)
		}
	}
	if _, err := a.route(&Request{Model: "none"}); !errors.Is(err, thole.ErrInvalid) {
		t.Errorf("route to an unknown model: %v, want ErrInvalid", err)
	}
}
