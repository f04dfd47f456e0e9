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

// upload is the record upload/<id> of a blob that takes several commits. Each of these
// commits checks the record and writes it again; the last, which stores the head,
// deletes it. So either the blob is finished or the upload is dropped, whichever
// commits first. The record expires if nothing is written for uploadTTL; a sweep then
// drops the upload.
//
// A put that relies on an existing chunk checks it, lists it in the same commit, and
// writes the record "upload". A commit that deletes chunks checks the version of
// "upload", so chunks that were unused when it looked are still unused then. The put
// keeps a chunk's bytes until that commit, so that it can store a chunk again that was
// deleted meanwhile.
type upload struct {
	Chunks []string `json:"chunks"`
}

const (
	uploadKey  = "upload"
	uploadTTL  = time.Hour
	dropWithin = 10 * time.Second // an upload that is not dropped by then is left to a sweep
)

// blobPut is a call of PutBlob.
type blobPut struct {
	ctx    context.Context
	sp     *Space
	whole  hash.Hash
	head   blobHead
	writes []Write  // chunks that are not flushed yet
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

// flush stores those of p.writes that the space does not have yet, and lists all of
// them in the upload. If head is not nil, it stores that too and ends the upload.
func (p *blobPut) flush(head *Write) error {
	for {
		c, relied, err := p.next(head)
		if err != nil {
			return err
		}
		if head != nil && len(c.Writes) == 0 { // the space has the blob
			return nil
		}
		var note []Write // the write of upload/<id>
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

// next returns the commit of the chunks that the space does not have yet, and checks of
// those it has.
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

// drop deletes what a failed put has stored.
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

// dropUpload is the Expirer of upload/<id>. It deletes the upload and those of its
// chunks that neither a blob nor another upload lists.
func dropUpload(ctx context.Context, sp *Space, rec Record) error {
	if rec.Key == uploadKey {
		return DeleteExpired(ctx, sp, rec)
	}
	var u upload
	if err := rec.As(&u); err != nil {
		return err
	}
	// After this commit the put cannot finish the blob any more.
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
			return fmt.Errorf("%s: other uploads rely on its chunks again and again: %v", rec.Key, err) // not ErrConflict, so that the sweeper tries again later
		}
	}
}

// dropChunks deletes those of the upload's chunks that nothing else lists, then the
// upload.
func (sp *Space) dropChunks(ctx context.Context, own Check, chunks []string) error {
	guard, err := sp.store.backend.Get(ctx, sp.name, uploadKey)
	if err != nil {
		return err
	}
	loose := make(map[string]bool, len(chunks))
	for _, name := range chunks {
		loose[name] = true
	}
	for _, prefix := range []string{uploadKey + "/", "blob/"} { // in this order: one commit deletes an upload and stores its head
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

// lists calls each with the chunks of every upload or blob of the space, by prefix.
func (sp *Space) lists(ctx context.Context, prefix string, each func(key string, chunks []string)) error {
	for q := (ListQuery{Prefix: prefix, Limit: 100}); ; {
		recs, err := sp.store.backend.List(ctx, sp.name, q)
		if err != nil {
			return err
		}
		for _, r := range recs {
			var u upload // a blob's head has the same member "chunks"
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
