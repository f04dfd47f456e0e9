package clip

import "testing"

func TestTextIsCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		s    string
		n    int
		want string
	}{
		{"short", 5, "short"},
		{"longer", 5, "lo…"},
		{"éééé", 6, "é…"},
		{"éééé", 3, "…"},
	} {
		if got := Text(c.s, c.n); got != c.want {
			t.Errorf("Text(%q, %d) = %q, want %q", c.s, c.n, got, c.want)
		}
	}
}
