// Package journal defines Thole's basic types (position, event, record, commit,
// conflict), the rules that are the same for all backends, and the [Backend] interface.
//
// Programs use these types through package thole, which aliases them. Backends, and the
// packages that work between a Store and its backend, import this package instead of
// the root.
package journal
