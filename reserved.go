package thole

import (
	"iter"
	"slices"
	"strings"
)

// reserved are the first parts of the names on which every Store on a backend
// acts by itself, or which say who may do what.
var reserved = []string{
	"outbox", "sent", // work over two spaces
	"idem",          // receipts of idempotency keys
	"snap",          // snapshots
	"erased",        // when something was last purged
	"blob", "chunk", // contents, named by their hash
	"upload",           // contents on their way in
	"sweeper", "token", // who sweeps; the tokens of package api/auth
}

// Reserved reports whether a key or a stream belongs to the kernel: the outbox
// and its receipts, idempotency, snapshots, blobs, tokens, and the two records of
// a lease below any key but those of applications (app/… and kv/…, where no
// concept keeps a lease). A Store acts on them without asking who wrote them.
// So a server lets only those write them from outside who may do everything in
// every space, and a commit that goes through the outbox cannot hold them.
func Reserved(name string) bool {
	if kind, _, _ := strings.Cut(name, "/"); slices.Contains(reserved, kind) {
		return true
	}
	_, _, lease := LeaseOf(name)
	return lease
}

// LeaseOf tells the two records of a lease (see [Tx.Acquire]) from other records:
// it returns the base of the lease and the part of it that is under key, "owner"
// or "beat". A base has at least two parts, so document/owner is a document; below
// app/ and kv/ names are an application's, and no concept keeps a lease there.
func LeaseOf(key string) (base, part string, ok bool) {
	kind, below, _ := strings.Cut(key, "/")
	if kind == "app" || kind == "kv" || !strings.Contains(below, "/") {
		return "", "", false
	}
	end := strings.LastIndexByte(key, '/')
	base, part = key[:end], key[end+1:]
	return base, part, part == "owner" || part == "beat"
}

// AnyReserved reports whether one of names is [Reserved].
func AnyReserved(names iter.Seq[string]) bool {
	for name := range names {
		if Reserved(name) {
			return true
		}
	}
	return false
}
