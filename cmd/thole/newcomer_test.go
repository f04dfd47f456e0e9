package main_test

import (
	"bufio"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/effort"
	"github.com/thole-dev/thole/internal/servertest"
)

func TestAServerThatCannotStartLeavesNothingBehind(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	for _, args := range []string{
		"dev --listen " + l.Addr().String(), "serve --listen " + l.Addr().String(), "dev --listen nowhere",
		"dev --model foo", "dev --dir none", "dev --store bogus://x", "dev --space x", "agent --dir none hi", "agent --model foo hi",
	} {
		dir, state := t.TempDir(), t.TempDir()
		servertest.MustFail(t, dir, []string{"XDG_STATE_HOME=" + state}, strings.Fields(args))
		for _, dir := range []string{dir, state} {
			if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
				t.Errorf("thole %s left %v behind (%v)", args, left, err)
			}
		}
	}
}

func TestDevSaysWhatToDoNextInTheSpaceThatItServes(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "shop"), 0o755); err != nil {
		t.Fatal(err)
	}
	for args, want := range map[string]string{
		"":                             "tail project:sample ",
		"--dir shop":                   "tail project:shop ",
		"--dir shop --space project:*": "tail project:shop ",
		"--dir shop --space user:42":   "tail user:42 ",
	} {
		cmd := exec.CommandContext(t.Context(), servertest.Program(), append(strings.Fields("dev --listen 127.0.0.1:0"), strings.Fields(args)...)...)
		cmd.Dir = dir
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		said := untilListening(t, out)
		cmd.Process.Kill()
		cmd.Wait()
		if want = servertest.Program() + " " + want; !strings.Contains(said, want) {
			t.Errorf("dev %s: got %s, want a command that runs: %s", args, said, want)
		}
	}
}

func TestDevTellsOfARunThatNobodyTakes(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	for space, says := range map[string]string{
		"project:a": `a run in project:a waits for a worker of agent "nobody"; the only agent here is "coder"`,
		"user:a":    "a run in user:a waits for a worker elsewhere; the agent here takes those in project:*",
	} {
		var thread struct{ ID string }
		s.Must("POST", "/v1/spaces/"+space+"/threads", map[string]any{}, &thread)
		ask := map[string]any{"prompt": "Hello"}
		if space == "project:a" {
			ask["agent"] = "nobody"
		}
		s.Must("POST", "/v1/spaces/"+space+"/threads/"+thread.ID+"/runs", ask, nil)
		servertest.Eventually(t, 10*time.Second, "the terminal to say: "+says, func() bool {
			return strings.Contains(s.LogTail(), says)
		})
	}
}

func TestErrorsOfCommandsNameWhatIsKnown(t *testing.T) {
	effort.SlowUnderRace(t)
	dir := t.TempDir()
	s := servertest.Start(t, servertest.Setup{Dir: dir, Store: "sqlite:" + filepath.Join(dir, ".thole", "thole.db")})
	var thread struct{ ID string }
	s.Must("PUT", "/v1/spaces/project:shop/kv/n/k", map[string]any{"data": 1}, nil)
	s.Must("POST", "/v1/spaces/project:shop/threads", map[string]any{"title": "<b>&"}, &thread)
	for _, c := range []struct {
		args string
		says []string
	}{
		{"get project:shpo", []string{"not found", "project:shop"}},
		{"get project:shpo kv/n/k", []string{"not found", "project:shop"}},
		{"get project:shop kv", []string{"not found", "`thole get project:shop kv/`"}},
		{"get project:shop kb/n/k", []string{"not found", "kv/, thread/"}},
		{"log project:shpo", []string{"not found", "project:shop"}},
		{"log project:shop --stream vk", []string{"not found", `"vk"`, "kv/n"}},
		{"log project:shop --types kv.sett", []string{`"kv.sett"`, "kv.deleted, kv.expired, kv.set"}},
		{"log project:shop --types kv", []string{`"kv"`, "kv.*", "kv.set"}},
		{"log project:shop --types thing", []string{`"thing"`, "noun.verb"}},
		{"tail project:shop --types kv.sett", []string{`"kv.sett"`, "kv.set"}},
		{"tail project:shop --after zz", []string{"--after", `"zz"`}},
		{"tail project:shop --server ftp://x", []string{"--server", "http://HOST:PORT"}},
		{"get --server ftp://x", []string{"--server", "http://HOST:PORT"}},
		{"migrate --store mem:", []string{"sqlite:PATH, file:DIR, postgres://"}},
	} {
		servertest.MustFail(t, dir, nil, strings.Fields(c.args), c.says...)
		if strings.HasPrefix(c.args, "get project:") || strings.HasPrefix(c.args, "log project:") { // also through the server
			servertest.MustFail(t, dir, nil, append(strings.Fields(c.args), "--server", s.URL), c.says...)
		}
	}
	for _, args := range []string{"log project:shop --types my.thing", "log project:shop --actor user:none"} {
		if got := servertest.Command(t, dir, nil, strings.Fields(args)...); got.Code != 0 || got.Out != "" || !strings.Contains(got.Err, "no event") {
			t.Errorf("thole %s: got %+v, want a line that says that it does not exist", args, got)
		}
	}
	if got := servertest.Command(t, dir, nil, "get", "project:shop", "thread/"+thread.ID); !strings.Contains(got.Out, `<b>&`) {
		t.Errorf("JSON for a pipe escapes what need not be: %s", got.Out)
	}
	if r, err := s.Do(t.Context(), "POST", "/v1/spaces/project:shop/threads", map[string]any{"<b>&": 1}); err != nil || !strings.Contains(string(r.Body), `<b>&`) {
		t.Errorf("a problem escapes what need not be: %s, %v", r.Body, err)
	}
}

