package rest

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/backend/memstore"
)

// shownAsTheyAre are the fields of answers in which the id of what is hidden stays.
// A field that is not listed names nothing that is hidden.
var shownAsTheyAre = map[string]string{
	// Events are masked as they are read (see maskEvent): Cause, Refs, and Data that may
	// name others. Source, Stream, Type, Actor and Subject are shown as they are.
	"rest.event": "Source Stream Type Actor Cause Subject Refs Data",
	// The caller's own.
	"rest.BlockID": "ID", "rest.ClaimedRun": "Space Turn Token", "rest.HeldLock": "Name Owner Mode Token",
	"rest.Signalled": "Data", "rest.Space": "Name", "thole.Blob": "Hash",
	// Of a thread that the caller may know.
	"run.Run":        "ID Thread Status Agent AskedBy Model Policy OnDisconnect ResumedFrom ResumedBy Options Turn WaitingFor Waits Signals Usage",
	"run.Cancel":     "Cause",
	"thread.Head":    "ID Assistant Title Status Visibility Owner Metadata RunScope ActiveRun LastTurn TurnStatus",
	"thread.Entry":   "ID Assistant Title Status Visibility Owner",
	"thread.Turn":    "ID Run Status",
	"thread.Message": "ID Turn Run Role Status",
	"thread.Block":   "ID Type Content Meta Status",
	"thread.Tool":    "Name Input Result OperationID",
	"rest.Todos":     "NextCursor",
	"todo.Todo":      "ID Content Status Priority Actor",
	// What people wrote, names that they gave, and what programs act on.
	"decision.Decision": "ID Status Result Actor",
	"decision.Plan":     "Input",
	"document.Document": "Name Value", "document.Info": "Name",
	"file.File": "Path Hash Actor", "file.Change": "Path Before After Actor",
	"kv.Entry": "Namespace Key Data", "rest.LockInfo": "Name",
}

// Every answer of every operation, filled with the id of a run that is hidden.
func TestAnAnswerNamesNothingHiddenButWhatPeopleWrote(t *testing.T) {
	const id, in = "run_0123456789abcdef0123456789abcdef", "thrd_0123456789abcdef0123456789abcdef"
	p := hidingRun(t, id, in)
	got := map[string]bool{}
	for _, op := range operations() {
		out := op.answers()
		if out == nil {
			continue
		}
		v := reflect.New(out).Elem()
		fill(v, id)
		holding(reflect.ValueOf(op.does.told(p, v.Interface())), "", id, got)
	}
	want := map[string]bool{}
	for typ, fields := range shownAsTheyAre {
		for field := range strings.FieldsSeq(fields) {
			want[typ+"."+field] = true
		}
	}
	for name := range got {
		if !want[name] {
			t.Errorf("%s names what is hidden: give it a tag (see told.go) or, if people wrote it, list it in shownAsTheyAre", name)
		}
	}
	for name := range want {
		if !got[name] {
			t.Errorf("%s is listed and names nothing", name)
		}
	}
}

// hidingRun returns a privacy from which a run in a thread is hidden.
func hidingRun(t *testing.T, run, thread string) *privacy {
	t.Helper()
	cs, err := thole.NewConcepts(Concepts()...)
	if err != nil {
		t.Fatal(err)
	}
	return &privacy{concepts: cs, threads: map[string]bool{thread: true, run: true}, of: map[string][]string{"run/" + run: {thread}, "thread/" + run: {thread}}}
}

// What an answer refers to may be shared, such as a projection's list.
func TestWhatIsToldIsACopy(t *testing.T) {
	const id, in = "run_0123456789abcdef0123456789abcdef", "thrd_0123456789abcdef0123456789abcdef"
	p := hidingRun(t, id, in)
	type item struct {
		Parent string   `names:"omitted"`
		Depth  int      `names:"with Parent"`
		Texts  []string `names:"masked"`
		Name   string
	}
	type list struct {
		Items []*item
		None  []item
	}
	hidden := item{Parent: id, Depth: 3, Texts: []string{"of " + id}, Name: id}
	shown := item{Parent: "", Depth: 3, Texts: []string{}, Name: id}
	given := list{Items: []*item{&hidden, nil, &shown}}
	h := handler{out: reflect.TypeFor[*list](), tell: tellerOf(reflect.TypeFor[*list](), nil)}
	got := h.told(p, &given).(*list)
	if want := (item{Texts: []string{"of run_" + strings.Repeat("0", 32)}, Name: id}); len(got.Items) != 3 || !reflect.DeepEqual(*got.Items[0], want) || got.Items[1] != nil || got.None != nil {
		t.Errorf("got %+v, %+v", got, got.Items[0])
	}
	if got.Items[2].Texts == nil {
		t.Error("an empty list became nil")
	}
	if hidden.Parent != id || hidden.Depth != 3 || hidden.Texts[0] != "of "+id || given.Items[0] != &hidden {
		t.Errorf("the answer was changed: %+v", hidden)
	}
	if same := h.told(nil, &given); same != any(&given) {
		t.Error("an answer from which nothing is hidden was copied")
	}
}

