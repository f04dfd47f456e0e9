package agent

import (
	"context"
	"errors"
	"fmt"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
)

type readInput struct {
	FilePath string `json:"file_path" jsonschema:"description=The file\\, relative to the project; of a directory you get the list of its entries"`
	Offset   int    `json:"offset,omitempty" jsonschema:"minimum=1,description=The first line to show\\, from 1"`
	Limit    int    `json:"limit,omitempty" jsonschema:"minimum=1,description=How many lines to show"`
}

// read reads a file, which is then what the agent's next edit of it starts from,
// or lists a directory.
func read(ctx context.Context, c *Context, _ *Call, in readInput) (Output, error) {
	path, err := sandbox.Clean(in.FilePath)
	if err != nil {
		return Output{}, err
	}
	seen, err := c.edits.Read(path)
	if errors.Is(err, thole.ErrInvalid) {
		if list, more, listErr := c.Sandbox.List(path, &sandbox.ListOptions{Depth: 1}); listErr == nil {
			return Output{Text: path + " is a directory:\n" + sandbox.Lines(list, more), Meta: map[string]any{"file_path": path}}, nil
		}
	}
	if err != nil {
		return Output{}, err
	}
	out := Output{Meta: map[string]any{"file_path": path, "hash": seen.Hash}}
	switch {
	case sandbox.Binary([]byte(seen.Content)):
		out.Text = fmt.Sprintf("%s is no UTF-8 text: %d bytes, SHA-256 %s", path, len(seen.Content), seen.Hash)
	case seen.Content == "":
		out.Text = path + " is empty"
	default:
		out.Text = sandbox.Excerpt(seen.Content, in.Offset, in.Limit, maxShown)
	}
	return out, nil
}
