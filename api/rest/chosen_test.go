package rest_test

import (
	"strings"
	"testing"

	"github.com/thole-dev/thole/api/auth"
)

func TestAnActorIsRefusedWhereTheTokenSaysWhoCalls(t *testing.T) {
	s := serveWithTokens(t, nil).as("user:a", auth.Grant{Space: "project:a", Access: auth.Write})
	p := s.refuse(400, "invalid", "GET", "/v1/spaces/project:a/threads", nil, "Thole-Actor", "user:b")
	if !strings.Contains(p.Detail, "without tokens") {
		t.Errorf("got %q, want that it is for servers without tokens", p.Detail)
	}
	s.want(200, nil, "GET", "/v1/spaces/project:a/threads", nil)
}

// Clients choose ids only for blocks that a run adds.
func TestABlockIDIsKeptOrRefused(t *testing.T) {
	s := serve(t, nil)
	path := "/v1/spaces/project:a/threads/" + s.createThread("project:a", nil)
	const id = "blk_0000000000000000000000000000000a"
	const blocks = `[{"id":"` + id + `","type":"text","content":"x"}]`
	s.refuse(400, "invalid", "POST", path+"/messages", `{"role":"user","blocks":`+blocks+`}`)
	s.refuse(400, "invalid", "POST", path+"/turns", `{"request":`+blocks+`}`)
	s.refuse(400, "invalid", "POST", path+"/runs", `{"blocks":`+blocks+`}`)
	var c claimed
	s.want(201, nil, "POST", path+"/runs", `{"prompt":"x"}`)
	s.want(200, &c, "POST", "/v1/runs/claim", `{"spaces":["project:a"]}`)
	var queued struct{ ID string }
	s.want(201, &queued, "POST", path+"/runs", `{"prompt":"y"}`)
	s.refuse(400, "invalid", "PATCH", path+"/queue/"+queued.ID, `{"blocks":`+blocks+`}`)
	at := path + "/turns/" + c.Turn + "/blocks"
	s.refuse(400, "invalid", "POST", at, `{"id":"`+id+`","type":"tool","tool":{"name":"Edit"}}`, "Thole-Fence", c.Token)
	var got struct{ ID string }
	s.want(201, &got, "POST", at, `{"id":"`+id+`","type":"text","content":"x"}`, "Thole-Fence", c.Token)
	if got.ID != id {
		t.Errorf("a run's block has id %s, want %s", got.ID, id)
	}
}
