package rest

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/internal/shape"
	"github.com/thole-dev/thole/state/thread"
)

// root is the project's folder.
const root = "../.."

var dotted = regexp.MustCompile(`^[a-z]+\.[a-z_]+$`) // never changed

// emitted finds the types of all events and broadcasts that the project's code emits:
// what is passed to Emit, emit or Broadcast as the type, and what an event's Type is
// set to. A name stands for every text that its package assigns to it.
func emitted(t *testing.T) []string {
	t.Helper()
	types := map[string]bool{"thread.expired": true} // made in sweep.go: <kind>.expired, for records with Notify and no expirer
	for _, dir := range goDirs(t) {
		files := parse(t, dir)
		texts := textsOf(files)
		add := func(e ast.Expr) {
			for _, s := range texts.of(e) {
				if dotted.MatchString(s) {
					types[s] = true
				}
			}
		}
		for _, f := range files {
			ast.Inspect(f, func(n ast.Node) bool {
				switch n := n.(type) {
				case *ast.CallExpr:
					if sel, ok := n.Fun.(*ast.SelectorExpr); ok && len(n.Args) == 3 && slices.Contains([]string{"Emit", "emit", "Broadcast"}, sel.Sel.Name) {
						add(n.Args[1])
					}
				case *ast.KeyValueExpr:
					if key, ok := n.Key.(*ast.Ident); ok && key.Name == "Type" {
						add(n.Value)
					}
				}
				return true
			})
		}
	}
	var all []string
	for typ := range types {
		all = append(all, typ)
	}
	slices.Sort(all)
	return all
}

// goDirs returns the folders whose code may emit, without test helpers and benchmarks.
func goDirs(t *testing.T) []string {
	t.Helper()
	dirs := []string{root}
	for _, top := range []string{"state", "agent", "api", "cmd"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() && d.Name() == "statetest" {
				return filepath.SkipDir
			}
			if err == nil && d.IsDir() {
				dirs = append(dirs, path)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return dirs
}

func parse(t *testing.T, dir string) []*ast.File {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	var files []*ast.File
	for _, name := range names {
		if base := filepath.Base(name); strings.HasSuffix(base, "_test.go") || base == "concept.go" || base == "kernel.go" {
			continue // tests, and declarations
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	return files
}

// texts are the texts that are assigned to each name of a package.
type texts map[string][]string

func textsOf(files []*ast.File) texts {
	all := make(texts)
	give := func(name ast.Expr, value ast.Expr) {
		if id, ok := name.(*ast.Ident); ok {
			all[id.Name] = append(all[id.Name], all.of(value)...)
		}
	}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.ValueSpec:
				for i := range min(len(n.Names), len(n.Values)) {
					give(n.Names[i], n.Values[i])
				}
			case *ast.AssignStmt:
				for i := range min(len(n.Lhs), len(n.Rhs)) {
					give(n.Lhs[i], n.Rhs[i])
				}
			}
			return true
		})
	}
	return all
}

func (all texts) of(e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return []string{s}
		}
	case *ast.Ident:
		return all[e.Name]
	}
	return nil
}

func TestWhatIsEmittedIsDeclared(t *testing.T) {
	types := emitted(t)
	if len(types) < 30 {
		t.Fatalf("only %d types were found: %q", len(types), types)
	}
	cs, err := thole.NewConcepts(Concepts()...)
	if err != nil {
		t.Fatal(err)
	}
	var declared []string
	for _, e := range cs.EventTypes() {
		declared = append(declared, e.Type)
	}
	types = append(types, "app.expired", "space.adopted") // made in sweep.go for applications, and in package filestore
	slices.Sort(types)
	if !slices.Equal(declared, slices.Compact(types)) {
		t.Errorf("declared are %q, emitted are %q", declared, types)
	}
}

// A client that has found an event's type knows which members its data has.
func TestEventsOfOneDataTypeHoldTheSame(t *testing.T) {
	cs, err := thole.NewConcepts(Concepts()...)
	if err != nil {
		t.Fatal(err)
	}
	types := map[string][]string{}
	for _, e := range cs.EventTypes() {
		if data := e.GoType(); data != nil {
			types[data.String()] = append(types[data.String()], e.Type)
		}
	}
	same := map[string][]string{ // which may share a type
		"kv.Change":      {"kv.deleted", "kv.expired", "kv.set"},
		"lock.Change":    {"lock.acquired", "lock.expired", "lock.released"},
		"thole.Expired":  {"app.expired", "thread.destroyed", "thread.expired"},
		"thread.Updated": {"message.updated", "tool.completed", "tool.failed", "tool.started"},
	}
	for data, of := range types {
		if slices.Sort(of); len(of) > 1 && !slices.Equal(of, same[data]) {
			t.Errorf("%s is the data of %q, and a client cannot tell their members apart: give each a type of its own, or list them above if all members are the same", data, of)
		}
	}
}

func TestTimesEndInAt(t *testing.T) {
	set := newShapes()
	var types []reflect.Type
	for _, op := range operations() {
		if b := op.does.body; b != nil && b.shape != nil {
			types = append(types, b.shape.Type)
		}
		if out := op.answers(); out != nil {
			types = append(types, out)
		}
	}
	cs, err := thole.NewConcepts(Concepts()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range cs.EventTypes() {
		if e.GoType() != nil {
			types = append(types, e.GoType())
		}
	}
	seen := map[*shape.Shape]bool{}
	var visit func(s *shape.Shape)
	visit = func(s *shape.Shape) {
		if s == nil || seen[s] {
			return
		}
		seen[s] = true
		for _, f := range s.Fields {
			isTime := f.Shape.Format == "date-time"
			if isTime && !strings.HasSuffix(f.Name, "_at") && (s.Type != reflect.TypeFor[event]() || f.Name != "time") {
				t.Errorf("%v has the time %s", s.Type, f.Name)
			}
			visit(f.Shape)
		}
		visit(s.Elem)
	}
	for _, typ := range types {
		visit(set.Of(typ))
	}
}

// A thread that is read has a version; one that was just created, in its event, has none.
func TestMembersThatAreAlwaysThereAreRequired(t *testing.T) {
	g := newGenerator()
	g.given(reflect.TypeFor[thread.Thread]())
	g.given(reflect.TypeFor[thread.Head]())
	for schema, want := range map[string]bool{"Thread": true, "ThreadHead": false} {
		o := g.schemas.Named[schema].(object)
		for _, name := range []string{"updated_at", "version"} {
			if got := slices.Contains(o["required"].([]string), name); got != want {
				t.Errorf("%s requires %s: %v, want %v", schema, name, got, want)
			}
		}
	}
}
