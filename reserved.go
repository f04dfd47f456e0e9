package thole

import (
	"iter"
	"slices"
	"strings"
)

// reserved are the first parts of names that belong to the kernel: Stores act on these
// records by themselves, or they grant rights.
var reserved = []string{
	"outbox", "sent", // commits to other spaces
	"idem",          // receipts of idempotency keys
	"snap",          // snapshots
	"erased",        // the last purge, and purges in progress
	"blob", "chunk", // content, named by its hash
	"upload",           // blobs that are being put
	"sweeper", "token", // leases of sweepers; the tokens of package api/auth
}

// Reserved reports whether a key or a stream belongs to the kernel: the outbox and its
// verdicts, receipts of idempotency keys, snapshots, blobs, tokens, and the two records
// of a lease, except below app/ and kv/, where no concept keeps a lease. A Store trusts
// these records, no matter who wrote them. So a server lets only admins of all spaces
// write them, and a commit sent through the outbox cannot contain them.
func Reserved(name string) bool {
	if kind, _, _ := strings.Cut(name, "/"); slices.Contains(reserved, kind) {
		return true
	}
	_, _, lease := LeaseOf(name)
	return lease
}

// LeaseOf reports whether key is one of the two records of a lease (see [Tx.Acquire])
// and returns the base of the lease and the last part of the key, "owner" or "beat". A
// base has at least two parts, so document/owner is a document. Names below app/ and
// kv/ belong to applications and are never leases.
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
