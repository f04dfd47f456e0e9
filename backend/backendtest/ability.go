package backendtest

import (
	"fmt"
	"slices"
	"strings"

	"github.com/thole-dev/thole/journal"
)

// Ability is something that a [Harness] may lack.
type Ability string

// The abilities. A harness declares those it lacks in Harness.Lacks.
const (
	Hints      Ability = "hints"           // Backend gives hints
	Broadcasts Ability = "broadcasts"      // Backend sends and receives broadcasts
	Reopening  Ability = "reopening"       // Reopen is set
	Seconds    Ability = "second instance" // Second is set
)

func (h Harness) has(a Ability) bool {
	switch a {
	case Hints:
		return h.Backend.Capabilities().Hints != nil
	case Broadcasts:
		can := h.Backend.Capabilities()
		return can.SendBroadcasts != nil && can.ReceiveBroadcasts != nil
	case Reopening:
		return h.Reopen != nil
	default:
		return h.Second != nil
	}
}

// lacks reports whether the harness lacks one of the abilities that a case needs. If
// so, the case counts as absent.
func (e *env) lacks(needed ...Ability) bool {
	e.absent = slices.ContainsFunc(needed, func(a Ability) bool { return !e.harness.has(a) })
	return e.absent
}

func abilityCases() []testCase {
	return []testCase{
		{"ability/what the harness lacks is declared", abilityDeclared},
		{"ability/durability is one of the four grades", durabilityKnown},
	}
}

func abilityDeclared(e *env) {
	for _, a := range []Ability{Hints, Broadcasts, Reopening, Seconds} {
		has, lacks := e.harness.has(a), slices.Contains(e.harness.Lacks, a)
		e.ok(has != lacks, "ability %q: the harness has it: %v; it declares to lack it: %v", a, has, lacks)
	}
}

// typeOf returns the name of a backend for reports.
func typeOf(b journal.Backend) string { return strings.TrimPrefix(fmt.Sprintf("%T", b), "*") }

func durabilityKnown(e *env) {
	switch got := e.harness.Backend.Capabilities().Durability; got {
	case journal.Sync, journal.Replicated, journal.Relaxed, journal.None:
	default:
		e.ok(false, "durability: got %q", got)
	}
}
