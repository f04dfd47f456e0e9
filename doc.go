// Package thole is the kernel of Thole, the state layer for AI agents.
//
// There is one idea: every change is a commit to an ordered journal, and
// whoever wants to know holds a cursor into it. The words:
//
//   - A space ("project:shop", "user:42", "global") is the unit of isolation,
//     order and atomicity. It owns one journal and one set of records.
//   - A journal is the space's totally ordered events. Each event is in one
//     named stream and has a [Position].
//   - A record is the current JSON value under a key, with the position of the
//     commit that wrote it as its version.
//   - A [Commit] is checks, events and record writes, applied together or not
//     at all.
//   - A [Watch] is a cursor in motion. A [Broadcast] is live only and never
//     replayed.
//
// Open a backend (package backend, or one of its engines directly), hand it to
// [Open], and work with the [Space] values that [Store.Space] returns. The
// concepts (thread, run, document, lock, …) in state/ are built on this package
// and on nothing else.
package thole
