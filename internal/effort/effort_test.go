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
		stores, soak, want string
	}{
		{"", "", "quick"},
		{"few", "", "quick"},
		{"all", "", "usual"},
		{"", "1", "long"},
		{"few", "1", "long"},
		{"all", "1", "long"},
		{"most", "", "panic"},
		{"all", "yes", "panic"},
	} {
		if effort.Race && tt.want == "long" {
			tt.want = "usual"
		}
		t.Setenv("THOLE_TEST", tt.stores)
		t.Setenv("THOLE_SOAK", tt.soak)
		if got := amount(); got != tt.want {
			t.Errorf("THOLE_TEST=%s THOLE_SOAK=%s: got %s, want %s", tt.stores, tt.soak, got, tt.want)
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
		for _, name := range []string{"TEST", "SOAK"} {
			if bytes.Contains(text, []byte(`Getenv("THOLE_`+name+`")`)) {
				t.Errorf("%s reads THOLE_%s by itself", path, name)
			}
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
