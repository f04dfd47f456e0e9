package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

func TestWrongUseOfTheCommandLineSaysWhatIsRight(t *testing.T) {
	effort.SlowUnderRace(t)
	dir := t.TempDir()
	if got := servertest.Command(t, dir, nil, "token", "create", "first", "--grant", "*=admin"); got.Code != 0 {
		t.Fatal(got)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	taken := l.Addr().String()
	for _, c := range []struct {
		args string
		says []string
	}{
		{"nonsense", []string{`unknown command "nonsense"`}},
		{"gte", []string{"Did you mean", "get"}},
		{"token nope", []string{`unknown command "nope"`}},
		{"dev --nope", []string{"--nope", "thole dev --help"}},
		{"dev extra", []string{"extra", "usage: thole dev"}},
		{"tail", []string{"usage: thole tail SPACE"}},
		{"log", []string{"usage: thole log SPACE"}},
		{"log x", []string{`space "x" is neither`}},
		{"log global --after=zzz", []string{`"zzz"`}},
		{"log global --limit=0", []string{"--limit"}},
		{"get a b c", []string{"usage: thole get"}},
		{"get global none", []string{"none", "not found"}},
		{"get --store sqlite:none/x.db", []string{"none/x.db", "thole dev", "--store"}},
		{"get --store sqlite:", []string{"sqlite:PATH"}},
		{"get --store bogus://x", []string{"bogus://x", "sqlite:PATH"}},
		{"migrate --store mem:", []string{"mem:"}},
		{"dev --listen 0.0.0.0:0", []string{"loopback", "thole serve"}},
		{"dev --listen here", []string{"here"}},
		{"dev --model foo", []string{"foo", "script:FILE"}},
		{"dev --model openai:x", []string{"OPENAI_API_KEY"}},
		{"dev --model script:none.yaml", []string{"none.yaml", "not found"}},
		{"dev --dir none", []string{"none", "not found"}},
		{"dev --listen " + taken, []string{taken, "--listen 127.0.0.1:0"}},
		{"serve --listen " + taken, []string{taken, "--listen 127.0.0.1:0"}},
		{"serve --tls-cert x", []string{"--tls-key"}},
		{"serve --tls-cert x --tls-key y", []string{"--tls-cert", "no such file"}},
		{"token create", []string{"usage: thole token create NAME"}},
		{"token create x", []string{"--grant"}},
		{"token create x --grant foo", []string{"PATTERN=ACCESS"}},
		{"token create x --grant project:*=all", []string{`"all"`, "read, write, work or admin"}},
		{"token create x --grant PROJECT:a=read", []string{"PROJECT:a", "kind:*"}},
		{"token create x --grant project:a,project:b=read", []string{"project:a,project:b", "kind:*"}},
		{"token create x --grant *=read --expires 0", []string{"--expires 0s", "leave --expires out"}},
		{"token create x --grant *=read --expires -1h", []string{"--expires -1h", "leave --expires out"}},
		{"token create x --grant *=read --expires 1000000h", []string{"--expires", "leave --expires out"}},
		{"token revoke tok_none", []string{"tok_none", "not the id of a token", "thole token list"}},
		{"token revoke first", []string{"by its id", "first", "tok_"}},
		{"token revoke tok_00000000000000000000000000000000", []string{"tok_0000", "not found"}},
		{"serve --cors-origin null", []string{"--cors-origin", "null", "https://app.example"}},
		{"serve --cors-origin https://app.example/", []string{"--cors-origin", "a slash"}},
	} {
		servertest.MustFail(t, dir, []string{"OPENAI_API_KEY="}, strings.Fields(c.args), c.says...)
	}
	if servertest.Exists(dir, "none") {
		t.Error("a command that only looks made a folder")
	}
	servertest.MustFail(t, dir, []string{"THOLE_GRACE=soon"}, []string{"dev"}, "THOLE_GRACE", "soon")
}

func TestVariablesStandForFlagsAndFlagsGoFirst(t *testing.T) {
	dir := t.TempDir()
	store := "sqlite:" + filepath.Join(dir, "a.db")
	if got := servertest.Command(t, dir, []string{"THOLE_STORE=" + store, "THOLE_GRANT=project:*=read"}, "token", "create", "x"); got.Code != 0 {
		t.Fatal(got)
	}
	got := servertest.Command(t, dir, []string{"THOLE_STORE=sqlite:none.db"}, "token", "list", "--store", store)
	if got.Code != 0 || !strings.Contains(got.Out, `"access":"read"`) {
		t.Errorf("token list: got %+v", got)
	}
}

func TestEveryCommandHasHelpAndCompletion(t *testing.T) {
	effort.SlowUnderRace(t)
	dir := t.TempDir()
	for _, c := range []string{
		"", "dev", "serve", "agent", "tail", "get", "log", "doctor", "migrate",
		"token", "token create", "token list", "token revoke", "bench", "version", "completion", "completion bash",
	} {
		got := servertest.Command(t, dir, nil, append(strings.Fields(c), "--help")...)
		usage := strings.TrimSpace("thole "+c) + " "
		if got.Code != 0 || !strings.Contains(got.Out, "Usage:") || !strings.Contains(got.Out, usage) {
			t.Errorf("%q --help: got %d\n%s", c, got.Code, got.Out)
		}
		if first, _, _ := strings.Cut(got.Out, "\n"); len(first) < 15 || len(first) > 90 {
			t.Errorf("%q --help begins with %q", c, first)
		}
	}
	script := servertest.Command(t, dir, nil, "completion", "bash")
	if script.Code != 0 {
		t.Fatal(script)
	}
	if bash, err := exec.LookPath("bash"); err == nil {
		check := exec.CommandContext(t.Context(), bash, "-n")
		check.Stdin = strings.NewReader(script.Out)
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("bash does not take its completion: %v\n%s", err, out)
		}
	}
	if got := servertest.Command(t, dir, nil, "__complete", "to"); !strings.Contains(got.Out, "token") {
		t.Errorf("completion of to: got %q", got.Out)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("help left files behind: %v, %v", entries, err)
	}
}

