// Package cache keeps in memory what a Store need not read or decode again. Nothing
// that is kept is taken on trust: a commit checks it, or the caller compares versions.
package cache
