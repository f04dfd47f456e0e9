package rest

import (
	"github.com/thole-dev/thole/state/file"
)

func fileRoutes() []route {
	const all, one = "/v1/spaces/{space}/files", "/v1/spaces/{space}/files/{path...}"
	return []route{
		{method: "GET", path: all, tag: "files", access: read, query: pagingParams(),
			summary: "List the files that are known, with the hash of what they are", do: gives(listFiles)},
		{method: "GET", path: one, tag: "files", access: read, etag: true, summary: "Read what is known of a file", do: gives(getFile)},
		{method: "POST", path: one, tag: "files", access: write, status: 201,
			summary: "Record that a file was changed; 409 if it was not what the change was made from", do: takes(changeFile)},
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
	Before string `json:"before_hash" jsonschema:"description=of what the change was made from; empty: there was no file"`
	After  string `json:"after_hash" jsonschema:"description=empty: the file is gone"`
}

func changeFile(c *call, in FileChange) (file.File, error) {
	f, err := file.In(c.space).Changed(c.ctx, c.r.PathValue("path"), in.Before, in.After, nil)
	if err != nil {
		return file.File{}, err
	}
	c.version(f.Version)
	return f, nil
}
