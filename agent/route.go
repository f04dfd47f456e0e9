package agent

import (
	"fmt"
	"regexp"
	"unicode/utf8"

	"github.com/thole-dev/thole"
)

// Rule sends the requests that meet all its conditions to a model. A rule
// without conditions meets every request.
type Rule struct {
	Name        string         // recorded on the run with the choice
	MinPrompt   int            // the prompt has at least this many characters
	MaxPrompt   int            // and at most this many; zero: no bound
	Attachments bool           // the request has attachments
	Pattern     *regexp.Regexp // the prompt matches
	Model       string         // a key of Options.Models
}

// Route is the choice of a model for a request.
type Route struct {
	Rule  string `json:"rule"` // the rule's name; "request": the request named the model; "default": no rule met it
	Model string `json:"model"`
}

func (r *Rule) meets(req *Request) bool {
	n := utf8.RuneCountInString(req.Prompt)
	return n >= r.MinPrompt &&
		(r.MaxPrompt == 0 || n <= r.MaxPrompt) &&
		(!r.Attachments || len(req.Attachments) > 0) &&
		(r.Pattern == nil || r.Pattern.MatchString(req.Prompt))
}

// route chooses the model for a request: the one that it names, else that of
// the first rule that it meets, else the default.
func (a *Agent) route(req *Request) (Route, error) {
	if req.Model != "" {
		if _, ok := a.opts.Models[req.Model]; !ok {
			return Route{}, fmt.Errorf("%w: there is no model %q; there are %s", thole.ErrInvalid, req.Model, a.modelNames())
		}
		return Route{Rule: "request", Model: req.Model}, nil
	}
	for i := range a.opts.Routes {
		if r := &a.opts.Routes[i]; r.meets(req) {
			return Route{Rule: r.Name, Model: r.Model}, nil
		}
	}
	return Route{Rule: "default", Model: a.opts.Model}, nil
}
