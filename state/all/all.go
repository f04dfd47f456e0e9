// Package all lists Thole's concepts, for programs that open a store for all of them.
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

// Concepts returns Thole's concepts, for [thole.Options.Concepts].
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

// toCome reserves the nouns of future concepts.
var toCome = &thole.Concept{
	Name:  "to come",
	About: "concepts that are not there yet",
	Nouns: []string{"agent", "credits", "memory", "task"},
}
