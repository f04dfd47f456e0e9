package rest_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/journal"
)

// request is a row of the authority table: an operation on an object. In path, body and
// headers, <name> stands for what the world has under that name.
type request struct {
	op      string // in the route table
	object  string // what it is about; "": the space
	path    string
	body    string
	headers []string
	stream  bool                // asks for text/event-stream
	like    string              // the object of the row that callers without access must not be able to tell from this one
	message func(*world) []byte // instead of body, for operations of the backend protocol
	before  func(*world)        // prepares the world for the request
}

func (r *request) method() string { return r.op[:strings.Index(r.op, " ")] }

// row returns the name of the request's row.
func (r *request) row() string {
	name := r.op
	if r.stream {
		name += " (SSE)"
	}
	if r.object != "" {
		name += " · " + r.object
	}
	return name
}

// requests returns valid requests for every operation, on every kind of object that it
// may be about.
func requests() []request {
	var all []request
	for _, part := range [][]request{threadRequests(), spaceRequests(), commitRequests(), backendRequests(), operatorRequests()} {
		all = append(all, part...)
	}
	return all
}

// threadRequests returns the requests with a thread in the path, each for an open
// thread, a private one and one that does not exist; for the last two also with the
// fence of a run elsewhere, which proves nothing here.
func threadRequests() []request {
	const quiet, busy = "", "-busy"
	names := regexp.MustCompile(`[{<](\w+)[}>]`) // {todo} in a path, <turn> in a body
	var all []request
	for _, r := range []struct {
		op, kind, body string
		stream, fenced bool
	}{
		{op: "GET /v1/spaces/{space}/threads/{thread}"},
		{op: "PATCH /v1/spaces/{space}/threads/{thread}", body: `{"title":"x"}`},
		{op: "DELETE /v1/spaces/{space}/threads/{thread}"},
		{op: "GET /v1/spaces/{space}/threads/{thread}/messages"},
		{op: "POST /v1/spaces/{space}/threads/{thread}/messages", body: `{"role":"user","blocks":[{"type":"text","content":"x"}]}`},
		{op: "GET /v1/spaces/{space}/threads/{thread}/turns"},
		{op: "POST /v1/spaces/{space}/threads/{thread}/turns", body: `{"request":[{"type":"text","content":"x"}]}`},
		{op: "POST /v1/spaces/{space}/threads/{thread}/compact", body: `{"upto":"<turn>","summary":"x"}`},
		{op: "GET /v1/spaces/{space}/threads/{thread}/events"},
		{op: "GET /v1/spaces/{space}/threads/{thread}/events", stream: true},
		{op: "GET /v1/spaces/{space}/threads/{thread}/state"},
		{op: "PUT /v1/spaces/{space}/threads/{thread}/state", body: `{"value":{"n":2}}`},
		{op: "PATCH /v1/spaces/{space}/threads/{thread}/state", body: `{"n":3}`},
		{op: "GET /v1/spaces/{space}/threads/{thread}/todos"},
		{op: "POST /v1/spaces/{space}/threads/{thread}/todos", body: `{"content":"x"}`},
		{op: "PUT /v1/spaces/{space}/threads/{thread}/todos", body: `{"items":[]}`},
		{op: "PATCH /v1/spaces/{space}/threads/{thread}/todos/{todo}", body: `{"status":"completed"}`},
		{op: "DELETE /v1/spaces/{space}/threads/{thread}/todos/{todo}"},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs", body: `{"prompt":"x"}`},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs", body: `{"prompt":"x"}`, stream: true},
		{op: "GET /v1/spaces/{space}/threads/{thread}/runs", kind: busy},
		{op: "GET /v1/spaces/{space}/threads/{thread}/runs/{run}", kind: busy},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs/{run}/cancel", kind: busy},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs/{run}/signals", kind: busy, body: `{"name":"other"}`},
		{op: "GET /v1/spaces/{space}/threads/{thread}/queue", kind: busy},
		{op: "PATCH /v1/spaces/{space}/threads/{thread}/queue/{queued}", kind: busy, body: `{"prompt":"y"}`},
		{op: "DELETE /v1/spaces/{space}/threads/{thread}/queue/{queued}", kind: busy},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs/{run}/heartbeat", kind: busy, fenced: true},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs/{run}/wait", kind: busy, fenced: true, body: `{"name":"go","wait_seconds":1}`},
		{op: "POST /v1/spaces/{space}/threads/{thread}/runs/{run}/finish", kind: busy, fenced: true, body: `{"status":"succeeded"}`},
		{op: "POST /v1/spaces/{space}/threads/{thread}/turns/{turn}/blocks", kind: busy, fenced: true, body: `{"type":"text","content":"x"}`},
		{op: "PATCH /v1/spaces/{space}/threads/{thread}/turns/{turn}/blocks/{block}", kind: busy, fenced: true, body: `{"status":"done","result":1}`},
	} {
		for _, object := range []string{"open", "private", "absent"} {
			kind := object + r.kind
			at := func(s string) string {
				return names.ReplaceAllString(strings.ReplaceAll(s, "{space}", tableSpace), "<"+kind+".$1>")
			}
			one := request{op: strings.ReplaceAll(r.op, "{queued}", "{run}"), object: object, body: at(r.body), stream: r.stream}
			one.path = at(r.op[strings.Index(r.op, " ")+1:])
			if object == "private" {
				one.like = "absent"
			}
			if r.fenced && object != "absent" {
				held := one
				held.object, held.like = object+", its fence", ""
				held.headers = []string{"Thole-Fence", "<" + kind + ".fence>"}
				all = append(all, held)
			}
			if !r.fenced {
				all = append(all, one)
			}
			if !r.fenced && object == "private" { // what the worker of a run in the thread may do
				held, quiet := one, kind
				kind = "private-busy"
				held.object, held.like = "private, its fence", ""
				held.path, held.body = at(r.op[strings.Index(r.op, " ")+1:]), at(r.body)
				held.headers = []string{"Thole-Fence", "<" + kind + ".fence>"}
				all = append(all, held)
				kind = quiet
			}
			if object != "open" || r.fenced {
				one.headers = []string{"Thole-Fence", "<elsefence>"}
				one.object += ", fence of another run"
				if one.like != "" {
					one.like += ", fence of another run"
				}
				all = append(all, one)
			}
		}
	}
	return all
}

