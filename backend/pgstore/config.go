package pgstore

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/thole-dev/thole/journal"
)

// Defaults of parameters of a DSN, see [Open], and times to wait.
const (
	defaultSchema  = "thole"
	defaultTimeout = 30 * time.Second
	pingTimeout    = 5 * time.Second
	grace          = 5 * time.Second // how much longer the client waits than the server may take
)

// defaults returns the defaults of parameters of pgx and its pool.
func defaults() map[string]string {
	return map[string]string{
		"connect_timeout": "10", "pool_max_conns": "16", "pool_health_check_period": "30s",
		"pool_max_conn_lifetime": "30m", "pool_max_conn_lifetime_jitter": "5m", "pool_max_conn_idle_time": "5m",
	}
}

// config is a parsed DSN.
type config struct {
	pool    *pgxpool.Config
	direct  *pgx.ConnConfig // for hints and broadcasts; nil: the same server
	schema  string
	timeout time.Duration // of a statement
	pooler  string        // "on", "off" or "": detect
	hints   string        // "on", "off" or "": on if possible
}

// parse parses a DSN. A bad one is ErrInvalid; the error does not show the password.
func parse(dsn string) (*config, error) {
	u, err := url.Parse(dsn)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return nil, fmt.Errorf("%w: the DSN of a postgres store is not a URL postgres://USER:PASSWORD@HOST:PORT/DATABASE", journal.ErrInvalid)
	}
	q := u.Query()
	take := func(name string) string {
		value := q.Get(name)
		q.Del(name)
		return value
	}
	c := &config{schema: take("schema"), timeout: defaultTimeout, pooler: take("pooler"), hints: take("hints")}
	if c.schema == "" {
		c.schema = defaultSchema
	}
	if len(c.schema) > 48 || strings.ContainsFunc(c.schema, func(r rune) bool { return r < ' ' || r > '~' || strings.ContainsRune(`".$`, r) }) {
		return nil, fmt.Errorf("%w: schema %q is not a name of at most 48 printable ASCII characters without dots, dollars and quotes", journal.ErrInvalid, c.schema)
	}
	for name, value := range map[string]string{"pooler": c.pooler, "hints": c.hints} {
		if value != "" && value != "on" && value != "off" {
			return nil, fmt.Errorf("%w: %s=%s in the DSN is neither on nor off", journal.ErrInvalid, name, value)
		}
	}
	if text := take("timeout"); text != "" {
		if c.timeout, err = time.ParseDuration(text); err != nil || c.timeout < time.Second {
			return nil, fmt.Errorf("%w: timeout=%s in the DSN is no duration of a second or more, such as 30s", journal.ErrInvalid, text)
		}
	}
	if direct := take("direct"); direct != "" {
		if c.direct, err = pgx.ParseConfig(direct); err == nil {
			err = oneHost(c.direct)
		}
		if err != nil {
			return nil, fmt.Errorf("%w: direct in the DSN: %w", journal.ErrInvalid, err)
		}
		harden(c.direct)
	}
	for name, value := range defaults() {
		if !q.Has(name) {
			q.Set(name, value)
		}
	}
	u.RawQuery = q.Encode()
	if c.pool, err = pgxpool.ParseConfig(u.String()); err == nil {
		err = oneHost(c.pool.ConnConfig)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: the DSN of a postgres store: %w", journal.ErrInvalid, err)
	}
	c.pool.PingTimeout = pingTimeout
	harden(c.pool.ConnConfig)
	return c, nil
}

// oneHost returns an error if a DSN names several hosts. Open checks only its first
// connection for a primary; a later one could reach a standby, which may lag behind.
// Fallbacks also list the same host with and without TLS.
func oneHost(c *pgx.ConnConfig) error {
	for _, f := range c.Fallbacks {
		if f.Host != c.Host || f.Port != c.Port {
			return errors.New("it names several hosts; name one host, whose name or address follows the primary")
		}
	}
	return nil
}

// harden sets TCP keep-alives, so that dead connections are detected soon, and a
// default application name.
func harden(c *pgx.ConnConfig) {
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 15 * time.Second, Interval: 5 * time.Second, Count: 3}}
	c.DialFunc = dialer.DialContext
	if c.RuntimeParams["application_name"] == "" {
		c.RuntimeParams["application_name"] = "thole"
	}
}

// name returns the name of the store for messages.
func (c *config) name() string {
	cc := c.pool.ConnConfig
	return fmt.Sprintf("postgres store %s:%d/%s", cc.Host, cc.Port, cc.Database)
}

// sql returns a statement that is written for the default schema, changed to the
// configured one.
func (c *config) sql(text string) string {
	if c.schema == defaultSchema {
		return text
	}
	return strings.ReplaceAll(text, "thole.", `"`+c.schema+`".`)
}
