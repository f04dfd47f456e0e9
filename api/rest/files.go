package rest

import (
	"encoding/base64"
	"encoding/json"

	"github.com/thole-dev/thole/state/file"
)

// fileRoutes are what an editor outside needs so that nobody's edit is lost. A
// path takes all the rest of a URL, so what is asked of it stands before it.
func fileRoutes() []route {
	const all, one = "/v1/spaces/{space}/files", "/v1/spaces/{space}/files/{path...}"
	return []route{
		{method: "GET", path: all, tag: "files", access: read, query: pagingParams(),
			summary: "List the files that are known, with the hash of what they are", do: gives(listFiles)},
		{method: "GET", path: one, tag: "files", access: read, etag: true, summary: "Read what is known of a file", do: gives(getFile)},
		{method: "POST", path: one, tag: "files", access: write, status: 201,
			summary: "Record that a file was changed; 409 if it was not what the change was made from", do: takes(changeFile)},
		{method: "PUT", path: one, tag: "files", access: write,
			summary: "Record what a file was found to be; what is news is a change by user:hand", do: takes(findFile)},
		{method: "GET", path: "/v1/spaces/{space}/file-history/{path...}", tag: "files", access: read, query: pagingParams(),
			summary: "List a file's changes, newest first", do: gives(fileHistory)},
		{method: "POST", path: "/v1/spaces/{space}/file-conflicts/{path...}", tag: "files", access: write,
			summary: "Report an edit that could not be applied, so that its author and every screen hear of it", do: takes(reportConflict)},
	}
}

func listFiles(c *call) (page[file.File], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[file.File]{}, err
	}
	p, err := file.In(c.space).List(c.ctx, &file.ListOptions{After: c.arg("cursor"), Limit: limit})
	return pageOf(p.Files, p.Next), err
}

func getFile(c *call) (file.File, error) {
	f, err := file.In(c.space).Get(c.ctx, c.r.PathValue("path"))
	c.version(f.Version)
	return f, err
}

// FileChange says what a file was and became; hashes are the SHA-256 of the
// content in hex.
type FileChange struct {
	Before   string        `json:"before_hash,omitempty" doc:"of what the change was made from; empty: there was no file"`
	After    string        `json:"after_hash,omitempty" doc:"empty: the file is gone"`
	Contents *FileContents `json:"contents,omitempty" doc:"kept as blobs, so that the change can be undone"`
}

// FileContents are the bytes before and after a change, in base64.
type FileContents struct {
	Before string `json:"before,omitempty"`
	After  string `json:"after,omitempty"`
}

func (in *FileContents) decode() (*file.Contents, error) {
	if in == nil {
		return nil, nil
	}
	before, err := base64.StdEncoding.DecodeString(in.Before)
	if err != nil {
		return nil, invalid("contents.before", "is not base64: %v", err)
	}
	after, err := base64.StdEncoding.DecodeString(in.After)
	if err != nil {
		return nil, invalid("contents.after", "is not base64: %v", err)
	}
	return &file.Contents{Before: before, After: after}, nil
}

func changeFile(c *call, in FileChange) (file.File, error) {
	contents, err := in.Contents.decode()
	if err != nil {
		return file.File{}, err
	}
	f, err := file.In(c.space).Changed(c.ctx, c.r.PathValue("path"), in.Before, in.After, contents)
	if err != nil {
		return file.File{}, err
	}
	c.version(f.Version)
	return f, nil
}

// FoundFile says what a file is.
type FoundFile struct {
	Hash string `json:"hash,omitempty" doc:"empty: there is no file"`
}

func findFile(c *call, in FoundFile) (file.File, error) {
	f, err := file.In(c.space).Found(c.ctx, c.r.PathValue("path"), in.Hash)
	if err != nil {
		return file.File{}, err
	}
	c.version(f.Version)
	return f, nil
}

func fileHistory(c *call) (page[file.Entry], error) {
	limit, err := c.limit(100)
	if err != nil {
		return page[file.Entry]{}, err
	}
	before, err := c.position("cursor")
	if err != nil {
		return page[file.Entry]{}, err
	}
	h, err := file.In(c.space).History(c.ctx, c.r.PathValue("path"), &file.HistoryOptions{Before: before, Limit: limit})
	return pageOf(h.Entries, h.Next.String()), err
}

// NewConflict is an edit that did not fit what the file had become.
type NewConflict struct {
	Base     string          `json:"base_hash" doc:"of what the edit was made from"`
	Ours     string          `json:"ours_hash" doc:"of what it would have made"`
	Theirs   string          `json:"theirs_hash" doc:"of what was there"`
	Rejected json.RawMessage `json:"rejected,omitempty" doc:"what was not applied"`
}

func reportConflict(c *call, in NewConflict) (none, error) {
	return none{}, file.In(c.space).Conflict(c.ctx, file.Conflict{
		Path: c.r.PathValue("path"), Base: in.Base, Ours: in.Ours, Theirs: in.Theirs, Rejected: in.Rejected,
	})
}
