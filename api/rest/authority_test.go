package rest_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/thole-dev/thole/internal/effort"
)

var update = flag.Bool("update", false, "write the golden files anew")

// cell is the answer that a holder got.
type cell struct {
	text    string
	status  int
	told    string // the answer, without what differs from request to request
	changed bool   // the request changed the store
}

// The table testdata/authority.txt says for every operation, on every kind of object,
// what every kind of token gets. Read it line by line when it changes. Rules that must
// hold for every line are checked separately.
func TestEveryTokenMayDoWhatTheTableOfAuthoritySays(t *testing.T) {
	effort.SlowUnderRace(t)
	all := requests()
	mustCoverEveryOperation(t, all)
	table := make(map[string]map[string]cell)
	var w *world
	defer func() { w.close() }()
	for i := range all {
		r := &all[i]
		if table[r.row()] != nil {
			t.Fatalf("two requests are %s", r.row())
		}
		table[r.row()] = make(map[string]cell)
		for _, h := range holders() {
			if w == nil {
				w = newWorld(t)
			}
			if r.before != nil {
				r.before(w)
			}
			got, changed := w.ask(r, h.name)
			c := cellOf(w, r, got)
			c.changed = changed
			table[r.row()][h.name] = c
			if c.changed || w.touched || r.before != nil || strings.HasPrefix(r.op, "POST") && got.status < 300 { // some changes leave no trace in a journal
				w.close()
				w = nil
			}
		}
	}
	if w == nil {
		w = newWorld(t)
	}
	mustHoldEverywhere(t, all, table)
	compareTable(t, render(all, table))
}

func mustCoverEveryOperation(t *testing.T, all []request) {
	t.Helper()
	w := newWorld(t)
	defer w.close()
	asked := make(map[string]bool)
	for i := range all {
		r := &all[i]
		asked[r.op] = asked[r.op] || !r.stream
		if r.stream {
			asked[r.op+" (SSE)"] = true
		}
	}
	for _, op := range w.api.Operations() {
		if !asked[op] && !strings.HasPrefix(op, "GET /v1/backend/") {
			t.Errorf("no request of the table is %s", op)
		}
		delete(asked, op)
	}
	for op := range asked {
		if asked[op] && !strings.HasPrefix(op, "GET /v1/backend/") {
			t.Errorf("%s is no operation", op)
		}
	}
}

// cellOf describes an answer: its status, the code of a problem if the status is not
// enough, and + what the answer discloses: p content of a private thread, o something
// in the space outside of open threads, k tokens in the kernel's records.
func cellOf(w *world, r *request, got reply) cell {
	c := cell{status: got.status, text: fmt.Sprint(got.status)}
	var p struct {
		Code, Field string
	}
	if got.status >= 400 && json.Unmarshal(got.body, &p) == nil && !slices.Contains([]int{401, 403, 404}, got.status) {
		c.text += "/" + p.Code
	}
	shows := ""
	for _, m := range []struct{ mark, text string }{{"p", markPrivate}, {"o", markOther}, {"k", markKernel}} {
		if bytes.Contains(got.body, []byte(m.text)) || m.mark == "p" && namesPrivate(w, r, got.body) {
			shows += m.mark
		}
	}
	if shows != "" {
		c.text += "+" + shows
	}
	if c.told = told(w, got); r.stream && got.status < 300 {
		c.told = "an event stream that shows " + shows // when things happen differs
	}
	return c
}

// namesPrivate reports whether an answer contains an id of a private thread that the
// request did not contain.
func namesPrivate(w *world, r *request, body []byte) bool {
	request := w.resolve(r.path + r.body)
	for name, id := range w.ids {
		if strings.HasPrefix(name, "private") && len(id) > 20 && bytes.Contains(body, []byte(id)) && !strings.Contains(request, id) {
			return true
		}
	}
	return false
}

// told returns an answer without the ids and times that differ from request to request.
func told(w *world, got reply) string {
	body := string(got.body)
	for _, name := range slices.Sorted(maps.Keys(w.ids)) {
		kind, _, _ := strings.Cut(name, ".")
		kind = strings.TrimSuffix(kind, "-busy")
		if id := w.ids[name]; len(id) > 20 && (kind == "private" || kind == "absent") {
			what, _, _ := strings.Cut(id, "_")
			body = strings.ReplaceAll(body, id, "<"+what+">")
		}
	}
	h := got.header.Clone()
	if id := h.Get("X-Request-Id"); id != "" {
		body = strings.ReplaceAll(body, id, "<request>")
	}
	for _, name := range []string{"X-Request-Id", "Date", "Content-Length"} {
		h.Del(name)
	}
	var header bytes.Buffer
	h.Write(&header)
	return fmt.Sprintf("%d\n%s\n%s", got.status, header.String(), body)
}

