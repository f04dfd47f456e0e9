package memstore_test

import (
	"testing"

	"github.com/thole-dev/thole/backend/backendtest"
	"github.com/thole-dev/thole/backend/memstore"
)

func open(testing.TB) backendtest.Harness {
	return backendtest.Harness{
		Backend: memstore.New(),
		Lacks:   []backendtest.Ability{backendtest.Hints, backendtest.Broadcasts, backendtest.Reopening, backendtest.Seconds},
	}
}

func TestContract(t *testing.T) { backendtest.Run(t, open) }

func TestModel(t *testing.T) { backendtest.Model(t, open, 0) }

func TestBrokenBackendsAreRejected(t *testing.T) { backendtest.RejectBroken(t, open) }
