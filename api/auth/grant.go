// Package auth says who may do what: tokens and the grants they carry. Tokens
// live in the store itself, in the space global, so that every process on one
// store accepts the same ones and a revocation holds everywhere at once.
package auth

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/journal"
)

// Access is how much a grant allows. Each grade includes the ones before it.
type Access string

// The grades of access.
const (
	Read  Access = "read"  // see state and watch events
	Write Access = "write" // also change state
	Work  Access = "work"  // also claim runs, those of private threads too, and do what their workers do
	Admin Access = "admin" // also purge, and commit outside app/…
)

func (a Access) grade() int { return slices.Index([]Access{Read, Write, Work, Admin}, a) + 1 }

// Allows reports whether a is need or a higher grade.
func (a Access) Allows(need Access) bool { return a.grade() > 0 && a.grade() >= need.grade() }

// Grant allows access to the spaces that match a pattern, or only to some
// threads in them.
type Grant struct {
	Space   string   `json:"space"`             // "project:shop", "project:*" or "*"
	Access  Access   `json:"access"`            // read, write, work or admin
	Threads []string `json:"threads,omitempty"` // only these threads; empty: everything in the space
}

// Check returns ErrInvalid for a grant that could never match, or whose meaning
// differs from what it seems to say.
func (g Grant) Check() error {
	if g.Access.grade() == 0 {
		return fmt.Errorf("%w: access %.20q is not read, write, work or admin", thole.ErrInvalid, g.Access)
	}
	if g.Access == Admin && len(g.Threads) > 0 {
		return fmt.Errorf("%w: a grant that is narrowed to threads cannot be admin", thole.ErrInvalid)
	}
	if err := journal.CheckSpacePattern(g.Space); err != nil {
		return err
	}
	for _, id := range g.Threads {
		if err := thole.CheckID("thrd", id); err != nil {
			return err
		}
	}
	return nil
}

// matches reports whether the grant covers the space. A space whose name is no
// longer valid, such as "project:*", is covered by grants on "*" only.
func (g Grant) matches(space string) bool {
	switch {
	case g.Space == "*":
		return true
	case journal.CheckSpaceName(space) != nil:
		return false
	case g.Space == space:
		return true
	}
	kind, wild := strings.CutSuffix(g.Space, "*")
	return wild && strings.HasSuffix(kind, ":") && strings.HasPrefix(space, kind)
}

// Scope is the part of a space that the grants allow. The zero Scope is the whole
// space.
type Scope struct {
	Narrowed bool
	Threads  []string // if Narrowed, only these
}

// Thread reports whether the thread is in the scope.
func (s Scope) Thread(id string) bool { return !s.Narrowed || slices.Contains(s.Threads, id) }

// Allows reports whether the grants give need in the space, and in which part of
// it: one grant on the whole space outweighs narrowed ones, and narrowed ones add
// up.
func Allows(grants []Grant, space string, need Access) (Scope, bool) {
	narrowed := Scope{Narrowed: true}
	for _, g := range grants {
		if !g.matches(space) || !g.Access.Allows(need) {
			continue
		}
		if len(g.Threads) == 0 {
			return Scope{}, true
		}
		narrowed.Threads = append(narrowed.Threads, g.Threads...)
	}
	return narrowed, len(narrowed.Threads) > 0
}
