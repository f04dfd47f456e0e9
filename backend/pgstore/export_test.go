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
