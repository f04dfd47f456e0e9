package rest

import (
	"testing"

	"github.com/thole-dev/thole/internal/shape"
)

// What a caller may repeat, the server does as often, for every event and every watcher.
func TestEveryListInAParameterHasALimit(t *testing.T) {
	lists := 0
	for _, op := range operations() {
		for _, p := range op.parameters() {
			if p.Shape.Kind != shape.Array {
				continue
			}
			if lists++; p.Max == nil {
				t.Errorf("%s takes any number of %s", op.id, p.Name)
			}
		}
	}
	if lists < 5 {
		t.Errorf("only %d parameters are lists", lists)
	}
}
