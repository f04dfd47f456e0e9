package effort_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/internal/effort"
)

func TestTheEnvironmentSaysHowMuchIsDone(t *testing.T) {
	for _, tt := range []struct {
		asked, want, underRace string
	}{
		{"", "quick", "quick"},
		{"all", "usual", "quick"},
		{"soak", "long", "usual"},
		{"most", "panic", "panic"},
	} {
		if effort.Race {
			tt.want = tt.underRace
		}
		t.Setenv("THOLE_TEST", tt.asked)
		if got := amount(); got != tt.want {
			t.Errorf("THOLE_TEST=%s: got %s, want %s", tt.asked, got, tt.want)
		}
	}
}

func amount() (got string) {
	defer func() {
		if recover() != nil {
			got = "panic"
		}
	}()
	return effort.Amount("quick", "usual", "long")
}

func TestOnlyThisPackageReadsWhatChoosesTests(t *testing.T) {
	root := os.DirFS("../..")
	err := fs.WalkDir(root, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".go" || filepath.Dir(path) == "internal/effort" {
			return err
		}
		text, err := fs.ReadFile(root, path)
		if bytes.Contains(text, []byte(`Getenv("THOLE_TEST"`)) {
			t.Errorf("%s reads THOLE_TEST by itself", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
