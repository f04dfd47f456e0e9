package rest_test

import (
	"testing"

	"github.com/thole-dev/thole/api/auth"
)

// Only its owner and admins decide who sees a thread, even if others write in it.
func TestOnlyTheOwnerOrAnAdminSaysWhoSeesAThread(t *testing.T) {
	h := hide(t)
	const threads = "/v1/spaces/project:a/threads/"
	admin := h.as("user:3", auth.Grant{Space: "project:a", Access: auth.Admin})
	h.stranger.want(200, nil, "PATCH", threads+h.public, `{"title":"x"}`)
	h.stranger.refuse(403, "forbidden", "PATCH", threads+h.public, `{"visibility":"private"}`)
	h.stranger.refuse(403, "forbidden", "PATCH", threads+h.public, `{"visibility":"space"}`)
	h.stranger.refuse(404, "not_found", "PATCH", threads+h.private, `{"visibility":"space"}`)
	h.owner.want(200, nil, "PATCH", threads+h.public, `{"visibility":"private"}`)
	admin.want(200, nil, "PATCH", threads+h.public, `{"visibility":"space"}`)
	h.stranger.want(200, nil, "GET", threads+h.public, nil)
}

// People take RUN.finished for run.finished, and app.expired says that something
// expired.
func TestNoEventThatLooksLikeTholesOwnCanBeForged(t *testing.T) {
	h := hide(t)
	types := []string{"RUN.finished", "Thread.created", " run.finished", "run .finished", "APP.Expired"}
	for _, e := range h.store.Concepts().EventTypes() {
		types = append(types, e.Type)
	}
	for _, noun := range []string{"agent", "credits", "memory", "task"} { // of concepts that are planned
		types = append(types, noun+".x")
	}
	for _, typ := range types {
		h.stranger.refuse(403, "forbidden", "POST", "/v1/spaces/project:a/events", map[string]string{"type": typ})
	}
	h.stranger.want(201, nil, "POST", "/v1/spaces/project:a/events", `{"type":"app.note"}`)
}