func TestVersionSaysWhatThisIs(t *testing.T) {
	var v struct{ Version, Go, OS, Arch string }
	got := servertest.Command(t, t.TempDir(), nil, "version")
	if err := json.Unmarshal([]byte(got.Out), &v); err != nil || v.Version == "" || v.Go == "" || v.OS == "" || v.Arch == "" {
		t.Errorf("version: got %+v, %v", got, err)
	}
}

func TestMigrateSaysWhatItWouldDoAndDoesNothing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "empty.db")
	if err := os.WriteFile(file, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	store := "sqlite:" + file
	dry := servertest.Command(t, dir, nil, "migrate", "--dry-run", "--store", store)
	if info, err := os.Stat(file); err != nil || info.Size() > 0 || !strings.Contains(dry.Out, `"dry_run":true`) {
		t.Errorf("dry run: got %+v, %v, file %v", dry, err, info.Size())
	}
	did := servertest.Command(t, dir, nil, "migrate", "--store", store)
	if !strings.Contains(did.Out, `"dry_run":false`) || did.Code != 0 {
		t.Errorf("migrate: got %+v", did)
	}
	if again := servertest.Command(t, dir, nil, "migrate", "--store", store); !strings.Contains(again.Out, `"steps":[]`) {
		t.Errorf("a second migrate: got %+v", again)
	}
	servertest.MustBeHealthy(t, store)
}