// spaceRequests returns the requests without a thread in the path.
func spaceRequests() []request {
	const here = "/v1/spaces/" + tableSpace
	simple := func(op, body string, headers ...string) request {
		path := strings.NewReplacer("{space}", tableSpace, "{namespace}", "n", "{key...}", "k", "{name...}", "d", "{path...}", "a.txt", "{sha256}", "<hash>").
			Replace(op[strings.Index(op, " ")+1:])
		return request{op: op, path: path, body: body, headers: headers}
	}
	lock := func(op, body string, headers ...string) request {
		r := simple(op, body, headers...)
		r.path = here + "/locks/l"
		return r
	}
	all := []request{
		{op: "GET /v1/spaces", path: "/v1/spaces"},
		{op: "DELETE /v1/spaces/{space}", path: here},
		{op: "DELETE /v1/spaces/{space}", object: "global", path: "/v1/spaces/global"},
		{op: "POST /v1/spaces/{space}/threads", path: here + "/threads", body: `{}`},
		{op: "GET /v1/spaces/{space}/threads", path: here + "/threads"},
		simple("GET /v1/spaces/{space}/kv/{namespace}", ""),
		simple("GET /v1/spaces/{space}/kv/{namespace}/{key...}", ""),
		simple("PUT /v1/spaces/{space}/kv/{namespace}/{key...}", `{"data":1}`),
		{op: "PUT /v1/spaces/{space}/kv/{namespace}/{key...}", object: "global", path: "/v1/spaces/global/kv/n/k", body: `{"data":1}`},
		simple("DELETE /v1/spaces/{space}/kv/{namespace}/{key...}", ""),
		simple("GET /v1/spaces/{space}/documents", ""),
		simple("GET /v1/spaces/{space}/documents/{name...}", ""),
		simple("PUT /v1/spaces/{space}/documents/{name...}", `{"value":1}`),
		simple("PATCH /v1/spaces/{space}/documents/{name...}", `{"n":2}`),
		simple("DELETE /v1/spaces/{space}/documents/{name...}", ""),
		simple("POST /v1/spaces/{space}/locks", `{"name":"m"}`),
		simple("GET /v1/spaces/{space}/locks", ""),
		lock("GET /v1/spaces/{space}/locks/{name...}", ""),
		lock("PUT /v1/spaces/{space}/locks/{name...}", "", "Thole-Fence", "<lock>"),
		lock("DELETE /v1/spaces/{space}/locks/{name...}", "", "Thole-Fence", "<lock>"),
		simple("GET /v1/spaces/{space}/files", ""),
		simple("GET /v1/spaces/{space}/files/{path...}", ""),
		simple("POST /v1/spaces/{space}/files/{path...}", `{"before_hash":"<hash>","after_hash":""}`),
		simple("PUT /v1/spaces/{space}/files/{path...}", `{"hash":""}`),
		simple("GET /v1/spaces/{space}/file-history/{path...}", ""),
		simple("POST /v1/spaces/{space}/file-conflicts/{path...}", `{"base_hash":"<hash>","ours_hash":"<hash>","theirs_hash":"<hash>"}`),
		simple("PUT /v1/spaces/{space}/blobs/{sha256}", "<blob>"),
		simple("GET /v1/spaces/{space}/blobs/{sha256}", ""),
		simple("GET /v1/spaces/{space}/events", ""),
		{op: "GET /v1/spaces/{space}/events", path: here + "/events?after=", stream: true},
		{op: "GET /v1/spaces/{space}/events", object: "global", path: "/v1/spaces/global/events"},
		{op: "GET /v1/spaces/{space}/events", object: "global", path: "/v1/spaces/global/events?after=", stream: true},
		{op: "GET /v1/events", path: "/v1/events?watch=" + tableSpace + "&after=", stream: true},
		{op: "GET /v1/events", object: "project:a and project:b", path: "/v1/events?after=&watch=project:b," + tableSpace, stream: true},
		{op: "GET /v1/events", object: "global", path: "/v1/events?after=&watch=global", stream: true},
		{op: "GET /v1/events", object: "as a page", path: "/v1/events?watch=" + tableSpace},
		simple("GET /v1/spaces/{space}/decisions", ""),
		simple("GET /v1/spaces/{space}/decisions/index", ""),
		simple("POST /v1/spaces/{space}/decisions", `{"action":"x"}`),
	}
	for _, object := range []string{"open", "private", "absent"} {
		add := func(r request) {
			r.object = object + r.object
			if object == "private" {
				r.like = "absent" + strings.TrimPrefix(r.object, "private")
			}
			all = append(all, r)
		}
		add(request{op: "GET /v1/spaces/{space}/events", object: "'s stream", path: here + "/events?stream=thread/<" + object + ">"})
		add(request{op: "GET /v1/spaces/{space}/events", object: "'s stream", path: here + "/events?after=&stream=thread/<" + object + ">", stream: true})
		add(request{op: "GET /v1/spaces/{space}/events", object: "'s app stream", path: here + "/events?stream=app/thread/<" + object + ">/notes"})
		add(request{op: "GET /v1/spaces/{space}/decisions", object: "'s thread", path: here + "/decisions?thread=<" + object + ">"})
		add(request{op: "GET /v1/spaces/{space}/decisions", object: "'s run", path: here + "/decisions?run=<" + object + "-busy.run>"})
		add(request{op: "POST /v1/spaces/{space}/decisions", object: "'s thread", path: here + "/decisions", body: `{"action":"x","thread":"<` + object + `>"}`})
		add(request{op: "POST /v1/spaces/{space}/decisions", object: "'s run", path: here + "/decisions", body: `{"action":"x","run":"<` + object + `-busy.run>"}`})
		for _, d := range [][2]string{{"'s thread", object + ".decision"}, {"'s run", object + "-busy.run-decision"}} {
			of, name := d[0], d[1]
			add(request{op: "GET /v1/spaces/{space}/decisions/{decision}", object: of, path: here + "/decisions/<" + name + ">"})
			add(request{op: "POST /v1/spaces/{space}/decisions/{decision}/outcome", object: of, path: here + "/decisions/<" + name + ">/outcome", body: `{"outcome":"done"}`})
		}
		add(request{op: "POST /v1/spaces/{space}/threads", object: " as parent", path: here + "/threads", body: `{"parent":"<` + object + `-busy>"}`})
		below := request{op: "POST /v1/spaces/{space}/threads/{thread}/runs", object: "'s run as parent, below it", path: here + "/threads/<" + object + "-busy.child>/runs", body: `{"prompt":"x","parent":"<` + object + `-busy.run>"}`}
		add(below)
		if object != "absent" {
			fence := []string{"Thole-Fence", "<" + object + "-busy.fence>"}
			all = append(all, request{op: "POST /v1/spaces/{space}/threads", object: object + " as parent, its fence", path: here + "/threads", body: `{"parent":"<` + object + `-busy>"}`, headers: fence})
			below.object, below.headers = object+below.object+", its fence", fence
			all = append(all, below)
		}
		add(request{op: "POST /v1/spaces/{space}/threads/{thread}/runs", object: "'s run as parent", path: here + "/threads/<open>/runs", body: `{"prompt":"x","parent":"<` + object + `-busy.run>"}`})
		add(request{op: "POST /v1/spaces/{space}/threads/{thread}/runs", object: "'s run as resumed_from", path: here + "/threads/<open>/runs", body: `{"prompt":"x","resumed_from":"<` + object + `-busy.run>"}`})
	}
	all = append(all,
		request{op: "GET /v1/spaces/{space}/decisions/{decision}", object: "of the space", path: here + "/decisions/<space.decision>"},
		request{op: "POST /v1/spaces/{space}/decisions/{decision}/outcome", object: "of the space", path: here + "/decisions/<space.decision>/outcome", body: `{"outcome":"done"}`},
		request{op: "POST /v1/runs/claim", object: "open", path: "/v1/runs/claim", body: `{"spaces":["project:a"],"agent":"open-agent"}`},
		request{op: "POST /v1/runs/claim", object: "private", path: "/v1/runs/claim", body: `{"spaces":["project:a"],"agent":"private-agent"}`, like: "absent"},
		request{op: "POST /v1/runs/claim", object: "absent", path: "/v1/runs/claim", body: `{"spaces":["project:a"],"agent":"no-agent"}`},
	)
	return all
}

