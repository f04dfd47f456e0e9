package pgstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/thole-dev/thole/journal"
)

// errLate is the cause when the context of a call ends because it took too long.
var errLate = fmt.Errorf("%w: no answer in time", journal.ErrUnavailable)

// The SQLSTATE codes that pgstore distinguishes (PostgreSQL manual, appendix A).
const (
	badPassword          = "28P01"
	badAuthorization     = "28000"
	noDatabase           = "3D000"
	noPrivilege          = "42501"
	noFunction           = "42883"
	noTable              = "42P01"
	noColumn             = "42703"
	noSchema             = "3F000"
	noStatement          = "26000"
	statementExists      = "42P05"
	diskFull             = "53100"
	tooManyConnections   = "53300"
	readOnly             = "25006"
	lockTimeout          = "55P03"
	statementTimeout     = "57014"
	serializationFailure = "40001"
	deadlock             = "40P01"
	uniqueViolation      = "23505"
	dataCorrupted        = "XX001"
	indexCorrupted       = "XX002"
	shuttingDown         = "57P01"
	crashed              = "57P02"
	idleTooLong          = "57P05"
	startingUp           = "57P03"

	connectionClass = "08" // a pooler returns it when its server is down
	resourceClass   = "53"
)

// code returns the SQLSTATE of err, "" if err is not from the server.
func code(err error) string {
	var pg *pgconn.PgError
	if errors.As(err, &pg) {
		return pg.Code
	}
	return ""
}

// rolledBack reports whether the server rolled the transaction back and repeating it
// may succeed.
func rolledBack(err error) bool { return code(err) == serializationFailure || code(err) == deadlock }

// explain translates an error of the server, by its code, into one that says what a
// person can do. It names the store and wraps the original.
func (c *config) explain(ctx context.Context, err error) error {
	if err == nil {
		return nil
	}
	say := func(sentinel error, what string) error {
		if sentinel == nil {
			return fmt.Errorf("%s %s: %w", c.name(), what, err)
		}
		return fmt.Errorf("%w: %s %s: %w", sentinel, c.name(), what, err)
	}
	user := c.pool.ConnConfig.User
	switch code(err) {
	case "":
		return c.explainConnection(ctx, err, say)
	case badPassword, badAuthorization:
		return say(journal.ErrInvalid, "does not let user "+user+" in; check user and password in the DSN, and pg_hba.conf")
	case noDatabase:
		return say(journal.ErrNotFound, "does not exist; create it (createdb "+c.pool.ConnConfig.Database+") or name another")
	case noPrivilege:
		return say(journal.ErrInvalid, "forbids this to user "+user+"; make it the owner of schema "+c.schema+
			" (CREATE SCHEMA "+c.schema+" AUTHORIZATION "+user+")")
	case noFunction, noTable, noColumn, noSchema:
		return say(errors.ErrUnsupported, "has no schema "+c.schema+" that this program knows: it was removed, or migrated by a newer program; restart with that one")
	case noStatement, statementExists:
		return say(journal.ErrInvalid, "is behind a transaction pooler; add pooler=on to the DSN")
	case diskFull:
		return say(journal.ErrFull, "cannot grow: its disk is full; free some space and try again, nothing was lost")
	case tooManyConnections:
		return say(journal.ErrUnavailable, "has no connection left; lower pool_max_conns in the DSN, or raise max_connections")
	case readOnly:
		return say(journal.ErrUnavailable, "is read-only; is it a standby now?")
	case statementTimeout, lockTimeout:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
		return say(journal.ErrUnavailable, fmt.Sprintf("took longer than %v; is it overloaded, or does someone hold a lock?", c.timeout))
	case dataCorrupted, indexCorrupted:
		return say(journal.ErrCorrupt, "is damaged; restore a backup")
	case shuttingDown, crashed, startingUp, idleTooLong:
		return say(journal.ErrUnavailable, "stops or starts; try again")
	}
	switch state := code(err); {
	case strings.HasPrefix(state, connectionClass):
		return say(journal.ErrUnavailable, "lost the connection, or a pooler before it refuses one")
	case strings.HasPrefix(state, resourceClass):
		return say(journal.ErrUnavailable, "has not enough of what it needs; try again")
	}
	return say(nil, "failed")
}

// explain is config.explain for an open store. A rejected login is ErrUnavailable
// there: it is not the caller's fault and says nothing about the store's content.
func (s *Store) explain(ctx context.Context, err error) error {
	switch code(err) {
	case badPassword, badAuthorization, noDatabase, noPrivilege:
		return fmt.Errorf("%w: %s no longer lets user %s in: %w", journal.ErrUnavailable, s.name(), s.config.pool.ConnConfig.User, err)
	}
	return s.config.explain(ctx, err)
}

// explainConnection is explain for errors that are not from the server.
func (c *config) explainConnection(ctx context.Context, err error, say func(error, string) error) error {
	if cause := context.Cause(ctx); cause != nil {
		if errors.Is(cause, errLate) {
			return say(errLate, "was given up on")
		}
		return cause
	}
	var network net.Error
	var connect *pgconn.ConnectError
	switch {
	case errors.As(err, &connect), pgconn.Timeout(err):
		return say(journal.ErrUnavailable, "cannot be reached; does it run, and is the address right?")
	case errors.As(err, &network), isBroken(err):
		return say(journal.ErrUnavailable, "closed the connection")
	}
	return err
}

// isBroken reports whether err means that the connection ended.
func isBroken(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, net.ErrClosed) || pgconn.SafeToRetry(err)
}
