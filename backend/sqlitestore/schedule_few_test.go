//go:build !faults

package sqlitestore_test

// schedules is how many run; with the tag faults it is more.
const schedules = 15
