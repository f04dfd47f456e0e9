package model

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/thole-dev/thole"
)

// Options change a model. The zero value is the default.
type Options struct {
	APIKey  string // empty means OPENAI_API_KEY or ANTHROPIC_API_KEY
	BaseURL string // empty means the spec's, else OPENAI_BASE_URL or ANTHROPIC_BASE_URL, else the vendor's

	Retries int           // after a first attempt; zero means 3, negative none
	Backoff time.Duration // before the first retry, doubled each time, give or take a quarter; zero means 500 ms
	MaxWait time.Duration // before any retry, even if the service asks for more; zero means 30 s
	Stall   time.Duration // without a byte from the service until ErrStalled; zero means 60 s

	Transport http.RoundTripper // nil means http.DefaultTransport
}

func (o *Options) withDefaults() Options {
	var d Options
	if o != nil {
		d = *o
	}
	if d.Retries == 0 {
		d.Retries = 3
	}
	if d.Backoff <= 0 {
		d.Backoff = 500 * time.Millisecond
	}
	if d.MaxWait <= 0 {
		d.MaxWait = 30 * time.Second
	}
	if d.Stall <= 0 {
		d.Stall = 60 * time.Second
	}
	if d.Transport == nil {
		d.Transport = http.DefaultTransport
	}
	return d
}

// Forms lists the forms of a spec, for people.
const Forms = "openai:MODEL[@URL], anthropic:MODEL or script:FILE"

// Open returns the model of a spec (see the package's comment). It reaches no
// network. Errors: thole.ErrInvalid for a spec or a script that makes no
// sense or a missing key, thole.ErrNotFound for a missing script.
func Open(spec string, o *Options) (Model, error) {
	kind, rest, _ := strings.Cut(spec, ":")
	opts := o.withDefaults()
	if rest == "" && (kind == "openai" || kind == "anthropic" || kind == "script") {
		return nil, fmt.Errorf("%w: model %q names nothing after the colon", thole.ErrInvalid, spec)
	}
	switch kind {
	case "openai":
		name := rest
		if at := strings.LastIndex(rest, "@http"); at > 0 {
			name = rest[:at]
			if opts.BaseURL == "" {
				opts.BaseURL = rest[at+1:]
			}
		}
		if err := opts.connect("OPENAI", spec); err != nil {
			return nil, err
		}
		return newOpenAI(name, opts), nil
	case "anthropic":
		if err := opts.connect("ANTHROPIC", spec); err != nil {
			return nil, err
		}
		return newAnthropic(rest, opts), nil
	case "script":
		return OpenScript(rest)
	}
	return nil, fmt.Errorf("%w: model %q; use "+Forms, thole.ErrInvalid, spec)
}

// connect fills key and address from the environment. A key is not asked for
// where the address was given: local servers need none.
func (o *Options) connect(vendor, spec string) error {
	if o.BaseURL == "" {
		o.BaseURL = os.Getenv(vendor + "_BASE_URL")
	}
	if o.BaseURL != "" {
		u, err := url.Parse(o.BaseURL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("%w: model %s: base URL %q is not an http or https address", thole.ErrInvalid, spec, o.BaseURL)
		}
	}
	if o.APIKey == "" {
		o.APIKey = os.Getenv(vendor + "_API_KEY")
	}
	if o.APIKey == "" && o.BaseURL == "" {
		return fmt.Errorf("%w: model %s needs a key: set %s_API_KEY", thole.ErrInvalid, spec, vendor)
	}
	return nil
}
