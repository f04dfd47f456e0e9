package filestore

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/thole-dev/thole/internal/faultfs"
	"github.com/thole-dev/thole/journal"
)

// FuzzLine gives the decoder of journal lines what damage or a person may have made of
// one: it must refuse the line, or return one that encodes to the same text.
func FuzzLine(f *testing.F) {
	at := journal.Position{Epoch: "0001aaaaaaaa", Seq: 7}
	for _, l := range []*line{
		{Head: &journal.Head{Space: "user:1", Oldest: at, Last: at, Epochs: []journal.Epoch{{Name: at.Epoch, First: 7, Last: 7}}}},
		{At: at, First: 6, Joined: true, Actor: "a\"\\\x01é", Cause: "c", Events: []lineEvent{
			{Seq: 6, Stream: "s", Type: "x.y", Refs: []string{"a", ""}, Schema: 2, Data: json.RawMessage(" {\n} ")},
			{Seq: 7, Stream: "s", Type: "x.y", Redacted: true},
		}},
		{At: at, Writes: []lineWrite{{Key: "k", Value: json.RawMessage(`null`), Notify: true, Expires: time.Unix(1, 0)}, {Key: "d", Deleted: true}, {Key: "e", Erased: true}}},
	} {
		f.Add(bytes.TrimSuffix(l.append(nil)[crcLen:], []byte("\n")))
	}
	f.Fuzz(func(t *testing.T, rest []byte) {
		text := append([]byte(crcPrefix+`00000000",`), rest...)
		seal(text)
		l, err := parseLine(text)
		if err != nil {
			return
		}
		again, err := parseLine(bytes.TrimSuffix(l.append(nil), []byte("\n")))
		if err != nil {
			t.Fatalf("%s: what was read cannot be read again: %v", text, err)
		}
		if got, want := again.append(nil), l.append(nil); !bytes.Equal(got, want) {
			t.Errorf("written and read:\ngot  %s\nwant %s", got, want)
		}
	})
}

// FuzzRecord is FuzzLine for files of records.
func FuzzRecord(f *testing.F) {
	for _, value := range []string{`null`, ` { "a" : [ 1 ] } `, `"é\u0000"`, `{"a":{"b":{}}}`} {
		f.Add(encodeRecord(&journal.Record{Key: "a/B", Value: []byte(value), Version: journal.Position{Epoch: "0001aaaaaaaa", Seq: 7}, Schema: 1, Expires: time.Unix(2, 0), Notify: true}))
	}
	f.Add([]byte(`{"value":1}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		r, _, err := decodeRecord(data)
		if err != nil {
			return
		}
		r.Version = journal.Position{Epoch: "0001aaaaaaaa", Seq: 7}
		again, ours, err := decodeRecord(encodeRecord(&r))
		if err != nil || !ours || !reflect.DeepEqual(again, r) {
			t.Errorf("written and read:\ngot  %+v, %v, %v\nwant %+v", again, ours, err, r)
		}
	})
}

// FuzzManifest appends to the notes what a crash or a person may have written. What is
// not a sealed note changes nothing, and no sealed note may break the store.
func FuzzManifest(f *testing.F) {
	f.Add([]byte(`"space":"user:1","era":1,"gone":true}`), true)
	f.Add([]byte(`"space":"user:1","segment":1,"size":9,"tail":"00000000","last":"0001aaaaaaaa-0000000000000009"}`), true)
	f.Add([]byte(`"space":"user:1","rewriting":true,"began":true}`), true)
	f.Add([]byte("\n\n{}\n\x00"), false)
	f.Fuzz(func(t *testing.T, rest []byte, good bool) {
		disk := faultfs.New(1)
		o := &Options{FS: disk, Lag: -1, Log: slog.New(slog.DiscardHandler)}
		s, err := Open(t.Context(), "/store", o)
		if err != nil {
			t.Fatal(err)
		}
		c := journal.Commit{Space: "user:1", Now: time.Unix(1, 0), Events: []journal.Event{{Stream: "s", Type: "x.y"}}, Writes: []journal.Write{{Key: "k", Value: []byte(`1`)}}}
		if _, err := s.Commit(t.Context(), []journal.Commit{c}); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		text := append([]byte(crcPrefix+`00000000",`), rest...)
		if good {
			seal(text)
		}
		m, err := disk.OpenFile("/store/.thole/manifest", os.O_RDWR)
		if err != nil {
			t.Fatal(err)
		}
		info, err := m.Stat()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := m.WriteAt(append(text, '\n'), info.Size()); err != nil {
			t.Fatal(err)
		}
		if s, err = Open(t.Context(), "/store", o); err != nil {
			if !good {
				t.Errorf("open: %v", err)
			}
			return
		}
		defer s.Close()
		heads, err := s.Heads(t.Context(), "user:1")
		if !good && (err != nil || heads[0].Last.Seq != 1 || len(heads[0].Epochs) != 1) {
			t.Errorf("head: got %+v, %v, want one commit of one epoch", heads, err)
		}
	})
}

// FuzzName looks for keys whose file names some file system takes for equal.
func FuzzName(f *testing.F) {
	for _, key := range []string{"", "a", "A", "a/b", ".", "..", "a.json", "con", "NUL.x", "/", strings.Repeat("é", 128)} {
		f.Add(key, "a/"+key)
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		fileA, fileB := recordFile(a), recordFile(b)
		if a != b && strings.EqualFold(fileA, fileB) {
			t.Errorf("keys %q and %q have the files %q and %q", a, b, fileA, fileB)
		}
		if strings.HasPrefix(fileB, fileA+string(filepath.Separator)) {
			t.Errorf("the file of %q is a directory of %q: %q", a, b, fileB)
		}
		for part := range strings.SplitSeq(fileA, string(filepath.Separator)) {
			if part == "" || part[0] == '.' || len(part) > 255 || strings.ContainsAny(part, "\\:*?\"<>|\x00 ") || strings.HasSuffix(part, ".") {
				t.Errorf("key %q: no file may be named %q", a, part)
			}
		}
		if key, ok := keyOf(fileA); ok && key != a {
			t.Errorf("the file of %q is that of %q", a, key)
		}
	})
}
