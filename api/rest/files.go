package rest

import (
	"encoding/json"

	"github.com/thole-dev/thole/journal"
	"github.com/thole-dev/thole/state/file"
)

// fileOperations returns the operations that an external editor needs so that no
// edit is lost. A file's path takes the rest of the URL, so the verb stands before it.
func fileOperations() []operation {
	const all, one = "/v1/spaces/{space}/files", "/v1/spaces/{space}/files/{path...}"
	unknown := failure{journal.ErrNotFound, "the file is unknown"}
	stale := failure{journal.ErrConflict, "the file was not what the change was made from; hash is that of the current content"}
	return []operation{
		{id: "listFiles", method: "GET", path: all, access: read,
			summary: "List the known files, with the hashes of their contents", does: does(listFiles)},
		{id: "getFile", method: "GET", path: one, access: read,
			summary: "Read what the store knows of a file", does: does(getFile), failures: []failure{unknown}},
		{id: "recordChange", method: "POST", path: one, access: write, status: 201,
			summary: "Record that a file was changed", does: does(changeFile), failures: []failure{stale}},
		{id: "recordFound", method: "PUT", path: one, access: write,
			summary: "Record the content that a file was found with; a new one is recorded as a change by user:hand", does: does(findFile)},
		{id: "listFileHistory", method: "GET", path: "/v1/spaces/{space}/file-history/{path...}", access: read,
			summary: "List a file's changes, newest first", does: does(fileHistory)},
		{id: "reportFileConflict", method: "POST", path: "/v1/spaces/{space}/file-conflicts/{path...}", access: write,
			summary: "Report an edit that could not be applied, so that its author and all watchers learn of it", does: does(reportConflict)},
	}
}

type ofFile struct {
	Path string `path:"path" doc:"of the file in its project" example:"src/app.ts"`
}

func listFiles(c *call, in paging) (page[file.File], error) {
	return pageOf(file.In(c.space).List(c.ctx, &file.ListOptions{After: in.Cursor, Limit: in.Limit}))
}

func getFile(c *call, in ofFile) (file.File, error) { return file.In(c.space).Get(c.ctx, in.Path) }

// NewFileChange describes a change of a file. Hashes are the SHA-256 of the content in
// hex.
type NewFileChange struct {
	Before   string        `json:"before_hash,omitempty" doc:"hash of the content before the change; empty: there was no file"`
	After    string        `json:"after_hash,omitempty" doc:"hash of the content after the change; empty: the file was deleted" example:"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"`
	Contents *FileContents `json:"contents,omitempty" doc:"kept as blobs, so that the change can be undone"`
}

// FileContents holds the bytes before and after a change.
type FileContents struct {
	Before []byte `json:"before,omitempty"`
	After  []byte `json:"after,omitempty"`
}

type changeFileIn struct {
	ofFile
	Body NewFileChange
}

func changeFile(c *call, in changeFileIn) (file.File, error) {
	var contents *file.Contents
	if in.Body.Contents != nil {
		contents = &file.Contents{Before: in.Body.Contents.Before, After: in.Body.Contents.After}
	}
	return file.In(c.space).Changed(c.ctx, in.Path, in.Body.Before, in.Body.After, contents)
}

// FoundFile holds the hash of a file as it was found.
type FoundFile struct {
	Hash string `json:"hash,omitempty" doc:"SHA-256 of the content in hex; empty: there is no file" example:"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"`
}

type findFileIn struct {
	ofFile
	Body FoundFile
}

func findFile(c *call, in findFileIn) (file.File, error) {
	return file.In(c.space).Found(c.ctx, in.Path, in.Body.Hash)
}

type fileHistoryIn struct {
	ofFile
	Limit  int              `query:"limit" default:"100" min:"1" max:"1000" doc:"at most this many items"`
	Cursor journal.Position `query:"cursor" doc:"next_cursor of the page before"`
}

func fileHistory(c *call, in fileHistoryIn) (page[file.Entry], error) {
	return pageOf(file.In(c.space).History(c.ctx, in.Path, &file.HistoryOptions{Cursor: in.Cursor.String(), Limit: in.Limit}))
}

// NewConflict is an edit that could not be applied because the file had changed.
type NewConflict struct {
	Base     string          `json:"base_hash" doc:"hash of the content that the edit was made from" example:"2cf24dba5fb0a30e26e83b2ac5b9e29e1b161e5c1fa7425e73043362938b9824"`
	Ours     string          `json:"ours_hash" doc:"hash of the content that it would have made" example:"00a072495390b69c55b57ed3eca7ff77ee19b537e980505281870b9f4fc6a1d5"`
	Theirs   string          `json:"theirs_hash" doc:"hash of the current content" example:"09ca7e4eaa6e8ae9c7d261167129184883644d07dfba7cbfbc4c8a2e08360d5b"`
	Rejected json.RawMessage `json:"rejected,omitempty" doc:"what was not applied"`
}

type reportConflictIn struct {
	ofFile
	Body NewConflict
}

func reportConflict(c *call, in reportConflictIn) (none, error) {
	return none{}, file.In(c.space).Conflict(c.ctx, file.Conflict{
		Path: in.Path, Base: in.Body.Base, Ours: in.Body.Ours, Theirs: in.Body.Theirs, Rejected: in.Body.Rejected,
	})
}
