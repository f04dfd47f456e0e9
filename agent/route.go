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
	Name        string         // for messages
	MinPrompt   int            // the prompt has at least this many characters
	MaxPrompt   int            // and at most this many; zero: no bound
	Attachments bool           // the request has attachments
	Pattern     *regexp.Regexp // the prompt matches
	Model       string         // a key of Options.Models
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
func (a *Agent) route(req *Request) (string, error) {
	if req.Model != "" {
		if _, ok := a.opts.Models[req.Model]; !ok {
			return "", fmt.Errorf("%w: there is no model %q; there are %s", thole.ErrInvalid, req.Model, names(a.opts.Models))
		}
		return req.Model, nil
	}
	for i := range a.opts.Routes {
		if r := &a.opts.Routes[i]; r.meets(req) {
			return r.Model, nil
		}
	}
	return a.opts.Model, nil
}
