// Package metrics counts what a server does, for Prometheus. Names and labels hold
// no space, key or actor, so there is a bounded number of them and they disclose
// nothing about users.
package metrics

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// Set is the metrics of one server.
type Set struct {
	registry  *prometheus.Registry
	commits   *prometheus.CounterVec
	batch     prometheus.Histogram
	commit    prometheus.Histogram
	requests  *prometheus.CounterVec
	latency   *prometheus.HistogramVec
	delivered prometheus.Counter
	dropped   prometheus.Counter
	watchers  prometheus.Gauge
}

// New returns a Set with all counters at zero.
func New() *Set {
	s := &Set{
		registry: prometheus.NewRegistry(),
		commits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "thole_commits_total", Help: "Commits by outcome: applied, conflict, error."}, []string{"outcome"}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "thole_batch_commits", Help: "Commits in one backend batch.", Buckets: prometheus.ExponentialBuckets(1, 2, 11)}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "thole_batch_seconds", Help: "Time of one backend batch.", Buckets: prometheus.ExponentialBuckets(50e-6, 2, 16)}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "thole_http_requests_total", Help: "Requests by route and status."}, []string{"route", "status"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "thole_http_seconds", Help: "Time of a request by route, streams left out.", Buckets: prometheus.ExponentialBuckets(100e-6, 2, 16)}, []string{"route"}),
		delivered: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "thole_events_delivered_total", Help: "Events and broadcasts written to watchers."}),
		dropped: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "thole_watchers_dropped_total", Help: "Watchers that were dropped because they did not read."}),
		watchers: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "thole_watchers", Help: "Open event streams."}),
	}
	s.registry.MustRegister(s.commits, s.batch, s.commit, s.requests, s.latency, s.delivered, s.dropped, s.watchers,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return s
}

// Clock adds a metric that lead computes: how far a time in the store was ahead of
// the machine's clock. It is called once.
func (s *Set) Clock(lead func() time.Duration) {
	s.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "thole_clock_lead_seconds", Help: "The most that a time in the store was ahead of this machine's clock, if more than 5 s, else 0."},
		func() float64 { return lead().Seconds() }))
}

// Handler serves the metrics as Prometheus text.
func (s *Set) Handler() http.Handler { return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{}) }

// Request counts a finished request. route is the pattern that matched, not the
// path.
func (s *Set) Request(route string, status int, took time.Duration, stream bool) {
	if route == "" {
		route = "none"
	}
	s.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
	if !stream {
		s.latency.WithLabelValues(route).Observe(took.Seconds())
	}
}

// Watching counts one more watcher, until the returned function is called.
func (s *Set) Watching() (done func()) {
	s.watchers.Inc()
	return s.watchers.Dec
}

// Delivered counts n events written to one watcher.
func (s *Set) Delivered(n int) { s.delivered.Add(float64(n)) }

// Dropped counts a watcher whose connection was dropped because it did not read.
func (s *Set) Dropped() { s.dropped.Inc() }

// Backend returns a backend that counts the commits of b.
func (s *Set) Backend(b journal.Backend) journal.Backend { return metered{Backend: b, set: s} }

type metered struct {
	journal.Backend
	set *Set
}

func (m metered) Commit(ctx context.Context, batch []thole.Commit) ([]thole.Result, error) {
	start := time.Now()
	results, err := m.Backend.Commit(ctx, batch)
	m.set.commit.Observe(time.Since(start).Seconds())
	m.set.batch.Observe(float64(len(batch)))
	conflicts, failed := 0, 0
	for i := range results {
		switch {
		case results[i].Err != nil:
			failed++
		case results[i].Conflict != nil:
			conflicts++
		}
	}
	if err != nil {
		m.set.commits.WithLabelValues("error").Add(float64(len(batch)))
		return results, err
	}
	m.set.commits.WithLabelValues("conflict").Add(float64(conflicts))
	m.set.commits.WithLabelValues("error").Add(float64(failed))
	m.set.commits.WithLabelValues("applied").Add(float64(len(batch) - conflicts - failed))
	return results, nil
}

// Capabilities returns those of the wrapped backend.
func (m metered) Capabilities() journal.Capabilities {
	within := m.Backend.Capabilities()
	return journal.Capabilities{
		Durability:        within.Durability,
		Hints:             within.Hints,
		SendBroadcasts:    within.SendBroadcasts,
		ReceiveBroadcasts: within.ReceiveBroadcasts,
		Shards:            within.Shards,
		Shard:             within.Shard,
		Check:             within.Check,
		Stopped:           within.Stopped,
		Report:            within.Report,
	}
}
