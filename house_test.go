package thole_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thole-dev/thole/journal"
)

const module = "github.com/thole-dev/thole"

// mayImport says which folders of the project a package may import, by the first folder
// of the package (design, section 1: imports point down only). The root package is ".".
var mayImport = map[string][]string{
	"journal":  {},
	"internal": {},
	"backend":  {"journal", "internal"},
	".":        {"journal", "internal"},
	"state":    {"journal", "internal", "."},
	"agent":    {"journal", "internal", "."},
	"api":      {"journal", "internal", ".", "state", "api"},
	"cmd":      {"journal", "internal", ".", "state", "api", "agent", "backend", "examples"},
	"examples": {"journal", "internal", ".", "state", "api", "agent", "backend"},
	"bench":    {"journal", "internal", ".", "state", "api", "agent", "backend"},
}

// rooms are the packages of the engine. They import journal and no other package of the
// project, and only the root imports them.
var rooms = []string{"internal/groupcommit", "internal/fanout", "internal/broadcast", "internal/cache"}

// exceptions are the imports that are allowed besides: package → imported packages.
var exceptions = map[string][]string{
	"journal/problem":     {"journal"},                            // the codes of its errors
	"backend":             {"backend/*"},                          // Open maps a DSN to a constructor
	"backend/backendtest": {"backend/memstore"},                   // the reference
	"api/wire":            {"backend/remote"},                     // the server half of its protocol
	"state/all":           {"state/*"},                            // lists them all
	"internal/pgtest":     {"internal/effort"},                    // whether its programs must be installed
	"internal/servertest": {"internal/effort"},                    // how much its tests do
	"state/statetest":     {"backend/*", "api/wire", "state/all"}, // stores to test concepts on
	"agent":               {"agent/*", "state/*"},                 // its parts can be used without it,
	"agent/edit":          {"agent/sandbox", "state/*"},
	"agent/history":       {"state/*"}, // and sandbox and models need no concepts
}

// testsMayImport lists what the tests of every package but the leaves may import
// besides: the root, and stores to test on.
var testsMayImport = []string{".", "backend/*", "state/statetest"}

// testExceptions are the imports of tests that are allowed besides.
var testExceptions = map[string][]string{
	"agent":           {"examples"},            // a project for an agent to work on
	"state/statetest": {"state/*", "api/auth"}, // a store with everything that a server stores
}

func TestImportsPointDownOnly(t *testing.T) {
	files := 0
	goFiles(t, func(path string, text []byte) {
		files++
		pkg, test := filepath.ToSlash(filepath.Dir(path)), strings.HasSuffix(path, "_test.go")
		if _, known := mayImport[first(pkg)]; !known {
			t.Errorf("%s is in no known folder of the project", path)
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			switch imported := local(imp); {
			case !ours(imp) || allowed(pkg, imported):
			case first(imported) == "state" && slices.Contains(needs(pkg), imp):
			case test && (imported == pkg || testMayImport(pkg, imported)):
			default:
				t.Errorf("%s imports %s", path, imported)
			}
		}
	})
	if files < 500 {
		t.Errorf("looked at %d files, want all", files)
	}
}

func allowed(pkg, imported string) bool {
	switch {
	case slices.Contains(rooms, pkg):
		return imported == "journal"
	case slices.Contains(rooms, imported):
		return pkg == "."
	}
	return slices.Contains(mayImport[first(pkg)], first(imported)) || matches(exceptions[pkg], imported)
}

// needs returns what the concept of a package in state/ says that it needs: the imports of
// its concept.go.
func needs(pkg string) (imports []string) {
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(pkg, "concept.go"), nil, parser.ImportsOnly)
	if err != nil || first(pkg) != "state" {
		return nil // it is no concept
	}
	for _, spec := range file.Imports {
		imports = append(imports, strings.Trim(spec.Path.Value, `"`))
	}
	return imports
}

func testMayImport(pkg, imported string) bool {
	return first(pkg) != "internal" && first(pkg) != "journal" && matches(testsMayImport, imported) || matches(testExceptions[pkg], imported)
}

// matches reports whether pkg matches one of patterns; "dir/*" matches all packages in
// a folder.
func matches(patterns []string, pkg string) bool {
	return slices.ContainsFunc(patterns, func(p string) bool {
		prefix, all := strings.CutSuffix(p, "*")
		return p == pkg || all && strings.HasPrefix(pkg, prefix)
	})
}

