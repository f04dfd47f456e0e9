//go:build race

package effort

// Race reports whether the race detector watches.
const Race = true
