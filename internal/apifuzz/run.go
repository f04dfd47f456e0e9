package apifuzz

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"
)

// Config says what to call.
type Config struct {
	URL     string   // of the server
	Tokens  []string // the first may do everything
	Seed    uint64
	Time    time.Duration // how long
	Clients int           // default 4
	Spaces  int           // of each kind; default 8
	Slow    time.Duration // a longer answer is a failure; default 10 s
	// Special makes the body of an operation whose requests the document does not
	// describe, or returns nil. It may be nil.
	Special func(operation, space string, r *rand.Rand) (body []byte, header map[string]string)
}

// Run sends requests for the configured time and reports the results. It returns an
// error only if it could not begin.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	if len(cfg.Tokens) == 0 {
		return nil, errors.New("apifuzz: a token is needed")
	}
	if cfg.Clients == 0 {
		cfg.Clients = 4
	}
	if cfg.Spaces == 0 {
		cfg.Spaces = 8
	}
	if cfg.Slow == 0 {
		cfg.Slow = 10 * time.Second
	}
	doc, err := load(ctx, cfg.URL)
	if err != nil {
		return nil, fmt.Errorf("apifuzz: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, cfg.Time)
	defer cancel()
	report := newReport(doc, cfg.Seed)
	m := newMemory()
	transport := &http.Transport{MaxIdleConnsPerHost: cfg.Clients}
	defer transport.CloseIdleConnections()
	var clients sync.WaitGroup
	for i := range cfg.Clients {
		c := &client{
			Config: &cfg, document: doc, memory: m, recipes: recipes(), report: report,
			rand: rand.New(rand.NewPCG(cfg.Seed, uint64(i))), http: &http.Client{Transport: transport},
		}
		clients.Go(func() { c.run(ctx) })
	}
	clients.Wait()
	return report, nil
}
