package thole_test

import (
	"bufio"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/thole-dev/thole"

// mayImport says, for the first folder of a package, which folders of the
// project it may import (design, section 1: imports point down only). The root
// package is ".".
var mayImport = map[string][]string{
	".":         {"internal"},
	"internal":  {},
	"backend":   {".", "internal"},
	"state":     {".", "internal"},
	"api":       {".", "internal", "state", "api"},
	"agent":     {".", "internal", "state", "agent"},
	"inspector": {".", "internal", "state"},
	"cmd":       {".", "internal", "state", "api", "agent", "inspector", "backend", "examples"},
	"examples":  {".", "internal", "state", "api", "agent", "backend"},
}

// exceptions are the imports beside those rules: package → imported packages.
var exceptions = map[string][]string{
	"backend":             {"backend/*"},        // Open maps a DSN to a constructor
	"backend/backendtest": {"backend/memstore"}, // the reference
	"state/run":           {"state/thread"},     // a run belongs to a thread
	"state/statetest":     {"backend/*"},        // stores to test concepts on
}

func TestImportsPointDownOnly(t *testing.T) {
	out, err := exec.Command("go", "list", "-f", `{{.ImportPath}} {{join .Imports " "}}`, "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		pkg := local(fields[0])
		allowed, known := mayImport[first(pkg)]
		if !known {
			t.Errorf("%s is in no wing of the house", pkg)
		}
		for _, imp := range fields[1:] {
			if imp != module && !strings.HasPrefix(imp, module+"/") {
				continue
			}
			to := local(imp)
			ok := slices.Contains(allowed, first(to)) || slices.ContainsFunc(exceptions[pkg], func(e string) bool {
				prefix, all := strings.CutSuffix(e, "*")
				return e == to || all && strings.HasPrefix(to, prefix)
			})
			if !ok {
				t.Errorf("%s imports %s", pkg, to)
			}
		}
	}
}

func local(imp string) string {
	if imp == module {
		return "."
	}
	return strings.TrimPrefix(imp, module+"/")
}

func first(pkg string) string {
	head, _, _ := strings.Cut(pkg, "/")
	return head
}

func TestNoGoFileIsLongerThan800Lines(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && (d.Name() == "node_modules" || strings.HasPrefix(d.Name(), ".") && path != ".") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".go" {
			return nil
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		n := 0
		for s := bufio.NewScanner(f); s.Scan(); n++ {
		}
		if n > 800 {
			t.Errorf("%s has %d lines", path, n)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