// The whole API is called with a token that may read one space, one that may do nothing
// there, and without a token.
func TestTokensOpenWhatTheyGrantAndNothingElse(t *testing.T) {
	s := servertest.Serve(t, t.TempDir())
	secret := func(name string, grants ...string) string {
		args := []string{"token", "create", name, "--store", s.Store}
		for _, g := range grants {
			args = append(args, "--grant", g)
		}
		var v struct{ Secret string }
		got := servertest.Command(t, s.Dir, nil, args...)
		if err := json.Unmarshal([]byte(got.Out), &v); err != nil || v.Secret == "" {
			t.Fatalf("token create: got %+v, %v", got, err)
		}
		return v.Secret
	}
	admin, reader, stranger := secret("admin", "*=admin"), secret("reader", "project:a=read"), secret("stranger", "project:b=admin")
	as := func(secret string) []string { return []string{"Authorization", "Bearer " + secret} }
	s.Must("PUT", "/v1/spaces/project:a/kv/n/hidden-name", map[string]any{"data": "hidden-value"}, nil, as(admin)...)
	var thread struct{ ID string }
	s.Must("POST", "/v1/spaces/project:a/threads", map[string]any{"title": "hidden-title"}, &thread, as(admin)...)

	var doc struct {
		Paths map[string]map[string]json.RawMessage
	}
	s.Must("GET", "/openapi.json", nil, &doc)
	fill := strings.NewReplacer("{space}", "project:a", "{thread}", thread.ID, "{namespace}", "n", "{key}", "hidden-name", "{name}", "x",
		"{run}", "run_00000000000000000000000000000000", "{turn}", "turn_00000000000000000000000000000000", "{block}", "blk_00000000000000000000000000000000",
		"{todo}", "1", "{id}", "dec_00000000000000000000000000000000", "{decision}", "dec_00000000000000000000000000000000", "{path}", "x")
	walked := 0
	for path, methods := range doc.Paths {
		for method := range methods {
			if !strings.Contains(path, "{space}") || slices.Contains([]string{"parameters", "summary"}, method) {
				continue
			}
			walked++
			method, path := strings.ToUpper(method), fill.Replace(path)
			for _, c := range []struct {
				who    string
				header []string
				status int
				code   string
			}{
				{"nobody", nil, 401, "unauthorized"},
				{"a guess", as("thole_guess"), 401, "unauthorized"},
				{"Basic", []string{"Authorization", "Basic " + admin}, 401, "unauthorized"},
				{"stranger", as(stranger), 403, "forbidden"},
			} {
				r, err := s.Do(t.Context(), method, path, map[string]any{}, c.header...)
				if err != nil {
					t.Fatal(err)
				}
				if r.Status != c.status || r.Code() != c.code || bytes.Contains(r.Body, []byte("hidden-t")) || bytes.Contains(r.Body, []byte("hidden-value")) {
					t.Errorf("%s %s as %s: got %d %s", method, path, c.who, r.Status, r.Body)
				}
			}
			if r, err := s.Do(t.Context(), method, path, map[string]any{}, as(reader)...); err != nil || method != "GET" && r.Status != 403 || method == "GET" && (r.Status == 403 || r.Status == 401) {
				t.Errorf("%s %s as reader: got %d %s, %v", method, path, r.Status, r.Body, err)
			}
		}
	}
	if walked < 30 {
		t.Errorf("only %d operations were walked", walked)
	}
	if r := s.Must("GET", "/v1/spaces", nil, nil, as(stranger)...); bytes.Contains(r.Body, []byte("project:a")) {
		t.Errorf("a stranger sees the space: %s", r.Body)
	}
	if r, err := s.Do(t.Context(), "GET", "/metrics", nil); err != nil || r.Status != 401 {
		t.Errorf("metrics without a token: got %d, %v", r.Status, err)
	}
	for _, open := range []string{"/healthz", "/readyz", "/openapi.json", "/docs"} {
		s.Must("GET", open, nil, nil)
	}
	revokes(s, reader, "reader")
	hides(s, admin, reader, stranger)
}

