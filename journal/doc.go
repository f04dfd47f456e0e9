// Package journal holds the words of Thole and the contract of a backend: what a
// position, an event, a record, a commit and a conflict are, the rules that are the
// same for all backends, and [Backend].
//
// Programs meet these words through package thole, which aliases them. Packages
// that keep spaces, or work on the way between a Store and its backend, import this
// package and not the root.
package journal
