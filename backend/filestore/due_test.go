package filestore_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// someday is when records of schedules expire, long after their commits.
var someday = time.Unix(1e9, 0).UTC()

// dueSpaces returns the spaces with records that expire by then, as a store knows them
// after a round of its patrol.
func dueSpaces(ctx context.Context, s *filestore.Store) ([]string, error) {
	if err := s.Patrol(ctx); err != nil {
		return nil, err
	}
	return s.Spaces(ctx, journal.SpacesQuery{DueBy: someday})
}

// expiring commits a record that expires a second after now.
func expiring(t *testing.T, s *filestore.Store, space string, now time.Time) {
	t.Helper()
	c := journal.Commit{Space: space, Now: now, Writes: []journal.Write{{Key: "run/1/beat", Value: []byte(`1`), Expires: now.Add(time.Second), Notify: true}}}
	if res, err := s.Commit(t.Context(), []journal.Commit{c}); err != nil || res[0].Conflict != nil {
		t.Fatalf("commit: %v, %v", res, err)
	}
}

// isDue fails if the sweep would never find the records of the space that expire soon
// after now.
func isDue(t *testing.T, who string, s *filestore.Store, space string, now time.Time) {
	t.Helper()
	due, err := s.Spaces(t.Context(), journal.SpacesQuery{DueBy: now.Add(time.Hour)})
	if err != nil || !slices.Contains(due, space) {
		t.Errorf("%s: spaces that are due: got %v, %v, want %s among them", who, due, err, space)
	}
}

// isSettled fails if the space counts as due although it has no expired record.
func isSettled(t *testing.T, s *filestore.Store, space string, now time.Time) {
	t.Helper()
	if _, err := s.List(t.Context(), space, journal.ListQuery{DueBy: now}); err != nil {
		t.Fatal(err)
	}
	if due, err := s.Spaces(t.Context(), journal.SpacesQuery{DueBy: now}); err != nil || slices.Contains(due, space) {
		t.Errorf("once it was read: spaces that are due: got %v, %v, want %s not among them", due, err, space)
	}
}

// Notes are not synced: a power failure loses the one that says that a record expires.
func TestWhatExpiresIsDueAfterPowerLossThoughNobodyTouchesItsSpace(t *testing.T) {
	for name, segment := range map[string]int64{"in the segment that was noted": 0, "in the next segment": 1} {
		t.Run(name, func(t *testing.T) {
			now := time.Now()
			for seed := range uint64(20) { // chance decides whether a note survives
				disk := faultfs.New(seed)
				opts := &filestore.Options{FS: disk, Log: quiet, Lag: -1, SegmentBytes: segment}
				s, err := filestore.Open(t.Context(), "/store", opts)
				if err != nil {
					t.Fatal(err)
				}
				for _, space := range []string{"user:1", "user:2"} { // the second one syncs the notes of the first
					if _, err := s.Commit(t.Context(), []journal.Commit{{Space: space, Now: now, Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}}}); err != nil {
						t.Fatal(err)
					}
				}
				expiring(t, s, "user:1", now)
				opts.FS = disk.Crash()
				s.Close() // it may fail
				s = open(t, "/store", opts)
				isDue(t, "opened again", s, "user:1", now)
				isSettled(t, s, "user:1", now)
			}
		})
	}
}

// A process is killed before it could note its last commit.
func TestWhatExpiresIsDueThoughItsProcessDiedBeforeItCouldTell(t *testing.T) {
	now := time.Now()
	disk := faultfs.New(1)
	process := disk.Process()
	dying := &picky{FS: process}
	a, err := filestore.Open(t.Context(), "/store", &filestore.Options{FS: dying, Log: quiet, Lag: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer a.Close()
	if _, err := a.Commit(t.Context(), []journal.Commit{{Space: "user:1", Now: now, Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}}}); err != nil {
		t.Fatal(err)
	}
	living := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	dying.write = of("manifest", faultfs.ErrKilled)
	expiring(t, a, "user:1", now)
	process.Kill()

	if err := living.Patrol(t.Context()); err != nil {
		t.Fatal(err)
	}
	isDue(t, "the process that lives", living, "user:1", now)
	next := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	isDue(t, "a process that opens the store", next, "user:1", now)
	isSettled(t, living, "user:1", now)
	isSettled(t, next, "user:1", now)
}

// A note that is news for one process may lack what its writer, which has died, did next.
func TestASpaceStaysDueUntilItIsReadWhateverOthersNote(t *testing.T) {
	now := time.Now()
	disk := faultfs.New(1)
	write := func(s *filestore.Store) {
		t.Helper()
		if _, err := s.Commit(t.Context(), []journal.Commit{{Space: "user:1", Now: now, Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}}}); err != nil {
			t.Fatal(err)
		}
	}
	start := func() (s *filestore.Store, dying *picky, process *faultfs.Process) {
		t.Helper()
		process = disk.Process()
		dying = &picky{FS: process}
		s, err := filestore.Open(t.Context(), "/store", &filestore.Options{FS: dying, Log: quiet, Lag: -1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })
		return s, dying, process
	}
	first, dying, process := start()
	write(first)
	living := open(t, "/store", &filestore.Options{FS: disk, Lag: -1})
	dying.write = of("manifest", faultfs.ErrKilled)
	write(first)
	process.Kill()
	if err := living.Patrol(t.Context()); err != nil {
		t.Fatal(err)
	}
	isDue(t, "after the first death", living, "user:1", now)

	second, dying, process := start()
	write(second)
	dying.write = of("manifest", faultfs.ErrKilled)
	expiring(t, second, "user:1", now)
	process.Kill()
	isDue(t, "after the second death", living, "user:1", now)
	isSettled(t, living, "user:1", now)
}