// mustHoldEverywhere checks rules that hold whatever the golden file says.
func mustHoldEverywhere(t *testing.T, all []request, table map[string]map[string]cell) {
	t.Helper()
	for i := range all {
		r := &all[i]
		public := slices.Contains([]string{"/healthz", "/readyz", "/openapi.json", "/docs", "/docs/docs.js", "/"}, r.path)
		for _, h := range holders() {
			c := table[r.row()][h.name]
			at := r.row() + " as " + h.name
			switch {
			case h.name == "none" && !public && c.status != http.StatusUnauthorized:
				t.Errorf("%s: %s without a token", at, c.text)
			case strings.Contains(h.name, "read") && (c.changed || r.method() != "GET" && c.status < 300 && !asks(r)):
				t.Errorf("%s: %s, a change with a grant to read", at, c.text)
			case c.changed && (r.method() == "GET" || c.status >= 300):
				t.Errorf("%s: %s, and the store was changed", at, c.text)
			case h.name == "b.admin" && strings.Contains(r.path, tableSpace) && c.status < 300:
				t.Errorf("%s: %s in a space without a grant", at, c.text)
			case c.status >= 500 && c.status != http.StatusNotImplemented:
				t.Errorf("%s: %s", at, c.text)
			}
			owner, admin := strings.HasPrefix(h.name, "o."), strings.HasSuffix(h.name, "admin")
			worker := (h.name == "work" || h.name == "write+p") && (r.path == "/v1/runs/claim" || strings.HasSuffix(r.object, "its fence"))
			stranger := !owner && !admin && !worker
			if stranger && r.like != "" && !strings.HasPrefix(h.name, "p.") && c.told != table[likeRow(r)][h.name].told {
				t.Errorf("%s: the answer about %s differs from that about what does not exist:\n%s\nand\n%s", at, c.text, c.told, table[likeRow(r)][h.name].told)
			}
			if stranger && shows(c, "p") {
				t.Errorf("%s: %s shows a private thread:\n%s", at, c.text, c.told)
			}
			if narrowed := strings.HasPrefix(h.name, "t.") || strings.HasPrefix(h.name, "p."); narrowed && shows(c, "o") {
				t.Errorf("%s: %s shows more than the threads of the token:\n%s", at, c.text, c.told)
			}
		}
	}
}

// likeRow returns the row of the object that must not be told from r's.
func likeRow(r *request) string {
	return strings.Replace(r.row(), " · "+r.object, " · "+r.like, 1)
}

func shows(c cell, mark string) bool {
	_, shown, _ := strings.Cut(c.text, "+")
	return strings.Contains(shown, mark)
}

// asks reports whether a request changes nothing although it is a POST.
func asks(r *request) bool {
	return strings.HasPrefix(r.op, "POST /v1/backend/") && !strings.HasSuffix(r.op, "commit") && !strings.HasSuffix(r.op, "load") && !strings.HasSuffix(r.op, "purge")
}

// render writes the table. A cell of a private object ends in = if the answer is
// the one about an object that does not exist.
func render(all []request, table map[string]map[string]cell) string {
	var b strings.Builder
	b.WriteString(legend)
	for _, h := range holders() {
		fmt.Fprintf(&b, "#   %-8s %s\n", h.name, h.about)
	}
	line := func(cells []string, row string) {
		for _, c := range cells {
			fmt.Fprintf(&b, "%-13s", c)
		}
		fmt.Fprintf(&b, "%s\n", row)
	}
	var names []string
	for _, h := range holders() {
		names = append(names, h.name)
	}
	b.WriteString("\n")
	line(names, "")
	for i := range all {
		r := &all[i]
		var cells []string
		for _, name := range names {
			c := table[r.row()][name]
			if r.like != "" {
				if table[likeRow(r)][name].told == c.told {
					c.text += "="
				}
			}
			cells = append(cells, c.text)
		}
		line(cells, r.row())
	}
	return b.String()
}

const legend = `# Who may do what: for every operation and kind of object, what each kind of
# token gets. A cell is the status and, if the status alone does not say it, the
# code of the problem; +p: the answer shows content or ids of a private thread that
# is not named in the request, +o: content of the space outside the open threads,
# +k: ids of tokens; =: the answer is, but for the ids that were asked for, the
# one about an object that does not exist.
#
# Made by: go test ./api/rest -run TableOfAuthority -update
#
`

// compareTable compares the table row by row, by the names of the rows.
func compareTable(t *testing.T, got string) {
	t.Helper()
	path := filepath.Join("testdata", "authority.txt")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range differences(string(want), got) {
		t.Errorf("%s: %s", path, d)
	}
}

// differences returns what differs between two tables. A row that only one of them has
// is one difference.
func differences(want, got string) (all []string) {
	rows := func(table string) map[string]string {
		byName := make(map[string]string)
		for line := range strings.Lines(table) {
			byName[rowName(line)] = line
		}
		return byName
	}
	had, now := rows(want), rows(got)
	for line := range strings.Lines(got) {
		switch was, ok := had[rowName(line)]; {
		case !ok:
			all = append(all, "a new row\n got "+line)
		case was != line:
			all = append(all, "\n got "+line+"want "+was)
		}
	}
	for line := range strings.Lines(want) {
		if now[rowName(line)] == "" {
			all = append(all, "a row is missing\nwant "+line)
		}
	}
	if len(all) == 0 && want != got {
		all = append(all, "the rows are in another order")
	}
	return all
}

// rowName returns the name at the end of a row, which begins with a method; other lines
// are their own names. No cell contains a capital letter.
func rowName(line string) string {
	if i := strings.IndexFunc(line, unicode.IsUpper); i > 0 && !strings.HasPrefix(line, "#") {
		return line[i:]
	}
	return line
}

func TestARowOfTheTableOfAuthorityIsComparedWithItsNamesake(t *testing.T) {
	const head, one, two, three = "# A\n\nnone read\n", "401  200  GET /a\n", "401  200  GET /b\n", "401  403  GET /c · x\n"
	for _, test := range []struct {
		want, got string
		n         int
	}{
		{head + one + two + three, head + one + two + three, 0},
		{head + one + three, head + one + two + three, 1}, // one new row, and none of the others
		{head + one + two + three, head + two + three, 1},
		{head + one + three, head + one + strings.Replace(three, "403", "200", 1), 1},
		{head + one + two, head + two + one, 1},
		{head + one, strings.Replace(head, "read", "write", 1) + one, 2},
	} {
		if all := differences(test.want, test.got); len(all) != test.n {
			t.Errorf("from\n%sto\n%sdiffers in %q, want %d", test.want, test.got, all, test.n)
		}
	}
}