// commitRequests returns what events and raw commits may write.
func commitRequests() []request {
	const here = "/v1/spaces/" + tableSpace
	event := func(object, body string) request {
		return request{op: "POST /v1/spaces/{space}/events", object: object, path: here + "/events", body: body}
	}
	all := []request{
		event("app/events", `{"type":"x.y"}`),
		event("an event of Thole's own in app/events", `{"type":"run.finished"}`),
		event("stream decision", `{"type":"x.y","stream":"decision"}`),
		event("stream thread/<open>", `{"type":"x.y","stream":"thread/<open>"}`),
		event("stream thread/<private>", `{"type":"x.y","stream":"thread/<private>"}`),
		event("stream app/thread/<open>", `{"type":"x.y","stream":"app/thread/<open>/notes"}`),
		event("stream app/thread/<private>", `{"type":"x.y","stream":"app/thread/<private>/notes"}`),
		event("stream app/thread/<absent>", `{"type":"x.y","stream":"app/thread/<absent>/notes"}`),
	}
	for i := range all {
		if all[i].object == "stream app/thread/<private>" {
			all[i].like = "stream app/thread/<absent>"
		}
	}
	write := func(space, key string) request {
		return request{
			op: "POST /v1/spaces/{space}/commits", object: "write " + key, path: "/v1/spaces/" + space + "/commits",
			body: `{"writes":[{"key":"` + key + `","value":{}}]}`,
		}
	}
	for _, key := range append([]string{"app/k", "kv/n/k", "doc/d", "thread/<open>", "run/<open-busy.run>", "decision/<space.decision>", "app/thread/<open>/k"}, kernelKeys()...) {
		all = append(all, write(tableSpace, key))
	}
	private := write(tableSpace, "app/thread/<private>/k")
	private.like = "write app/thread/<absent>/k"
	all = append(all, private, write(tableSpace, "app/thread/<absent>/k"))
	for _, key := range []string{"app/k", "token/tok_00000000000000000000000000000000"} {
		r := write("global", key)
		r.object += " in global"
		all = append(all, r)
	}
	for _, key := range []string{"app/k", "thread/<open>", "token/tok_0", "outbox/o"} {
		all = append(all, request{
			op: "POST /v1/spaces/{space}/commits", object: "check " + key, path: here + "/commits",
			body: `{"checks":[{"key":"` + key + `"}],"events":[{"type":"x.y"}]}`,
		})
	}
	for _, stream := range []string{"outbox", "token"} {
		all = append(all, request{
			op: "POST /v1/spaces/{space}/commits", object: "event in " + stream, path: here + "/commits",
			body: `{"events":[{"type":"` + stream + `.x","stream":"` + stream + `"}]}`,
		})
	}
	return all
}