func TestATagThatCannotBeFollowedIsRefused(t *testing.T) {
	for _, typ := range []reflect.Type{
		reflect.TypeFor[struct {
			N int `names:"masked"`
		}](),
		reflect.TypeFor[struct {
			S string `names:"hidden"`
		}](),
		reflect.TypeFor[struct {
			N int `names:"with Parent"`
		}](),
		reflect.TypeFor[map[string]struct {
			S string `names:"masked"`
		}](),
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%v is taken", typ)
				}
			}()
			tellerOf(typ, nil)
		}()
	}
}

// fill sets all texts in v to text.
func fill(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), text)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			v.SetBytes([]byte(`"` + text + `"`))
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0), text)
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		key, value := reflect.New(v.Type().Key()).Elem(), reflect.New(v.Type().Elem()).Elem()
		fill(key, text)
		fill(value, text)
		v.SetMapIndex(key, value)
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() && !opaque(v.Type()) {
				fill(v.Field(i), text)
			}
		}
	}
}

// holding adds the fields in v that hold text to found.
func holding(v reflect.Value, field, text string, found map[string]bool) {
	switch v.Kind() {
	case reflect.String:
		if strings.Contains(v.String(), text) {
			found[field] = true
		}
	case reflect.Pointer, reflect.Interface:
		holding(v.Elem(), field, text, found)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[json.RawMessage]() {
			holding(reflect.ValueOf(string(v.Bytes())), field, text, found)
			return
		}
		for i := range v.Len() {
			holding(v.Index(i), field, text, found)
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			holding(key, field, text, found)
			holding(v.MapIndex(key), field, text, found)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			f := v.Type().Field(i)
			if !f.IsExported() || opaque(v.Type()) {
				continue
			}
			name, _, _ := strings.Cut(v.Type().String(), "[")
			if name == "thole.PageOf" && f.Name == "Next" {
				continue // the caller's, or of an item
			}
			holding(v.Field(i), name+"."+f.Name, text, found)
		}
	}
}

func opaque(t reflect.Type) bool {
	return t == reflect.TypeFor[time.Time]() || t == reflect.TypeFor[thole.Position]()
}

func TestALongErrorDoesNotEndInHalfOfAHiddenID(t *testing.T) {
	const id = "run_0123456789abcdef0123456789abcdef"
	p := hidingRun(t, id, "hidden")
	for before := range 200 {
		err := fmt.Errorf("%s%s%s: %w", strings.Repeat("x", before), id, strings.Repeat("y", 600), thole.ErrConflict)
		if detail := problemOf(err, p.mask).Detail; strings.Contains(detail, "run_0") && strings.Contains(detail, "1") {
			t.Fatalf("after %d bytes: %s", before, detail)
		}
	}
}

// A claim and a watch of several spaces have no privacy of one space.
func TestAnErrorOutsideASpaceNamesOnlyWhatTheRequestNamed(t *testing.T) {
	st, err := thole.Open(t.Context(), memstore.New(), &thole.Options{Concepts: Concepts(), Sweep: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	const named, other = "run_0123456789abcdef0123456789abcdef", "thrd_0123456789abcdef0123456789abcdef"
	const text = named + " of " + other
	for admin, want := range map[string]string{"project:a": named + " of thrd_" + strings.Repeat("0", 32), "*": text} {
		token := auth.Token{Grants: []auth.Grant{{Space: admin, Access: auth.Admin}}}
		c := call{api: &API{store: st}, r: httptest.NewRequest("POST", "/v1/runs/claim?x="+named, nil), token: &token}
		if got := c.maskProblem(text); got != want {
			t.Errorf("an admin of %s reads %s, want %s", admin, got, want)
		}
	}
}
