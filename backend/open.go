// Package backend opens the store that a DSN names.
package backend

import (
	"context"
	"fmt"
	"strings"

	"github.com/thole-dev/thole/backend/filestore"
	"github.com/thole-dev/thole/backend/memstore"
	"github.com/thole-dev/thole/backend/pgstore"
	"github.com/thole-dev/thole/backend/remote"
	"github.com/thole-dev/thole/backend/sqlitestore"
	"github.com/thole-dev/thole/journal"
)

// Open opens the backend that dsn names:
//
//	mem:          in memory, lost when the process ends
//	sqlite:PATH   one SQLite file, created if it does not exist
//	file:DIR      a directory of JSON files for people and git, created if it does not exist
//	postgres://…  a PostgreSQL database; see [pgstore.Open] for its DSN
//	http://HOST   another Thole server, also https; the token is in THOLE_TOKEN or before an @
//
// Programs that want few dependencies use an engine's package directly. A DSN of any
// other form is ErrInvalid.
func Open(ctx context.Context, dsn string) (journal.Backend, error) {
	scheme, rest, ok := strings.Cut(dsn, ":")
	switch {
	case ok && scheme == "mem" && rest == "":
		return memstore.New(), nil
	case ok && scheme == "sqlite" && rest != "":
		return sqlitestore.Open(ctx, rest, nil)
	case ok && scheme == "file" && rest != "":
		return filestore.Open(ctx, rest, nil)
	case ok && (scheme == "postgres" || scheme == "postgresql"):
		return pgstore.Open(ctx, dsn)
	case ok && (scheme == "http" || scheme == "https"):
		return remote.Open(ctx, dsn, nil)
	}
	return nil, fmt.Errorf("%w: store %q is none of: mem:, sqlite:PATH, file:DIR, postgres://…, http(s)://HOST", journal.ErrInvalid, dsn)
}
