package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/thole-dev/thole"
	"github.com/thole-dev/thole/api/rest"
	"github.com/thole-dev/thole/backend"
	"github.com/thole-dev/thole/journal"
)

// open opens the stores that --store names as one. With create, the folder of a
// new SQLite file is made; without, the file must exist, so that a reader with a
// misspelt path does not make an empty store.
func (a *app) open(ctx context.Context, create bool, opts *thole.Options) (*thole.Store, error) {
	return a.openWith(ctx, create, opts, func(b journal.Backend) journal.Backend { return b })
}

// openWith is open with something around the backend.
func (a *app) openWith(ctx context.Context, create bool, opts *thole.Options, around func(journal.Backend) journal.Backend) (*thole.Store, error) {
	var made []string
	for _, store := range a.stores {
		path, err := prepare(store, create)
		if err != nil {
			return nil, err
		}
		if path != "" {
			made = append(made, path)
		}
	}
	b, err := backend.OpenAll(ctx, a.stores)
	if err != nil {
		return nil, &notOpenedError{err}
	}
	var o thole.Options
	if opts != nil {
		o = *opts
	}
	o.Concepts = rest.Concepts()
	s, err := thole.Open(ctx, around(b), &o)
	if err != nil {
		return nil, err
	}
	for _, path := range made {
		_ = sayf(os.Stderr, "a new store was made at %s\n", path)
	}
	if create { // not for each look into the store
		for _, line := range a.exposed() {
			_ = sayf(os.Stderr, "%s\n", line)
		}
	}
	return s, nil
}

// prepare looks for what a local store is kept in, or makes the folder for it. It
// returns the path of a store that will be new.
func prepare(store string, create bool) (made string, err error) {
	_, dsn, _ := backend.CutRule(store)
	at, err := backend.LocalStore(dsn)
	if at == nil || err != nil {
		return "", err
	}
	if _, err := os.Stat(at.Files[0]); !errors.Is(err, fs.ErrNotExist) {
		return "", nil // opening it says what else is wrong
	}
	if !create {
		return "", fmt.Errorf("there is no store at %s: start one with `thole dev`, or name another with --store %s:PATH", at.Path, at.Scheme)
	}
	if err := makeFolder(filepath.Dir(at.Path)); err != nil {
		return "", fmt.Errorf("%s store %s has no folder and none could be made: %w; name another with --store", at.Scheme, at.Path, err)
	}
	return at.Path, nil
}

// makeFolder makes a folder, for its owner alone, if it is missing, and those above it, so
// that they survive a power loss. A new .thole is hidden from git, so that nobody commits
// what is in it.
func makeFolder(dir string) error {
	switch err := os.Mkdir(dir, 0o700); {
	case errors.Is(err, fs.ErrNotExist) && isMissing(filepath.Dir(dir)):
		if err := makeFolder(filepath.Dir(dir)); err != nil {
			return err
		}
		return makeFolder(dir)
	case err != nil:
		return os.MkdirAll(dir, 0o700) // no error if it is there
	}
	if err := syncFolder(filepath.Dir(dir)); err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	if filepath.Base(dir) != ".thole" {
		return nil
	}
	return os.WriteFile(filepath.Join(dir, ".gitignore"), []byte("# Thole's state; never under version control.\n*\n"), 0o600)
}

func isMissing(path string) bool {
	_, err := os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// syncFolder makes the names in a folder durable.
func syncFolder(dir string) error {
	if runtime.GOOS == "windows" {
		return nil // it cannot sync a folder
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// notOpenedError is a store that its backend could not open, and why.
type notOpenedError struct{ error }

func (e *notOpenedError) Unwrap() error { return e.error }

// fromServer adds the flags of a command that looks into a store, or into that of a
// running server.
func (a *app) fromServer(c *cobra.Command, needs string) {
	c.Flags().StringVar(&a.server, "server", "", "look into the store of this running server, such as "+defaultURL+", instead of --store")
	c.Flags().StringVar(&a.token, "token", "", "token for that server, with "+needs)
}

// reading opens the store for a command that looks but does not sweep, and
// closes it after fn.
func (a *app) reading(ctx context.Context, fn func(*thole.Store) error) (err error) {
	if a.server != "" {
		server, err := serverURL(a.server)
		if err != nil {
			return err
		}
		if scheme, host, _ := strings.Cut(server, "://"); a.token != "" {
			server = scheme + "://" + url.User(a.token).String() + "@" + host
		}
		a.stores = []string{server}
	}
	s, err := a.open(ctx, false, &thole.Options{Sweep: -1})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	return fn(s)
}

// printer writes results for people on a terminal, as JSON lines otherwise.
type printer struct {
	w    io.Writer
	json bool
}

func (a *app) printer(w io.Writer) printer {
	f, ok := w.(*os.File)
	return printer{w: w, json: a.json || !ok || !term.IsTerminal(int(f.Fd()))}
}

// print writes v as a JSON line, or text.
func (p printer) print(v any, format string, args ...any) error {
	if !p.json {
		return sayf(p.w, format+"\n", args...)
	}
	enc := json.NewEncoder(p.w)
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// event writes an event.
func (p printer) event(space string, e thole.Event) error {
	return p.print(struct {
		Space string `json:"space"`
		thole.Event
	}{space, e}, "%s  %s  %-22s %-20s %s", e.Position, e.Time.Local().Format("15:04:05.000"), e.Type, e.Actor, clip(e.Data, 120))
}

// clip shortens data to about n bytes for a line on a terminal.
func clip(data []byte, n int) string {
	if len(data) <= n {
		return string(data)
	}
	return strings.ToValidUTF8(string(data[:n]), "") + "…"
}
