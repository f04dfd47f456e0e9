// Package all knows the concepts of Thole. A program that opens a store in which
// they are used, though not by itself, tells the store of them here.
package all

import (
	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/state/decision"
	"github.com/thole-dev/thole/state/document"
	"github.com/thole-dev/thole/state/file"
	"github.com/thole-dev/thole/state/kv"
	"github.com/thole-dev/thole/state/lock"
	"github.com/thole-dev/thole/state/run"
	"github.com/thole-dev/thole/state/thread"
	"github.com/thole-dev/thole/state/todo"
)

// Concepts returns the concepts of Thole, for [thole.Options.Concepts].
func Concepts() []*thole.Concept {
	return []*thole.Concept{
		decision.Concept,
		document.Concept,
		file.Concept,
		kv.Concept,
		lock.Concept,
		run.Concept,
		thread.Concept,
		todo.Concept,
		toCome,
	}
}

// toCome keeps the nouns of concepts that are not there yet.
var toCome = &thole.Concept{
	Name:  "to come",
	About: "concepts that are not there yet",
	Nouns: []string{"agent", "credits", "memory", "task"},
}

// Register tells the store how the records of every concept end whose time is up.
// Every process that sweeps a store does so when it opens the store. Doing it
// again changes nothing. Kinds of records that are not Thole's stay undeclared:
// see [thole.Store.OnExpire].
func Register(s *thole.Store) {
	decision.Register(s)
	document.Register(s)
	file.Register(s)
	kv.Register(s)
	lock.Register(s)
	run.Register(s) // and threads
}