// kernelKeys returns keys of records that only the kernel's own code writes.
func kernelKeys() []string {
	return []string{"outbox/out_00000000000000000000000000000000", "sent/s", "idem/i", "snap/s", "token/tok_00000000000000000000000000000000",
		"lock/l/owner", "lock/l/beat", "run/<open-busy.run>/owner", "run/<open-busy.run>/beat"}
}

// backendRequests returns what a client sends that uses this server as its backend.
func backendRequests() []request {
	post := func(op, object string, make func(*world) remote.Request) request {
		path := remote.Root + "/" + op
		return request{
			op: "POST " + path, object: object, path: path,
			headers: []string{remote.HeaderInstance, "<instance>", remote.HeaderChange, "client 1 0"},
			message: func(w *world) []byte {
				req := make(w)
				data, err := req.Encode()
				if err != nil {
					w.t.Fatal(err)
				}
				return data
			},
		}
	}
	commit := func(space, key string) request {
		object := "write " + key
		if space == "global" {
			object += " in global"
		}
		return post("commit", object, func(w *world) remote.Request {
			return remote.Request{Batch: []thole.Commit{{Space: space, Now: time.Now(), Writes: []thole.Write{{Key: w.resolve(key), Value: json.RawMessage(`{}`)}}}}}
		})
	}
	load := func(key string) request {
		r := post("load", "record "+key, func(*world) remote.Request { return imported(key) })
		r.before = func(w *world) { w.make("DELETE", "/v1/spaces/"+tableSpace, "") }
		return r
	}
	all := []request{{op: "GET " + remote.Root, path: remote.Root}}
	for _, key := range append([]string{"app/k", "thread/<open>"}, kernelKeys()...) {
		all = append(all, commit(tableSpace, key))
	}
	all = append(all, commit("global", "token/tok_00000000000000000000000000000000"),
		post("commit", "event in outbox", func(*world) remote.Request {
			return remote.Request{Batch: []thole.Commit{{Space: tableSpace, Now: time.Now(), Events: []thole.Event{{Stream: "outbox", Type: "outbox.x"}}}}}
		}),
		load("app/k"), load("outbox/o"), load("token/t"), load("idem/i"), load("lock/l/owner"),
		post("purge", "", func(*world) remote.Request { return remote.Request{Space: tableSpace, Purge: thole.Purge{All: true}} }),
		post("purge", "global", func(*world) remote.Request { return remote.Request{Space: "global", Purge: thole.Purge{All: true}} }),
		post("get", "", func(w *world) remote.Request {
			return remote.Request{Space: tableSpace, Names: []string{"kv/n/k", "thread/" + w.ids["private"]}}
		}),
		post("list", "", func(*world) remote.Request {
			return remote.Request{Space: tableSpace, List: thole.ListQuery{Prefix: "thread/"}}
		}),
		post("list", "token/ in global", func(*world) remote.Request {
			return remote.Request{Space: "global", List: thole.ListQuery{Prefix: "token/"}}
		}),
		post("read", "", func(*world) remote.Request { return remote.Request{Space: tableSpace} }),
		post("read", "global", func(*world) remote.Request { return remote.Request{Space: "global"} }),
		post("heads", "", func(*world) remote.Request { return remote.Request{Names: []string{tableSpace}} }),
		post("spaces", "", func(*world) remote.Request { return remote.Request{} }),
		post("broadcasts", "", func(*world) remote.Request {
			return remote.Request{Broadcasts: []journal.Broadcast{{Space: tableSpace, Event: thole.Event{Stream: "app/x", Type: "x.y"}}}}
		}),
		request{op: "GET " + remote.Root + "/watch", path: remote.Root + "/watch", stream: true},
		request{op: "GET " + remote.Root + "/broadcasts", path: remote.Root + "/broadcasts", stream: true},
	)
	return all
}

// imported returns an import of the table's space with one record.
func imported(key string) remote.Request {
	at := thole.Position{Epoch: "0001aaaaaaaa", Seq: 1}
	return remote.Request{Space: tableSpace, Chunk: journal.Chunk{
		Head:    thole.Head{Space: tableSpace, Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 1, Last: 1}}},
		Records: []thole.Record{{Key: key, Value: json.RawMessage(`{}`), Version: at}},
		Done:    true,
	}}
}

// operatorRequests returns requests outside of /v1.
func operatorRequests() []request {
	var all []request
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/openapi.json", "/docs"} {
		all = append(all, request{op: "GET " + path, path: path})
	}
	return append(all, request{op: "GET /docs/{file}", path: "/docs/docs.js"}, request{op: "GET /{$}", path: "/"})
}
