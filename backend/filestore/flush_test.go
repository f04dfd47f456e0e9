package filestore_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// syncTime is how long a sync of a slowDisk takes.
const syncTime = 10 * time.Millisecond

// slowDisk is a disk whose files wait while they sync.
type slowDisk struct {
	*faultfs.FS
	wait func()
}

func (d slowDisk) OpenFile(name string, flag int) (filestore.File, error) {
	f, err := d.FS.OpenFile(name, flag)
	return slowFile{f, d.wait}, err
}

type slowFile struct {
	filestore.File
	wait func()
}

func (f slowFile) Sync() error {
	f.wait()
	return f.File.Sync()
}

// One flush, which pauses, runs beside commits; another one has a caller that waits for
// it.
func TestFilesOfRecordsLeaveCommitsTheirTimeButNoFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const records = 50
		disk := slowDisk{faultfs.New(1), func() { time.Sleep(syncTime) }}
		s := open(t, "/store", &filestore.Options{FS: disk, Lag: time.Millisecond})
		c := journal.Commit{Space: "user:1", Now: time.Now()}
		for i := range records {
			c.Writes = append(c.Writes, journal.Write{Key: fmt.Sprint("k/", i), Value: []byte(`{}`)})
		}
		commit := func() {
			if _, err := s.Commit(t.Context(), []journal.Commit{c}); err != nil {
				t.Error(err)
			}
		}
		commit()
		c.Writes = c.Writes[:1]
		for range 4 * records {
			commit()
		}
		if entries, err := disk.ReadDir("/store/user/1/records/k"); err == nil {
			t.Errorf("after %d commits the files of %d records are there, want them to leave the disk to commits", 4*records, len(entries))
		}
		began := time.Now()
		if err := s.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		if took, most := time.Since(began), 2*records*syncTime; took > most {
			t.Errorf("Flush took %v, want at most %v", took, most)
		}
		entries, err := disk.ReadDir("/store/user/1/records/k")
		if err != nil || len(entries) != records {
			t.Errorf("after Flush the files of %d records are there, %v; want %d", len(entries), err, records)
		}
	})
}
