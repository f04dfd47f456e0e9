package sqlitestore_test

import "testing"

// A check that cannot fail proves nothing. Each of these disks lies in a way that
// SQLite cannot repair, and the same schedules must detect that.
func TestSchedulesFindOutADiskThatLies(t *testing.T) {
	for name, l := range map[string]lie{
		"syncs nothing (as with synchronous=OFF)": syncsNothing,
		"does not sync the log":                   syncsNoLog,
		"does not sync the database":              syncsNoData,
		"writes less than it says":                writesLess,
		"returns another page":                    mixesUp,
	} {
		t.Run(name, func(t *testing.T) {
			const most = 100
			for seed := range uint64(most) {
				if _, err := runSchedule(seed, t.TempDir(), l); err != nil {
					t.Logf("found out by schedule %d: %.300v", seed, err)
					return
				}
			}
			t.Errorf("%d schedules found nothing wrong", most)
		})
	}
}