func ours(imp string) bool { return imp == module || strings.HasPrefix(imp, module+"/") }

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
	goFiles(t, func(path string, text []byte) {
		if n := bytes.Count(text, []byte("\n")); n > 800 {
			t.Errorf("%s has %d lines", path, n)
		}
	})
}

// In a testing/synctest bubble a sleep takes no time and hides no race.
func TestTestsSleepInBubblesOnly(t *testing.T) {
	goFiles(t, func(path string, text []byte) {
		if !strings.HasSuffix(path, "_test.go") || !bytes.Contains(text, []byte("time.Sleep")) {
			return
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if ok && named(call.Fun, "time", "Sleep") {
				t.Errorf("%s: a sleep outside of synctest.Test", files.Position(call.Pos()))
			}
			return !ok || !named(call.Fun, "synctest", "Test")
		})
	})
}

func named(e ast.Expr, pkg, name string) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	x, ok := s.X.(*ast.Ident)
	return ok && x.Name == pkg && s.Sel.Name == name
}

// goFiles calls check with each Go file of the project.
func goFiles(t *testing.T, check func(path string, text []byte)) {
	t.Helper()
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
		text, err := os.ReadFile(path)
		if err == nil {
			check(path, text)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A backend around backends must decide on each capability. One that it does not name
// would silently be lost, or would bypass it.
func TestAWrapperDecidesOnEachCapability(t *testing.T) {
	wrappers := 0
	goFiles(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "backend/backendtest/") {
			return // these break one capability and keep the others
		}
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Recv == nil || f.Name.Name != "Capabilities" || isEngine(path) {
				continue
			}
			wrappers++
			named := map[string]bool{}
			ast.Inspect(f.Body, func(n ast.Node) bool {
				if kv, ok := n.(*ast.KeyValueExpr); ok {
					if key, ok := kv.Key.(*ast.Ident); ok {
						named[key.Name] = true
					}
				}
				return true
			})
			for field := range reflect.TypeFor[journal.Capabilities]().Fields() {
				if !named[field.Name] {
					t.Errorf("%s: the literal does not set %s", files.Position(f.Pos()), field.Name)
				}
			}
		}
	})
	if wrappers < 4 {
		t.Errorf("looked at %d wrappers, want the router, its late backends, remote and the meter", wrappers)
	}
}

// isEngine reports whether a file belongs to a backend that keeps bytes itself: it does
// not have the capabilities that it does not name.
func isEngine(path string) bool {
	dir := filepath.ToSlash(filepath.Dir(path))
	return strings.HasPrefix(dir, "backend/") && strings.HasSuffix(dir, "store")
}

// A struct that embeds a Backend and has no Capabilities of its own would return the
// embedded one's.
func TestAWrapperHasCapabilitiesOfItsOwn(t *testing.T) {
	embeds, has := map[string]string{}, map[string]bool{}
	goFiles(t, func(path string, text []byte) {
		if strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "backend/backendtest/") || strings.HasPrefix(path, "state/statetest/") {
			return
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, text, 0)
		if err != nil {
			t.Fatal(err)
		}
		in := func(name string) string { return filepath.Dir(path) + "." + name }
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool {
					return len(f.Names) == 0 && named(f.Type, "journal", "Backend")
				}) {
					embeds[in(n.Name.Name)] = path
				}
			case *ast.FuncDecl:
				if n.Recv != nil && n.Name.Name == "Capabilities" {
					of := n.Recv.List[0].Type
					if star, ok := of.(*ast.StarExpr); ok {
						of = star.X
					}
					has[in(of.(*ast.Ident).Name)] = true
				}
			}
			return true
		})
	})
	for name, path := range embeds {
		if !has[name] {
			t.Errorf("%s: %s embeds a Backend and has no Capabilities of its own", path, name)
		}
	}
}

// TestTheFilesThatDocumentsNameExist covers the paths in backquotes that documents for
// contributors name.
func TestTheFilesThatDocumentsNameExist(t *testing.T) {
	named := regexp.MustCompile("`([a-z][a-z0-9_/]*(/|\\.go))`")
	for _, document := range []string{"CONTRIBUTING.md", "README.md"} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		found := named.FindAllSubmatch(text, -1)
		for _, name := range found {
			if _, err := os.Stat(string(name[1])); err != nil {
				t.Errorf("%s names %s: %v", document, name[1], err)
			}
		}
		if len(found) < 5 {
			t.Errorf("found %d paths in %s", len(found), document)
		}
	}
}
