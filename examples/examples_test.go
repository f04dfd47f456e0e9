package examples

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/thole-dev/thole/agent/model"
)

func TestLayOutFillsAnEmptyFolderAndLeavesAFullOne(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	laid, err := LayOut(dir)
	if err != nil || !laid {
		t.Fatalf("LayOut = %v, %v; want true", laid, err)
	}
	page := filepath.Join(dir, "index.html")
	if err := os.WriteFile(page, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	laid, err = LayOut(dir)
	if err != nil || laid {
		t.Fatalf("LayOut again = %v, %v; want false", laid, err)
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != "mine" {
		t.Errorf("index.html = %q, %v; want what was there", got, err)
	}
}

func TestAllScriptsParse(t *testing.T) {
	if _, err := Script(); err != nil {
		t.Error(err)
	}
	names, err := filepath.Glob("scripts/*.yaml")
	if err != nil || len(names) == 0 {
		t.Fatalf("scripts = %v, %v; want some", names, err)
	}
	for _, name := range names {
		if _, err := model.OpenScript(name); err != nil {
			t.Error(err)
		}
	}
}
