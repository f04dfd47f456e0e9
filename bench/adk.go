package main

import (
	"context"
	"database/sql"
	"path/filepath"
	"strings"
	"time"

	"github.com/ncruces/go-sqlite3/driver"
	"github.com/ncruces/go-sqlite3/gormlite"
	"google.golang.org/adk/v2/session"
	adk "google.golang.org/adk/v2/session/database"
	"google.golang.org/genai"
	"gorm.io/gorm"
	"gorm.io/gorm/logger"
)

// adkAppends is ADK Go's own session service over the same driver, as well tuned as
// its documentation allows: a write-ahead log, synced at each commit, and one
// connection, without which concurrent appends fail as busy. Each goroutine keeps
// to sessions of its own, for an append to a session that another has changed is
// refused as stale.
func adkAppends(n, threads int) func(context.Context, string, time.Duration) (sample, error) {
	return func(ctx context.Context, dir string, d time.Duration) (sample, error) {
		service, db, err := openADK(filepath.Join(dir, "adk.db"))
		if err != nil {
			return sample{}, err
		}
		defer db.Close()
		sessions := make([]session.Session, threads)
		for i := range sessions {
			made, err := service.Create(ctx, &session.CreateRequest{AppName: "bench", UserID: "user"})
			if err != nil {
				return sample{}, err
			}
			sessions[i] = made.Session
		}
		content := genai.NewContentFromText(strings.Repeat("x", recordSize), genai.RoleUser)
		own := max(1, threads/n)
		return load(ctx, n, d, func(w, i int) error {
			e := session.NewEvent(ctx, "bench")
			e.Author = "user"
			e.LLMResponse.Content = content
			return service.AppendEvent(ctx, sessions[(w+i%own*n)%threads], e)
		})
	}
}

func openADK(path string) (session.Service, *sql.DB, error) {
	db, err := driver.Open("file:" + path + "?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)&_txlock=immediate")
	if err != nil {
		return nil, nil, err
	}
	db.SetMaxOpenConns(1)
	service, err := adk.NewSessionService(gormlite.OpenDB(db),
		&gorm.Config{PrepareStmt: true, SkipDefaultTransaction: true, Logger: logger.Discard})
	if err == nil {
		err = adk.AutoMigrate(service)
	}
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return service, db, nil
}
