package thole

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"slices"
	"time"
)

// upload is what upload/<id> holds while a blob is put in several commits. Each of them
// checks the record and writes it anew, and the one that stores the head deletes it. So
// whoever replaces it first decides: the blob is there, or its chunks go. It expires
// when nothing comes for long, and then a sweep drops it.
//
// A put that relies on a chunk that is there checks it, lists it in the same commit, and
// writes the record "upload", under which dropping deletes: what nobody needed when it
// looked is still not needed then. The bytes are at hand until then, so that a chunk
// which was dropped meanwhile is stored again.
type upload struct {
	Chunks []string `json:"chunks"`
}

const (
	uploadKey  = "upload"
	uploadTTL  = time.Hour
	dropWithin = 10 * time.Second // what is not dropped by then is left to a sweep
)

// blobPut is a blob on its way in.
type blobPut struct {
	ctx    context.Context
	sp     *Space
	whole  hash.Hash
	head   blobHead
	writes []Write  // chunks that are not looked at yet
	upload string   // key; "": nothing was committed yet
	at     Position // its version
}

func (p *blobPut) add(chunk []byte) error {
	p.whole.Write(chunk)
	sum := sha256.Sum256(chunk)
	name := hex.EncodeToString(sum[:])
	value, err := marshal(chunk)
	if err != nil {
		return err
	}
	w := Write{Key: "chunk/" + name, Value: value}
	if !slices.ContainsFunc(p.writes, func(x Write) bool { return x.Key == w.Key }) {
		if len(p.writes) == chunksInCommit {
			if err := p.flush(nil); err != nil {
				return err
			}
		}
		p.writes = append(p.writes, w)
	}
	p.head.Chunks = append(p.head.Chunks, name)
	return nil
}

// flush stores the chunks at hand that the space does not have yet, and notes all of
// them. With a head it stores that too, and ends the upload.
func (p *blobPut) flush(head *Write) error {
	for {
		c, relied, err := p.next(head)
		if err != nil {
			return err
		}
		if head != nil && len(c.Writes) == 0 { // the blob is there
			return nil
		}
		var note []Write // of the upload
		switch {
		case head == nil:
			if p.upload == "" {
				p.upload = uploadKey + "/" + NewID("up")
			}
			value, err := marshal(upload{p.head.Chunks})
			if err != nil {
				return err
			}
			note = []Write{{Key: p.upload, Value: value, Expires: p.sp.time().Add(uploadTTL)}}
		case p.upload != "":
			note = []Write{{Key: p.upload}}
		}
		if len(note) > 0 {
			c.Checks = append(c.Checks, Check{Key: p.upload, At: p.at})
			c.Writes = append(c.Writes, note...)
		}
		if len(relied) > 0 {
			c.Checks = append(c.Checks, relied...)
			c.Writes = append(c.Writes, Write{Key: uploadKey, Value: []byte("null")})
		}
		res, err := p.sp.commit(p.ctx, c)
		var conflict *ConflictError
		if errors.As(err, &conflict) && slices.ContainsFunc(p.writes, func(w Write) bool { return w.Key == conflict.Check.Key }) {
			continue // a chunk was deleted just now
		}
		if err != nil {
			return err
		}
		p.at, p.writes = res.Last, p.writes[:0]
		return nil
	}
}

// next returns the commit of what the space does not have yet, and the checks of what it
// has.
func (p *blobPut) next(head *Write) (c Commit, relied []Check, err error) {
	keys := make([]string, len(p.writes))
	for i, w := range p.writes {
		keys[i] = w.Key
	}
	have, err := p.sp.GetAll(p.ctx, keys...)
	if err != nil {
		return c, nil, err
	}
	for i, w := range p.writes {
		if bytes.Equal(have[i].Value, w.Value) {
			relied = append(relied, Check{Key: w.Key, At: have[i].Version})
		} else {
			c.Writes = append(c.Writes, w)
		}
	}
	if head != nil {
		had, err := p.sp.Get(p.ctx, head.Key)
		if err != nil {
			return c, nil, err
		}
		if !bytes.Equal(had.Value, head.Value) || p.upload != "" {
			c.Writes = append(c.Writes, *head)
		}
	}
	return c, relied, nil
}

