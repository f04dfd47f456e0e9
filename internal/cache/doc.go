// Package cache keeps records and projections in memory, so that a Store does not have
// to read or decode them again. Entries may be out of date: a commit checks them, or
// the caller compares versions.
package cache
