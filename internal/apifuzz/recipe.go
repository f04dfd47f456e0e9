package apifuzz

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
)

// recipe says how to make a valid request for an operation beyond its schema, and what
// to learn from its answer.
type recipe struct {
	op    string // the end of the operation's name, after "METHOD …"
	needs string // the kind of fact that the request is about; "": a space
	makes string // the kind of fact that a success makes
	takes bool   // the fact is used up
	body  func(r *rand.Rand, f fact) any
	fence bool // the fact's fence is sent
	learn func(m *memory, f fact, answer map[string]any)
}

func object(pairs ...any) map[string]any {
	o := make(map[string]any)
	for i := 0; i < len(pairs); i += 2 {
		if pairs[i+1] != nil {
			o[pairs[i].(string)] = pairs[i+1]
		}
	}
	return o
}

// sometimes returns v, or nil.
func sometimes(r *rand.Rand, v any) any {
	if r.IntN(3) == 0 {
		return v
	}
	return nil
}

func pick[T any](r *rand.Rand, all ...T) T { return all[r.IntN(len(all))] }

func hash(s string) string {
	sum := sha256.Sum256([]byte(s))
	return hex.EncodeToString(sum[:])
}

func blocks(r *rand.Rand) []any {
	return []any{object("type", pick(r, "text", "code", "text", "reasoning"), "content", text(r), "meta", sometimes(r, object("k", anything(r, 3))))}
}

// id returns a function that learns one fact from the answer's member id.
func id(kind, name string) func(*memory, fact, map[string]any) {
	return func(m *memory, f fact, answer map[string]any) {
		if s, ok := answer["id"].(string); ok {
			m.learn(kind, f.with(name, s))
		}
	}
}

