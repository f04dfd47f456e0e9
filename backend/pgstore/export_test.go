package pgstore

import (
	"context"

	"github.com/jackc/pgx/v5"
)

// HoldHead locks the head of a space until release is closed.
func HoldHead(ctx context.Context, s *Store, space string, held chan<- struct{}, release <-chan struct{}) error {
	return s.transact(ctx, func(ctx context.Context, tx pgx.Tx) error {
		_, err := s.lock(ctx, tx, space, false)
		close(held)
		<-release
		return err
	})
}

// MigrateTo migrates as a program that knows n versions.
func MigrateTo(ctx context.Context, dsn string, n int) error {
	return migrateAs(ctx, dsn, migrations[:n])
}

// migrateAs migrates the store at dsn as a program with these migrations.
func migrateAs(ctx context.Context, dsn string, known []migration) error {
	c, err := parse(dsn)
	if err != nil {
		return err
	}
	conn, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer conn.Close(context.WithoutCancel(ctx))
	_, err = c.migrate(ctx, conn, known, false)
	return err
}
