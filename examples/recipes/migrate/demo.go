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
	_ "modernc.org/sqlite" // driver for the database of the old program
)

// Run imports the jobs of two users, and prints the mails.
func Run(ctx context.Context, client *workflow.Client, out io.Writer) (err error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1) // With several connections, each of them would have its own database.
	defer func() { err = errors.Join(err, db.Close()) }()
	old := &Before{DB: db}
	if err := errors.Join(old.Enqueue(ctx, "welcome", "ann", time.Now()), old.Enqueue(ctx, "tips", "bob", time.Now())); err != nil {
		return err
	}
	if _, err := Tips.Start(ctx, client, "bob", workflow.WithID("job-2")); err != nil { // An earlier import started this run and crashed before it updated the table.
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
		break // The run has sent the first mail and sleeps.
	}
	var mails []string
	for len(sent) > 0 {
		mails = append(mails, <-sent)
	}
	slices.Sort(mails) // The mails are sent at the same time, so their order is random.
	_, err = fmt.Fprintf(out, "%s\nthe run of ann sleeps until the next mail\n", strings.Join(mails, "\n"))
	return err
}
