package rest

import (
	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/auth"
	"github.com/thole-dev/thole/state/all"
)

// Concepts returns the concepts that the store of an [API] must be opened with: those
// of package state/all, and tokens.
func Concepts() []*thole.Concept { return append(all.Concepts(), auth.Concept) }
