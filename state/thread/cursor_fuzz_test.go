package thread

import (
	"errors"
	"testing"

	"github.com/thole-dev/thole"
)

func FuzzCursorFromOutside(f *testing.F) {
	for _, s := range []string{"", "0001deadbeef-0000000000000001", "0001deadbeef-0000000000000001.3", "0001deadbeef-0000000000000001.+3", ".1", "0001deadbeef-0000000000000001.99999999999999999999"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := parseCursor(s)
		if err != nil {
			if !errors.Is(err, thole.ErrInvalid) {
				t.Errorf("%q: got %v, want ErrInvalid", s, err)
			}
			return
		}
		again, err := parseCursor(c.String())
		if err != nil || again != c {
			t.Errorf("%q is printed as %q, which is read as %v, %v", s, c, again, err)
		}
	})
}