// revokes revokes a token while the server runs, which ends its watch.
func revokes(s *servertest.Server, secret, name string) {
	s.T.Helper()
	var id string
	for line := range strings.Lines(servertest.Command(s.T, s.Dir, nil, "token", "list", "--store", s.Store).Out) {
		var token struct{ ID, Name string }
		if err := json.Unmarshal([]byte(line), &token); err != nil {
			s.T.Fatal(err)
		}
		if token.Name == name {
			id = token.ID
		}
	}
	if got := servertest.Command(s.T, s.Dir, nil, "token", "revoke", id, "--store", s.Store); got.Code != 0 {
		s.T.Fatalf("revoke: got %+v", got)
	}
	servertest.Eventually(s.T, 10*time.Second, "a revoked token is refused", func() bool {
		r, err := s.Do(s.T.Context(), "GET", "/v1/spaces/project:a/threads", nil, "Authorization", "Bearer "+secret)
		return err == nil && r.Status == 401 && r.Code() == "unauthorized"
	})
}

// hides checks that no secret is in the store's files, in the log, or in lists of
// tokens.
func hides(s *servertest.Server, secrets ...string) {
	s.T.Helper()
	files, err := filepath.Glob(filepath.Join(s.Dir, "thole.db*"))
	if err != nil || len(files) == 0 {
		s.T.Fatalf("files of the store: got %v, %v", files, err)
	}
	for _, file := range append(files, s.Log) {
		data, err := os.ReadFile(file)
		if err != nil {
			s.T.Fatal(err)
		}
		for _, secret := range secrets {
			if bytes.Contains(data, []byte(secret)) {
				s.T.Errorf("%s holds a secret", file)
			}
		}
	}
}

// A signal comes before any prompt.
func TestASignalEndsAConversation(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), servertest.Program(), "agent")
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "XDG_STATE_HOME="+t.TempDir())
	in, err := cmd.StdinPipe() // stays open, as on a terminal
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	said, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(said)
	for line := ""; !strings.HasPrefix(line, "thread "); { // after the line about the new store
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatalf("got %q, %v, want the thread", line, err)
		}
	}
	cmd.Process.Signal(syscall.SIGTERM)
	hung := time.AfterFunc(20*time.Second, func() { cmd.Process.Kill() })
	cmd.Wait()
	if !hung.Stop() {
		t.Error("thole agent goes on after SIGTERM while nobody types")
	}
}

func TestWhatACommandDoesNotKnowIsAnError(t *testing.T) {
	dir := t.TempDir()
	servertest.MustFail(t, dir, nil, []string{"help", "nosuch"}, "nosuch")
	servertest.MustFail(t, dir, nil, []string{"completion", "nosh"}, "nosh")
	servertest.MustFail(t, dir, nil, []string{"bench", "--store", "mem:", "--time", "0s"}, "0s")
	if got := servertest.Command(t, dir, nil, "help", "token", "create"); got.Code != 0 || !strings.Contains(got.Out, "thole token create") {
		t.Errorf("help token create: %+v", got)
	}
}

func TestWhoeverStopsTheAgentCancelsItsRun(t *testing.T) {
	dir := t.TempDir()
	script := "delay_ms: 100\nturns:\n  - prompt: go\n    steps:\n      - text: \"" + strings.Repeat("one two ", 200) + "\"\n"
	if err := os.WriteFile(filepath.Join(dir, "s.yaml"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), servertest.Program(), "agent", "--model", "script:s.yaml", "--space", "project:p", "--store", "sqlite:s.db", "go")
	cmd.Dir = dir
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReader(out)
	if _, err := lines.ReadByte(); err != nil { // it works
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	for err == nil {
		_, err = lines.ReadByte()
	}
	cmd.Wait()
	got := servertest.Command(t, dir, nil, "log", "project:p", "--store", "sqlite:s.db", "--types", "run.cancel_requested", "--json")
	if !strings.Contains(got.Out, `"cause":"user"`) {
		t.Errorf("the run was cancelled by: %s%s", got.Out, got.Err)
	}
}
