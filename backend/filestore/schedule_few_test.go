//go:build !faults

package filestore_test

// schedules is how many random fault schedules are tried.
const schedules = 60
