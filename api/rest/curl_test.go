package rest

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

func TestADescriptionSaysWhatAParameterMeansInEventStreams(t *testing.T) {
	for _, op := range operations() {
		if op.id != "listEvents" {
			continue
		}
		for name, want := range map[string]string{
			"channel": "; only for event streams", "limit": "; not for event streams", "types": "",
			"after": "; for event streams: resume after this position; empty: from the oldest event; absent: from now",
		} {
			if got := op.inStreams(op.parameters()[slices.IndexFunc(op.parameters(), func(p *param) bool { return p.Name == name })]); got != want {
				t.Errorf("%s: %q, want %q", name, got, want)
			}
		}
	}
}

// An example of /docs is a request that the operation accepts.
func TestEveryOperationHasAnExample(t *testing.T) {
	want := map[string]string{
		"createThread": `curl -H "Authorization: Bearer $THOLE_TOKEN" -X POST --json '{"title":"Shop"}' "http://127.0.0.1:8465/v1/spaces/project:shop/threads"`,
		"watchSpaces":  `curl -N -H 'Accept: text/event-stream' -H "Authorization: Bearer $THOLE_TOKEN" "http://127.0.0.1:8465/v1/events?watch=project:shop,user:42"`,
		"putValue":     `curl -H "Authorization: Bearer $THOLE_TOKEN" -X PUT --json '{"data":"dark"}' "http://127.0.0.1:8465/v1/spaces/project:shop/kv/settings/theme"`,
	}
	for _, op := range operations() {
		got := op.curl()
		if strings.ContainsAny(strings.ReplaceAll(got, "--json '", ""), "\n") || strings.Contains(got[strings.Index(got, "http://"):], "{") {
			t.Errorf("%s: %s", op.id, got)
		}
		if w := want[op.id]; w != "" && got != w {
			t.Errorf("%s:\n got %s\nwant %s", op.id, got, w)
		}
	}
}

func TestAShellReadsAQuotedTextAsItIs(t *testing.T) {
	for _, text := range []string{`{"title":"Ada's shop"}`, `'`, `''\'`, `$HOME "x" \n`, ""} {
		out, err := exec.CommandContext(t.Context(), "sh", "-euc", `printf %s `+quote(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("%s: got %q, %v", quote(text), out, err)
		}
	}
}