// Hundreds of parts of files must not hide what a person looks for.
func TestGetListsWhatPeopleKeepAndLeavesTheRestToAll(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	for i := range 130 { // more than a page
		hash := fmt.Sprintf("%x", sha256.Sum256([]byte(strconv.Itoa(i))))
		s.Must("PUT", "/v1/spaces/project:a/blobs/"+hash, i, nil)
	}
	s.Must("PUT", "/v1/spaces/project:a/kv/n/k", map[string]any{"data": 1}, nil)
	s.Must("POST", "/v1/spaces/project:a/threads", map[string]any{}, nil)
	get := func(more ...string) (keys []string, said string) {
		got := servertest.Command(t, s.Dir, nil, append([]string{"get", "project:a", "--store", s.Store}, more...)...)
		for line := range strings.Lines(got.Out) {
			var r struct{ Key string }
			if err := json.Unmarshal([]byte(line), &r); err != nil {
				t.Fatal(err)
			}
			keys = append(keys, r.Key)
		}
		return keys, got.Err
	}
	few, said := get()
	if len(few) != 2 || few[0] != "kv/n/k" || !strings.HasPrefix(few[1], "thread/") || !strings.Contains(said, "--all") {
		t.Errorf("get: %v, want the value and the thread; said %q", few, said)
	}
	if all, _ := get("--all"); len(all) < len(few)+260 || !slices.IsSorted(all) {
		t.Errorf("get --all: %d records, want the 130 blobs and their chunks too", len(all))
	}
	if chunks, _ := get("chunk/"); len(chunks) != 130 {
		t.Errorf("get chunk/: %d records, want 130", len(chunks))
	}
	if through, _ := get("--server", s.URL); !slices.Equal(through, few) {
		t.Errorf("get --server: %d records, want the same %d", len(through), len(few))
	}
}

func TestTailSaysThatNothingIsThereYet(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	s.Must("PUT", "/v1/spaces/project:shop/kv/n/k", map[string]any{"data": 1}, nil)
	for _, from := range []string{"--store=" + s.Store, "--server=" + s.URL, "--server=" + s.URL + " --after="} {
		cmd := exec.CommandContext(t.Context(), servertest.Program(), append([]string{"tail", "project:shpo"}, strings.Fields(from)...)...)
		said, err := cmd.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		if !strings.Contains(line, "nothing is in project:shpo") || !strings.Contains(line, "waiting for the first event") {
			t.Errorf("tail %s: got %q, %v", from, line, err)
		}
		cmd.Process.Kill()
		cmd.Wait()
	}
}

func TestTailFromTheOldestEventDoesNotSayThatNothingIsThere(t *testing.T) {
	s := servertest.Start(t, servertest.Setup{})
	s.Must("PUT", "/v1/spaces/project:shop/kv/n/k", map[string]any{"data": 1}, nil)
	cmd := exec.CommandContext(t.Context(), servertest.Program(), "tail", "project:shop", "--server", s.URL, "--after=")
	var said strings.Builder
	cmd.Stderr = &said
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	cmd.Process.Kill()
	cmd.Wait()
	if !strings.Contains(line, "kv.set") || said.String() != "" {
		t.Errorf("tail printed %q, %v, and said %q; want the event alone", line, err, said.String())
	}
}

func TestTheHelpOfEachCommandHasAnExample(t *testing.T) {
	effort.SlowUnderRace(t)
	for _, c := range []string{
		"dev", "serve", "agent", "tail", "get", "log", "doctor", "migrate",
		"token", "token create", "token list", "token revoke", "bench", "version",
	} {
		got := servertest.Command(t, t.TempDir(), nil, append(strings.Fields(c), "--help")...)
		if !strings.Contains(got.Out, "\nExamples:\n  thole ") {
			t.Errorf("%s --help has no example:\n%s", c, got.Out)
		}
	}
}

// untilListening returns a server's output until it listens.
func untilListening(t *testing.T, out io.Reader) string {
	t.Helper()
	var said strings.Builder
	for lines := bufio.NewScanner(out); lines.Scan(); {
		said.WriteString(lines.Text() + "\n")
		if strings.HasPrefix(lines.Text(), "listening on ") {
			return said.String()
		}
	}
	t.Fatalf("it never listened: %s", said.String())
	return ""
}
