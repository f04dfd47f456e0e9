package rest

import (
	"encoding/json"
	"strconv"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/kv"
)

func kvRoutes() []route {
	const item, ns = "/v1/spaces/{space}/kv/{namespace}/{key...}", "/v1/spaces/{space}/kv/{namespace}"
	return []route{
		{method: "GET", path: ns, tag: "kv", access: read, summary: "List the values of a namespace",
			query: append(pagingParams(), oldParam{"prefix", "string", "only keys that begin with it"}), do: gives(listValues)},
		{method: "GET", path: item, tag: "kv", access: read, etag: true,
			summary: "Read a value; an absent one has exists false", do: gives(getValue)},
		{method: "PUT", path: item, tag: "kv", access: write, etag: true, summary: "Set a value",
			query: []oldParam{{"ttl", "integer", "seconds until it expires; without it, it stays"}}, do: takes(putValue)},
		{method: "DELETE", path: item, tag: "kv", access: write, etag: true, summary: "Delete a value", do: gives(deleteValue)},
	}
}

func (c *call) kv() (s *kv.Store, namespace, key string) {
	return kv.In(c.space), c.r.PathValue("namespace"), c.r.PathValue("key")
}

func listValues(c *call) (page[kv.Entry], error) {
	s, ns, _ := c.kv()
	limit, err := c.limit(100)
	if err != nil {
		return page[kv.Entry]{}, err
	}
	p, err := s.List(c.ctx, ns, &kv.ListOptions{Prefix: c.arg("prefix"), After: c.arg("cursor"), Limit: limit})
	return pageOf(p.Entries, p.Next), err
}

func getValue(c *call) (kv.Entry, error) {
	s, ns, key := c.kv()
	e, err := s.Get(c.ctx, ns, key)
	c.version(e.Version)
	return e, err
}

// NewValue is what a PUT of a value takes.
type NewValue struct {
	Data json.RawMessage `json:"data" doc:"any JSON"`
}

func putValue(c *call, in NewValue) (kv.Entry, error) {
	if in.Data == nil {
		return kv.Entry{}, invalid("data", "is missing")
	}
	ttl, err := c.seconds("ttl")
	if err != nil {
		return kv.Entry{}, err
	}
	s, ns, key := c.kv()
	when, err := c.condition()
	if err != nil {
		return kv.Entry{}, err
	}
	e, err := s.Set(c.ctx, ns, key, in.Data, &kv.SetOptions{TTL: ttl, IfMatch: when.At, IfExists: when.Exists, IfAbsent: when.Absent})
	c.version(e.Version)
	return e, err
}

func deleteValue(c *call) (none, error) {
	s, ns, key := c.kv()
	when, err := c.condition()
	if err == nil && when.Absent {
		err = invalid("If-None-Match", "makes no sense on a DELETE")
	}
	if err != nil {
		return none{}, err
	}
	_, err = s.Delete(c.ctx, ns, key, &kv.DeleteOptions{IfMatch: when.At, IfExists: when.Exists})
	return none{}, err
}

// seconds reads a query parameter that is a number of seconds, 1 or more; 0
// when it is absent.
func (c *call) seconds(name string) (time.Duration, error) {
	s := c.arg(name)
	if s == "" {
		return 0, nil
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil || n < 1 || n > maxSeconds {
		return 0, invalid(name, "%.40q is not a number of seconds from 1 to %d", s, maxSeconds)
	}
	return time.Duration(n) * time.Second, nil
}

const maxSeconds = int64(thole.MaxTTL / time.Second)
