package thole_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

func TestEveryDecisionHasANumberOfItsOwn(t *testing.T) {
	pages, err := filepath.Glob("docs/decisions/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatal(pages, err)
	}
	named := map[string]string{}
	for _, page := range pages {
		number, _, _ := strings.Cut(filepath.Base(page), "-")
		if other := named[number]; other != "" {
			t.Errorf("%s and %s have one number; take the next free one", other, page)
		}
		named[number] = page
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(text), "# "+number+": ") {
			t.Errorf("%s does not begin with %q", page, "# "+number+": ")
		}
	}
	link := regexp.MustCompile(`decisions/(\d{4}[a-z-]*)`)
	documents, _ := filepath.Glob("docs/*.md")
	for _, document := range append(documents, "README.md", "CHANGELOG.md", "CONTRIBUTING.md") {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		for _, found := range link.FindAllStringSubmatch(string(text), -1) {
			page := strings.TrimSuffix(filepath.Base(named[found[1][:4]]), ".md")
			if named[found[1][:4]] == "" || len(found[1]) > 4 && found[1] != page {
				t.Errorf("%s refers to %s; there is no such page", document, found[0])
			}
		}
	}
}
