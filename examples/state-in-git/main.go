// State-in-git keeps an agent's state in a git repository: its changes can be reviewed
// with "git diff", reverted with "git checkout", and edited by hand.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/state/all"
	"github.com/thole-dev/thole/state/document"
)

func main() {
	dir, err := os.MkdirTemp("", "state-in-git-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := show(context.Background(), dir); err != nil {
		log.Fatal(err)
	}
}

// settings is the file of the document "settings" of project:shop.
const settings = "project/shop/records/document/settings.json"

func show(ctx context.Context, dir string) error {
	repo := repository(dir)
	if _, err := repo.git("init", "-q"); err != nil {
		return err
	}

	// An agent writes its state, and git keeps it.
	var last thole.Position
	err := with(ctx, dir, func(sp *thole.Space) error {
		_, err := document.In(sp).Put(ctx, "settings", map[string]any{"theme": "light", "window": 50}, nil)
		return err
	})
	if err == nil {
		err = repo.commit("The state to begin with")
	}
	if err != nil {
		return err
	}

	// The agent changes the theme, and a person reviews that.
	err = with(ctx, dir, func(sp *thole.Space) error {
		d, err := document.In(sp).MergePatch(ctx, "settings", []byte(`{"theme":"dark"}`), nil)
		last = d.Version
		return err
	})
	if err != nil {
		return err
	}
	diff, err := repo.git("diff", "--", settings)
	if err != nil {
		return err
	}
	fmt.Println("git diff:")
	for line := range strings.Lines(diff) {
		if strings.Contains(line, "theme") {
			fmt.Print("  ", line)
		}
	}
	if err := repo.commit("What the agent did"); err != nil {
		return err
	}

	// The person reverts it. The store finds that its history was replaced.
	if _, err := repo.git("checkout", "-q", "HEAD~1"); err != nil {
		return err
	}
	err = with(ctx, dir, func(sp *thole.Space) error {
		fmt.Println("after git checkout:", theme(ctx, sp))
		_, err := sp.Read(ctx, thole.ReadQuery{After: last})
		fmt.Println("a reader of what is gone is told so:", errors.Is(err, thole.ErrTrimmed))
		return told(ctx, sp)
	})
	if err != nil {
		return err
	}

	// The person edits a record: a change like any other, by user:hand.
	path := filepath.Join(dir, settings)
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, []byte(strings.Replace(string(text), "light", "blue", 1)), 0o644); err != nil {
		return err
	}
	return with(ctx, dir, func(sp *thole.Space) error {
		fmt.Println("after an edit:", theme(ctx, sp))
		return told(ctx, sp)
	})
}

// with opens the store in dir and calls do with the space project:shop. When the store
// is closed, every record is in its file.
func with(ctx context.Context, dir string, do func(*thole.Space) error) error {
	quiet := slog.New(slog.DiscardHandler)
	b, err := filestore.Open(ctx, dir, &filestore.Options{Log: quiet})
	if err != nil {
		return err
	}
	s, err := thole.Open(ctx, b, &thole.Options{Concepts: all.Concepts()})
	if err != nil {
		return err
	}
	return errors.Join(do(s.Space("project:shop").As("agent:coder")), s.Close())
}

func theme(ctx context.Context, sp *thole.Space) string {
	d, err := document.In(sp).Get(ctx, "settings", nil)
	if err != nil {
		return err.Error()
	}
	return string(d.Value)
}

// told prints the newest event's data.
func told(ctx context.Context, sp *thole.Space) error {
	page, err := sp.Read(ctx, thole.ReadQuery{Backward: true, Limit: 1})
	if err != nil {
		return err
	}
	for _, e := range page.Events {
		fmt.Printf("the journal says: %s by %s in generation %s\n", e.Type, e.Actor, e.Position.Epoch[:4])
	}
	return nil
}

// repository is the directory of a git repository.
type repository string

func (r repository) git(args ...string) (string, error) {
	args = append([]string{"-C", string(r), "-c", "user.name=A person", "-c", "user.email=person@example.com"}, args...)
	out, err := exec.Command("git", args...).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[6], err, out)
	}
	return string(out), nil
}

func (r repository) commit(message string) error {
	if _, err := r.git("add", "."); err != nil {
		return err
	}
	_, err := r.git("commit", "-q", "-m", message)
	return err
}
