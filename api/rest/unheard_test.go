package rest_test

import (
	"strings"
	"testing"
)

// A thread becomes private while strangers watch it, each with filters that exclude the
// change itself.
func TestAWatchDoesNotHearAThreadThatBecamePrivateWhateverItsFilter(t *testing.T) {
	h := hide(t)
	const space = "/v1/spaces/project:a"
	watches := make(map[string]*watcher)
	for _, path := range []string{
		"/v1/events?watch=project:a&types=message.*,document.*,app.*,lock.*", "/v1/events?watch=project:a&channel=sync",
		space + "/events?types=message.*,document.*,app.*,lock.*", space + "/events?channel=sync", space + "/events",
		space + "/events?stream=app/thread/" + h.public + "/notes,app/events", space + "/events?stream=app/events,lock/l,lock/m,lock/n",
		space + "/events?stream=thread/" + h.public + ",app/events&types=message.*,app.*",
	} {
		watches[path] = h.stranger.watch(path)
	}
	tell := func(mark string) {
		h.owner.want(201, nil, "POST", space+"/threads/"+h.public+"/messages", `{"role":"user","blocks":[{"type":"text","content":"`+mark+`"}]}`)
		h.owner.want(200, nil, "PUT", space+"/threads/"+h.public+"/state", `{"value":"`+mark+`"}`)
		h.owner.want(201, nil, "POST", space+"/events", `{"type":"app.note","data":"`+mark+`","stream":"app/thread/`+h.public+`/notes"}`)
	}
	lock := func(name, run string) {
		h.owner.want(201, nil, "POST", space+"/locks", `{"name":"`+name+`","owner":"`+run+`/blk_1"}`)
	}
	until := func(path, mark string) string {
		t.Helper()
		var all strings.Builder
		for w := watches[path]; !strings.Contains(all.String(), mark); {
			all.WriteString(w.mustNext().raw)
		}
		return all.String()
	}
	var made struct{ ID string }
	h.owner.want(201, &made, "POST", space+"/threads/"+h.public+"/runs", `{"prompt":"x","agent":"nobody"}`)
	run := made.ID
	tell("said")
	lock("l", run)
	for path := range watches {
		mark := "said"
		if strings.Contains(path, "lock/l") {
			mark = run
		}
		until(path, mark)
	}
	h.owner.want(200, nil, "PATCH", space+"/threads/"+h.public, `{"visibility":"private"}`)
	tell("our secret")
	lock("m", run)
	h.owner.want(201, nil, "POST", space+"/events", `{"type":"app.note","data":"the end"}`)
	for path := range watches {
		if got := until(path, "the end"); strings.Contains(got, "our secret") || strings.Contains(got, `"m","owner":"`+run) {
			t.Errorf("%s received private events:\n%s", path, got)
		} else if strings.Contains(path, "types=") && strings.Contains(got, "thread.updated") {
			t.Errorf("%s received types that it did not ask for:\n%s", path, got)
		}
	}
}
