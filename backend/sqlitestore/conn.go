package sqlitestore

import (
	"context"
	"fmt"
	"net/url"
	"runtime"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// busyTimeout is how long a connection waits for a lock that another process holds.
// Other processes hold the write lock for one batch at a time.
const busyTimeout = 30 * time.Second

// conn is a connection with its prepared statements. One goroutine uses it at
// a time.
type conn struct {
	*sqlite3.Conn
	stmts map[string]*stmt
}

// dial opens a connection and sets what every connection needs; cache is in bytes.
func dial(ctx context.Context, path, vfsName string, flags sqlite3.OpenFlag, cache int64) (_ *conn, err error) {
	uri := url.URL{Scheme: "file", Path: path, RawQuery: url.Values{"vfs": {vfsName}}.Encode()}
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	db, err := sqlite3.OpenFlags(uri.String(), flags|sqlite3.OPEN_URI)
	if err != nil {
		return nil, err
	}
	c := &conn{Conn: db, stmts: map[string]*stmt{}}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	// Before everything else, which then waits for locks.
	if err := c.BusyTimeout(busyTimeout); err != nil {
		return nil, err
	}
	// Without it, SQLite plans a statement again whenever its LIMIT changes.
	if _, err := c.Config(sqlite3.DBCONFIG_ENABLE_QPSG, true); err != nil {
		return nil, err
	}
	c.SetInterrupt(ctx)
	defer c.SetInterrupt(context.Background())
	// Without synchronous=FULL, the last frames of a commit would stay in memory: see
	// logFile.
	err = c.Exec(fmt.Sprintf(`
		PRAGMA synchronous = FULL;
		PRAGMA foreign_keys = ON;
		PRAGMA trusted_schema = OFF;
		PRAGMA cache_size = -%d;`, max(cache>>10, 256)))
	if readOnly, _ := c.ReadOnly("main"); err != nil && readOnly {
		err = sqlite3.READONLY // says more than that it cannot create an index for the log
	}
	return c, err
}

// prepare returns the statement for sql, ready to bind its first parameter. It stays
// compiled until the connection closes, so sql must be one of few constants.
func (c *conn) prepare(sql string) *stmt {
	if s := c.stmts[sql]; s != nil {
		s.param, s.err = 0, nil
		return s
	}
	compiled, err := c.compile(sql)
	s := &stmt{Stmt: compiled, err: err}
	if err == nil {
		c.stmts[sql] = s
	}
	return s
}

func (c *conn) compile(sql string) (compiled *sqlite3.Stmt, err error) {
	defer damagedSchema(&err)
	compiled, _, err = c.PrepareFlags(sql, sqlite3.PREPARE_PERSISTENT)
	return compiled, err
}

// Exec runs the statements of sql.
func (c *conn) Exec(sql string) (err error) {
	defer damagedSchema(&err)
	return c.Conn.Exec(sql)
}

// damagedSchema, deferred, sets err instead of a panic of the driver. When SQLite cannot
// parse a statement of the file's schema, the driver takes the place of that error for one
// in the statement that it was given, which may be shorter.
func damagedSchema(err *error) {
	v := recover()
	if bounds, ok := v.(runtime.Error); ok && strings.Contains(bounds.Error(), "slice bounds") {
		*err = sqlite3.CORRUPT
	} else if v != nil {
		panic(v)
	}
}

// rolledBack tells the write-ahead log that a transaction of c failed.
func (c *conn) rolledBack() {
	f, err := c.FileControl("main", sqlite3.FCNTL_JOURNAL_POINTER)
	if log, ok := f.(*logFile); ok && err == nil {
		log.rolledBack()
	}
}

func (c *conn) close() error {
	if c == nil {
		return nil
	}
	for _, s := range c.stmts {
		s.Close()
	}
	return c.Close()
}

// integer returns the result of a query or pragma that returns one integer.
func (c *conn) integer(sql string) (int64, error) {
	s := c.prepare(sql)
	var n int64
	if s.next() {
		n = s.ColumnInt64(0)
	}
	return n, s.done()
}

// stmt is a prepared statement that keeps its first error: bind, step, and check the
// error once, with done.
type stmt struct {
	*sqlite3.Stmt
	param int
	err   error
}

func (s *stmt) int(v int64) *stmt {
	if s.err == nil {
		s.param++
		s.err = s.BindInt64(s.param, v)
	}
	return s
}

func (s *stmt) null() *stmt {
	if s.err == nil {
		s.param++
		s.err = s.BindNull(s.param)
	}
	return s
}

// blob binds an empty blob.
func (s *stmt) blob() *stmt {
	if s.err == nil {
		s.param++
		s.err = s.BindZeroBlob(s.param, 0)
	}
	return s
}

func (s *stmt) text(v string) *stmt {
	if s.err == nil {
		s.param++
		s.err = s.BindText(s.param, v)
	}
	return s
}

// optional binds the empty string as NULL.
func (s *stmt) optional(v string) *stmt {
	if v == "" {
		return s.null()
	}
	return s.text(v)
}

// json binds a copy of v as text, and nil as NULL.
func (s *stmt) json(v []byte) *stmt {
	if v == nil {
		return s.null()
	}
	if s.err == nil {
		s.param++
		s.err = s.BindRawText(s.param, v)
	}
	return s
}

// time binds a time in microseconds, and the zero time as NULL.
func (s *stmt) time(t time.Time) *stmt {
	if t.IsZero() {
		return s.null()
	}
	return s.int(t.UnixMicro())
}

// next steps to the next row and reports whether there is one.
func (s *stmt) next() bool {
	if s.err != nil {
		return false
	}
	ok := s.Step()
	s.err = s.Err()
	return ok
}

// done resets the statement, which ends its implicit transaction, and returns the
// statement's first error.
func (s *stmt) done() error {
	if s.Stmt != nil {
		if err := s.Reset(); s.err == nil { // Reset also repeats the error of the last step
			s.err = err
		}
	}
	return s.err
}

// exec runs a statement and ignores its rows.
func (s *stmt) exec() error {
	s.next()
	return s.done()
}

func (s *stmt) colTime(i int) time.Time {
	if s.ColumnType(i) == sqlite3.NULL {
		return time.Time{}
	}
	return time.UnixMicro(s.ColumnInt64(i)).UTC()
}

// colJSON returns a copy of the column; nil for NULL.
func (s *stmt) colJSON(i int) []byte {
	if s.ColumnType(i) == sqlite3.NULL {
		return nil
	}
	return append([]byte{}, s.ColumnRawText(i)...)
}

// colText returns the column. If it equals like, it returns like, which saves a copy.
func (s *stmt) colText(i int, like string) string {
	if raw := s.ColumnRawText(i); string(raw) != like {
		return string(raw)
	}
	return like
}
