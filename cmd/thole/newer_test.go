package main_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

// newerStep is a migration on PostgreSQL that only a newer program knows.
type newerStep struct {
	what, sql string
	breaks    bool
}

// newerProgram builds the program with additional migrations, and returns its path.
// commit is the function with which it commits.
func newerProgram(t testing.TB, commit string, steps ...newerStep) string {
	t.Helper()
	const now = "thole.commit_1"
	pgstore, err := filepath.Abs("../../backend/pgstore")
	if err != nil {
		t.Fatal(err)
	}
	dir, replace := t.TempDir(), map[string]string{}
	put := func(name, text string) {
		t.Helper()
		file := filepath.Join(dir, filepath.Base(name))
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(pgstore, name)] = file
	}
	source := "package pgstore\n\nimport _ \"embed\"\n"
	for i, s := range steps {
		put(fmt.Sprintf("migrations/newer%d.sql", i), s.sql)
		source += fmt.Sprintf(`
//go:embed migrations/newer%[1]d.sql
var newer%[1]d string

func init() { migrations = append(migrations, migration{what: %[2]q, sql: newer%[1]d, breaks: %[3]v}) }
`, i, s.what, s.breaks)
	}
	put("newer.go", source)
	old, err := os.ReadFile(filepath.Join(pgstore, "commit.go"))
	if err != nil || !strings.Contains(string(old), now) {
		t.Fatalf("commit.go has no %s: %v", now, err)
	}
	put("commit.go", strings.ReplaceAll(string(old), now, commit))

	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "thole")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), fmt.Sprintf("-race=%v", effort.Race), "-o", path, ".")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a newer program: %v\n%s", err, out)
	}
	return path
}
