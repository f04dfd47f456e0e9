package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/agent/sandbox"
)

// maxShown bounds what a tool tells the model at once, in bytes; an event holds
// 512 KiB.
const maxShown = 100 << 10

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
	content, hash, err := c.Sandbox.ReadFile(path)
	if errors.Is(err, thole.ErrInvalid) {
		if list, more, listErr := c.Sandbox.List(path, &sandbox.ListOptions{Depth: 1}); listErr == nil {
			return Output{Text: path + " is a directory:\n" + sandbox.Lines(list, more), Meta: map[string]any{"file_path": path}}, nil
		}
	}
	if err != nil {
		return Output{}, err
	}
	c.work.touch(path, false)
	c.seen.Store(path, sandbox.View{Hash: hash, Content: string(content)})
	out := Output{Meta: map[string]any{"file_path": path, "hash": hash}}
	switch {
	case sandbox.Binary(content):
		out.Text = fmt.Sprintf("%s is no UTF-8 text: %d bytes, SHA-256 %s", path, len(content), hash)
	case len(content) == 0:
		out.Text = path + " is empty"
	default:
		out.Text = excerpt(string(content), in.Offset, in.Limit)
	}
	return out, nil
}

// excerpt returns limit lines of text from line offset on, 0 meaning no bound,
// and says what it leaves out.
func excerpt(text string, offset, limit int) string {
	all := strings.SplitAfter(strings.TrimSuffix(text, "\n"), "\n")
	first := min(max(offset-1, 0), len(all))
	last := len(all)
	if limit > 0 {
		last = min(last, first+limit)
	}
	var b strings.Builder
	n := first
	for ; n < last && b.Len()+len(all[n]) <= maxShown; n++ {
		b.WriteString(all[n])
	}
	if n == first && n < last { // one line too long to show
		b.WriteString(cut(all[n], maxShown))
		n++
	}
	if first > 0 || n < len(all) {
		fmt.Fprintf(&b, "\n[lines %d–%d of %d]", first+1, n, len(all))
	}
	return b.String()
}