// recipes returns recipes for the operations whose schema does not suffice. If several
// fit an operation, the first one counts.
func recipes() []recipe {
	const thread, run = "/threads/{thread}", "/threads/{thread}/runs/{run}"
	agents := []string{"a1", "a2"}
	newRun := func(r *rand.Rand, f fact) any {
		return object("prompt", text(r)+".", "agent", pick(r, agents...), "policy", pick(r, "enqueue", "enqueue", "enqueue", "reject", "interrupt", "rollback"),
			"model", sometimes(r, "m"), "timeout", sometimes(r, 600), "on_disconnect", sometimes(r, pick(r, "continue", "cancel")),
			"file_structure", sometimes(r, anything(r, 2)), "attachments", sometimes(r, []any{object("url", "data:text/plain,hello", "name", "a.txt")}),
			"blocks", sometimes(r, blocks(r)))
	}
	decided := func(m *memory, f fact, answer map[string]any) {
		if answer["standing"] != true {
			id("decision", "decision")(m, f, answer)
		}
	}
	return []recipe{
		{op: "DELETE /v1/spaces/{space}", learn: func(m *memory, f fact, _ map[string]any) { m.forgetSpace(f["space"]) }},

		{op: "POST /v1/spaces/{space}/threads", makes: "thread", learn: id("thread", "thread"), body: func(r *rand.Rand, f fact) any {
			return object("title", text(r), "assistant", sometimes(r, pick(r, agents...)), "visibility", sometimes(r, pick(r, "space", "private")),
				"metadata", sometimes(r, object("k", anything(r, 3))), "ttl", sometimes(r, 3600))
		}},
		{op: "DELETE " + thread, needs: "thread", takes: true},
		{op: "PATCH " + thread, needs: "thread", body: func(r *rand.Rand, f fact) any {
			return object("title", text(r), "visibility", sometimes(r, pick(r, "space", "private")), "metadata", sometimes(r, object("k", anything(r, 3))))
		}},
		{op: "POST " + thread + "/messages", needs: "thread", body: func(r *rand.Rand, f fact) any {
			return object("role", pick(r, "user", "assistant", "system", "user"), "blocks", blocks(r))
		}},
		{op: "POST " + thread + "/turns", needs: "thread", makes: "turn", learn: id("turn", "turn"), body: func(r *rand.Rand, f fact) any {
			return object("request", blocks(r), "response", blocks(r))
		}},
		{op: "POST " + thread + "/compact", needs: "turn", takes: true, body: func(r *rand.Rand, f fact) any {
			return object("upto", f["turn"], "summary", text(r))
		}},
		{op: "PUT " + thread + "/state", needs: "thread", body: func(r *rand.Rand, f fact) any { return object("value", object("n", r.IntN(9), "v", anything(r, 2))) }},
		{op: "PATCH " + thread + "/state", needs: "thread"},
		{op: "POST " + thread + "/todos", needs: "thread", makes: "todo", learn: id("todo", "todo"), body: func(r *rand.Rand, f fact) any {
			return object("content", text(r), "status", sometimes(r, pick(r, "pending", "completed", "in_progress", "cancelled")), "priority", sometimes(r, pick(r, "high", "low")))
		}},
		{op: "PUT " + thread + "/todos", needs: "thread", body: func(r *rand.Rand, f fact) any {
			return object("items", []any{object("content", text(r), "status", pick(r, "pending", "completed"), "priority", "high")})
		}},
		{op: "PATCH " + thread + "/todos/{todo}", needs: "todo", body: func(r *rand.Rand, f fact) any { return object("status", pick(r, "pending", "completed")) }},
		{op: "DELETE " + thread + "/todos/{todo}", needs: "todo", takes: true},

		{op: "POST " + thread + "/runs", needs: "thread", makes: "queued", body: newRun, learn: func(m *memory, f fact, answer map[string]any) {
			agent, _ := answer["agent"].(string)
			f = f.with("agent", agent)
			id("queued", "run")(m, f, answer)
			id("run", "run")(m, f, answer)
		}},
		{op: "POST /v1/runs/claim", needs: "queued", makes: "claimed", takes: true, body: func(r *rand.Rand, f fact) any {
			return object("spaces", []any{f["space"]}, "agent", f["agent"], "worker", "w", "wait_seconds", sometimes(r, 0.2))
		}, learn: func(m *memory, f fact, answer map[string]any) {
			run, _ := answer["run"].(map[string]any)
			id, _ := run["id"].(string)
			thread, _ := run["thread"].(string)
			turn, _ := answer["turn"].(string)
			fence, _ := answer["token"].(string)
			m.learn("claimed", fact{"space": f["space"], "token": f["token"], "thread": thread, "run": id, "turn": turn, "fence": fence})
		}},
		{op: "POST " + run + "/heartbeat", needs: "claimed", fence: true},
		{op: "POST " + run + "/signals", needs: "claimed", makes: "signalled", body: func(r *rand.Rand, f fact) any { return object("name", "go", "data", anything(r, 1)) },
			learn: func(m *memory, f fact, _ map[string]any) { m.learn("signalled", f) }},
		{op: "POST " + run + "/wait", needs: "signalled", takes: true, fence: true, body: func(r *rand.Rand, f fact) any { return object("name", "go", "wait_seconds", 1) }},
		{op: "POST " + run + "/finish", needs: "claimed", takes: true, fence: true, body: func(r *rand.Rand, f fact) any {
			return object("status", pick(r, "succeeded", "failed"), "error", sometimes(r, text(r)), "usage", sometimes(r, object("m", object("input_tokens", 3, "output_tokens", 4))))
		}},
		{op: "POST " + run + "/cancel", needs: "run", takes: true, body: func(r *rand.Rand, f fact) any { return object("cause", sometimes(r, pick(r, "user", "timeout"))) }},
		{op: "GET " + run, needs: "run"},
		{op: "PATCH " + thread + "/queue/{run}", needs: "queued", body: func(r *rand.Rand, f fact) any { return object("prompt", text(r)+"!") }},
		{op: "DELETE " + thread + "/queue/{run}", needs: "queued", takes: true},
		{op: "POST " + thread + "/turns/{turn}/blocks", needs: "claimed", makes: "block", fence: true, body: func(r *rand.Rand, f fact) any {
			if r.IntN(3) > 0 {
				return object("type", "tool", "tool", object("name", "t", "input", object("a", anything(r, 2))))
			}
			return object("type", "text", "content", text(r))
		}, learn: id("block", "block")},
		{op: "PATCH " + thread + "/turns/{turn}/blocks/{block}", needs: "block", takes: true, fence: true, body: func(r *rand.Rand, f fact) any {
			return object("status", pick(r, "done", "error"), "result", anything(r, 1))
		}},
		{op: thread, needs: "thread"}, // all others with a thread in the path

		{op: "POST /v1/spaces/{space}/decisions", makes: "decision", learn: decided, body: func(r *rand.Rand, f fact) any {
			return object("action", text(r), "rationale", sometimes(r, text(r)), "input", sometimes(r, anything(r, 1)), "standing", sometimes(r, true), "idempotent", sometimes(r, true))
		}},
		{op: "GET /v1/spaces/{space}/decisions/{decision}", needs: "decision"},
		{op: "POST /v1/spaces/{space}/decisions/{decision}/outcome", needs: "decision", takes: true, body: func(r *rand.Rand, f fact) any {
			return object("outcome", pick(r, "done", "failed", "unknown"), "result", sometimes(r, anything(r, 1)))
		}},

		{op: "POST /v1/spaces/{space}/locks", makes: "lock", body: func(r *rand.Rand, f fact) any {
			return object("name", fmt.Sprintf("%s/%d", name(r), r.IntN(50)), "ttl", 2+r.IntN(20), "mode", sometimes(r, "intent"), "owner", sometimes(r, "me"))
		}, learn: func(m *memory, f fact, answer map[string]any) {
			name, _ := answer["name"].(string)
			fence, _ := answer["token"].(string)
			m.learn("lock", f.with("name", name, "fence", fence))
		}},
		{op: "PUT /v1/spaces/{space}/locks/{name}", needs: "lock", fence: true, body: func(r *rand.Rand, f fact) any { return object("ttl", 5) }},
		{op: "DELETE /v1/spaces/{space}/locks/{name}", needs: "lock", takes: true, fence: true},

		{op: "POST /v1/spaces/{space}/files/{path}", body: func(r *rand.Rand, f fact) any {
			return object("before_hash", "", "after_hash", hash("new"), "contents", object("after", "bmV3"))
		}},
		{op: "PUT /v1/spaces/{space}/files/{path}", body: func(r *rand.Rand, f fact) any { return object("hash", pick(r, hash("x"), hash("y"), "")) }},
		{op: "POST /v1/spaces/{space}/file-conflicts/{path}", body: func(r *rand.Rand, f fact) any {
			return object("base_hash", hash("x"), "ours_hash", hash("y"), "theirs_hash", hash("z"), "rejected", sometimes(r, anything(r, 1)))
		}},
		{op: "GET /v1/spaces/{space}/blobs/{sha256}", needs: "blob"},
		{op: "PUT /v1/spaces/{space}/blobs/{sha256}", makes: "blob", learn: func(m *memory, f fact, _ map[string]any) { m.learn("blob", f) }},

		{op: "PUT /v1/spaces/{space}/documents/{name}", makes: "document", body: func(r *rand.Rand, f fact) any { return object("value", object("n", r.IntN(9), "v", anything(r, 2))) },
			learn: func(m *memory, f fact, _ map[string]any) { m.learn("document", f) }},
		{op: "DELETE /v1/spaces/{space}/documents/{name}", needs: "document", takes: true},
		{op: "PATCH /v1/spaces/{space}/documents/{name}", needs: "document"},
		{op: "PUT /v1/spaces/{space}/kv/{namespace}/{key}", makes: "kv", body: func(r *rand.Rand, f fact) any { return map[string]any{"data": anything(r, 1)} },
			learn: func(m *memory, f fact, _ map[string]any) { m.learn("kv", f) }},
		{op: "DELETE /v1/spaces/{space}/kv/{namespace}/{key}", needs: "kv", takes: true},

		{op: "POST /v1/spaces/{space}/events", body: func(r *rand.Rand, f fact) any {
			return object("type", pick(r, "x.y", "sync.file_written"), "data", sometimes(r, anything(r, 1)), "stream", sometimes(r, "app/"+name(r)), "subject", sometimes(r, "user:42"), "refs", sometimes(r, []any{"a"}), "schema", sometimes(r, 2))
		}},
		{op: "POST /v1/spaces/{space}/commits", body: func(r *rand.Rand, f fact) any {
			writes := []any{object("key", "app/"+name(r), "value", anything(r, 1))}
			if r.IntN(4) == 0 {
				writes[0] = object("key", "app/"+name(r))
			}
			return object("writes", writes, "events", sometimes(r, []any{object("type", "x.y", "data", anything(r, 1))}))
		}},
	}
}

