package edit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/edit"
	"github.com/thole-dev/thole/agent/sandbox"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/file"
)

// A program edits a file that a person edits too: a person's change elsewhere in the
// file is kept; one in the same place is a conflict.
func Example() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "project")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	write := func(content string) {
		if err := os.WriteFile(filepath.Join(dir, "poem.txt"), []byte(content), 0o666); err != nil {
			log.Fatal(err)
		}
	}
	sb, err := sandbox.Open(dir, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer sb.Close()
	store, err := thole.Open(ctx, memstore.New(), &thole.Options{Concepts: all.Concepts()})
	if err != nil {
		log.Fatal(err)
	}
	defer store.Close()
	sp := store.Space("project:poem").As("tool:formatter")

	write("one\ntwo\nthree\nfour\n")
	e := edit.New(sb, sp, edit.Options{}, &edit.Touched{})
	if _, err := e.Read("poem.txt"); err != nil {
		log.Fatal(err)
	}
	write("one\ntwo\nthree\nFOUR\n")
	one := edit.Change{Owner: "formatter", Path: "poem.txt", Make: sandbox.Substitute("one", "ONE", false)}
	_, facts, err := e.Change(ctx, one)
	fmt.Println(facts["merged"], err)

	write("1\ntwo\nthree\nFOUR\n")
	two := edit.Change{Owner: "formatter", Path: "poem.txt", Make: sandbox.Substitute("ONE", "uno", false)}
	_, _, err = e.Change(ctx, two)
	fmt.Println(errors.Is(err, thole.ErrConflict))

	known, err := file.In(sp).Get(ctx, "poem.txt")
	fmt.Println(known.Actor, err)
	// Output:
	// true <nil>
	// true
	// user:hand <nil>
}
