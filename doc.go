// Package thole is the kernel of Thole, the state layer for AI agents.
//
// It has one idea: every change is a commit to an ordered journal, and every
// reader follows the journal with a cursor. The terms:
//
//   - A space ("project:shop", "user:42", "global") is the unit of isolation,
//     order and atomicity. It has one journal and one set of records.
//   - A journal is the space's totally ordered events. Each event is in one
//     named stream and has a [Position].
//   - A record is the current JSON value under a key. Its version is the
//     position of the commit that wrote it.
//   - A [Commit] consists of checks, events and record writes, which are applied
//     together or not at all.
//   - A [Watch] is a cursor that delivers events as they are committed.
//   - A broadcast ([Space.Broadcast]) is a live message to the current watchers
//     and is never replayed.
//
// Open a backend (with package backend, or with the package of one engine), pass
// it to [Open], and use the [Space] values that [Store.Space] returns. The
// concepts in state/ (thread, run, document, lock, …) are built on this package.
//
// To read the package, begin with space.go and tx.go: what a program reads and commits.
// A commit is checked by validate.go and fence.go, and queued by package groupcommit.
// Watches (watch.go) are served by package fanout. Leases are taken and renewed by
// lease.go, judged by beat.go and, like all that expires, ended by sweep.go. A
// [Concept] (concept.go) declares what a package in state/ keeps.
package thole
