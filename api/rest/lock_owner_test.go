package rest_test

import (
	"testing"

	"github.com/thole-dev/thole/api/auth"
)

func TestNobodyTakesALockByTheNameOfItsOwner(t *testing.T) {
	s := serveWithTokens(t, nil)
	const locks = "/v1/spaces/project:a/locks"
	grant := auth.Grant{Space: "project:a", Access: auth.Write}
	vic, eve := s.as("user:vic", grant), s.as("user:eve", grant)
	for _, mode := range []string{"exclusive", "intent"} {
		body := `{"name":"deploy","owner":"laptop","again":true,"mode":"` + mode + `"}`
		var l, again struct{ Token string }
		vic.want(201, &l, "POST", locks, body)
		eve.refuse(409, "conflict", "POST", locks, body)
		vic.want(204, nil, "PUT", locks+"/deploy", nil, "Thole-Fence", l.Token)
		vic.want(201, &again, "POST", locks, body)
		vic.refuse(409, "fenced", "PUT", locks+"/deploy", "", "Thole-Fence", l.Token)
		eve.want(201, &l, "POST", locks, body, "Thole-Fence", again.Token)
		eve.want(204, nil, "DELETE", locks+"/deploy", nil, "Thole-Fence", l.Token)
	}
}