// recipeOf returns the recipe of an operation: the one with the longest name that fits.
func recipeOf(all []recipe, op *operation) recipe {
	best, size := recipe{}, -1
	for _, rc := range all {
		method, path, both := strings.Cut(rc.op, " ")
		if !both {
			method, path = op.method, rc.op
		}
		fits := strings.HasSuffix(op.path, path) || !both && strings.Contains(op.path, path)
		if method == op.method && fits && len(path) > size {
			best, size = rc, len(path)
			if both {
				size += 1000 // a recipe for this operation comes before one for many
			}
		}
	}
	return best
}

// queryValue returns a valid value of a parameter.
func queryValue(r *rand.Rand, p param, f fact, cursor string) string {
	switch p.Name {
	case "limit", "last":
		return fmt.Sprint(1 + r.IntN(20))
	case "cursor":
		return cursor
	case "at", "after", "before":
		return f["position"]
	case "types":
		return pick(r, "thread.*", "message.*,run.*", "kv.set")
	case "channel":
		return pick(r, "sync", "messages")
	case "order":
		return pick(r, "asc", "desc")
	case "since", "until":
		return "2026-01-01T00:00:00Z"
	case "ttl":
		return fmt.Sprint(1 + r.IntN(100))
	case "prefix", "assistant":
		return "a"
	case "watch":
		return f["space"]
	case "actor":
		return "user:42"
	}
	if p.Schema["type"] == "boolean" {
		return pick(r, "true", "false")
	}
	return ""
}

// patchBody returns a patch of a document that has a number n.
func patchBody(r *rand.Rand) (mediaType string, body any) {
	switch r.IntN(3) {
	case 0:
		return "application/merge-patch+json", object("n", r.IntN(9), "x", anything(r, 2))
	case 1:
		return "application/json-patch+json", []any{object("op", "add", "path", "/n", "value", r.IntN(9))}
	}
	return "application/json", object("ops", []any{object("op", "increment", "path", "/n", "by", 1)})
}

func sortedKeys[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

var position = regexp.MustCompile(`^[0-9a-f]{12}-[0-9]{16}$`) // never changed

// learnGeneral remembers what any answer may contain.
func learnGeneral(m *memory, op *operation, f fact, etag string, answer map[string]any) {
	if s, ok := answer["next_cursor"].(string); ok && s != "" {
		m.learn("cursor "+op.name, f.with("cursor", s))
	}
	for _, name := range []string{"position", "version"} {
		if s, ok := answer[name].(string); ok && position.MatchString(s) {
			m.learn("position "+f["space"], fact{"space": f["space"], "position": s})
		}
	}
	if etag != "" {
		m.learn("etag", f.with("etag", etag))
	}
}

func encode(v any) []byte {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // it was made as JSON
	}
	return data
}
