package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "modernc.org/sqlite" // the database of the old program
)

// Run imports the jobs of two users, and prints the mails.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // each connection would have a database of its own
	defer func() { err = errors.Join(err, db.Close()) }()
	old := &Before{DB: db}
	if err := errors.Join(old.Enqueue(ctx, "welcome", "ann", time.Now()), old.Enqueue(ctx, "tips", "bob", time.Now())); err != nil {
		return err
	}
	if _, err := Tips.Start(ctx, client, "bob", workflow.WithID("job-2")); err != nil { // the crash was here
		return err
	}
	n, err := Import(ctx, db, client)
	if err != nil {
		return err
	}
	_, _ = fmt.Fprintf(out, "imported %d jobs\n", n)

	sent := make(chan string, 100)
	w := worker.New(client, worker.Config{})
	Register(w, &Mails{Send: func(_ context.Context, _, to, text string) error { sent <- to + ": " + text; return nil }})
	ctx, cancel := context.WithCancel(ctx)
	worked := make(chan error, 1)
	go func() { defer cancel(); worked <- w.Run(ctx) }()
	defer func() { cancel(); err = errors.Join(err, <-worked) }()

	if _, err := Tips.GetByID(client, "job-2").Result(ctx); err != nil {
		return err
	}
	for _, err := range client.RunByID("job-1").Events(ctx, workflow.Types(event.WaitCreated)) {
		if err != nil {
			return err
		}
		break // it has sent the first mail, and sleeps
	}
	var mails []string
	for len(sent) > 0 {
		mails = append(mails, <-sent)
	}
	slices.Sort(mails) // they are sent at the same time
	_, err = fmt.Fprintf(out, "%s\nthe run of ann sleeps until the next mail\n", strings.Join(mails, "\n"))
	return err
}
