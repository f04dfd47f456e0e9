//go:build faults

package sqlitestore_test

const schedules = 1000