func (p *blobPut) finish() (Blob, error) {
	b := Blob{Hash: hex.EncodeToString(p.whole.Sum(nil)), Size: p.head.Size}
	head, err := marshal(p.head)
	if err != nil {
		return Blob{}, err
	}
	return b, p.flush(&Write{Key: "blob/" + b.Hash, Value: head})
}

// drop deletes what was stored of a blob that failed.
func (p *blobPut) drop() {
	if p.upload == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(p.ctx), dropWithin)
	defer cancel()
	sp := p.sp.store.Space(p.sp.name)
	recs, err := sp.store.backend.Get(ctx, sp.name, p.upload)
	if err == nil && recs[0].Exists() {
		err = dropUpload(ctx, sp, recs[0])
	}
	if err != nil {
		sp.store.log.Info("chunks of a blob that failed are left to a sweep", "space", sp.name, "upload", p.upload, "error", err)
	}
}

// dropUpload is the Expirer of upload/<id>: it deletes the chunks that neither a blob
// nor another upload lists.
func dropUpload(ctx context.Context, sp *Space, rec Record) error {
	if rec.Key == uploadKey {
		return DeleteExpired(ctx, sp, rec)
	}
	var u upload
	if err := rec.As(&u); err != nil {
		return err
	}
	// From here on the blob cannot be finished.
	res, err := sp.commit(ctx, Commit{
		Checks: []Check{{Key: rec.Key, At: rec.Version}},
		Writes: []Write{{Key: rec.Key, Value: rec.Value, Expires: sp.store.Now().Add(dropWithin)}},
	})
	if err != nil {
		return err
	}
	own := Check{Key: rec.Key, At: res.Last}
	for tries := 0; ; tries++ {
		err := sp.dropChunks(ctx, own, u.Chunks)
		var conflict *ConflictError
		if !errors.As(err, &conflict) || conflict.Check.Key == rec.Key {
			return err
		}
		if tries == 10 {
			return fmt.Errorf("%s: other uploads rely on its chunks again and again: %v", rec.Key, err) // not ErrConflict: try later
		}
	}
}

// dropChunks deletes chunks of the upload own that nothing else lists, and the upload.
func (sp *Space) dropChunks(ctx context.Context, own Check, chunks []string) error {
	guard, err := sp.store.backend.Get(ctx, sp.name, uploadKey)
	if err != nil {
		return err
	}
	loose := make(map[string]bool, len(chunks))
	for _, name := range chunks {
		loose[name] = true
	}
	for _, prefix := range []string{uploadKey + "/", "blob/"} { // in this order: a blob is finished in one commit
		err := sp.lists(ctx, prefix, func(key string, chunks []string) {
			for _, name := range chunks {
				if key != own.Key {
					delete(loose, name)
				}
			}
		})
		if err != nil {
			return err
		}
	}
	var keys []string
	for name := range loose {
		keys = append(keys, "chunk/"+name)
	}
	slices.Sort(keys)
	unneeded := []Check{own, {Key: uploadKey, At: guard[0].Version}}
	for part := range slices.Chunk(keys, chunksInCommit) {
		recs, err := sp.store.backend.Get(ctx, sp.name, part...)
		if err != nil {
			return err
		}
		c := Commit{Checks: slices.Clone(unneeded)}
		for _, r := range recs {
			if r.Exists() {
				c.Checks = append(c.Checks, Check{Key: r.Key, At: r.Version})
				c.Writes = append(c.Writes, Write{Key: r.Key})
			}
		}
		if len(c.Writes) == 0 {
			continue
		}
		if _, err := sp.commit(ctx, c); err != nil {
			return err
		}
	}
	_, err = sp.commit(ctx, Commit{Checks: []Check{own}, Writes: []Write{{Key: own.Key}}})
	return err
}

// lists calls each with what the blobs, or the uploads, of the space list.
func (sp *Space) lists(ctx context.Context, prefix string, each func(key string, chunks []string)) error {
	for q := (ListQuery{Prefix: prefix, Limit: 100}); ; {
		recs, err := sp.store.backend.List(ctx, sp.name, q)
		if err != nil {
			return err
		}
		for _, r := range recs {
			var u upload // a blob's head has the same member
			if err := r.As(&u); err != nil {
				return err
			}
			each(r.Key, u.Chunks)
			q.After = r.Key
		}
		if len(recs) < q.Limit {
			return nil
		}
	}
}
