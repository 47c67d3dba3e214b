// Package migrate replaces a table of jobs and a cron by workflows. before.go contains the old
// program, and migrate.go the new one. Import starts runs for the jobs that remain in the table.
//
//	go run ./examples/recipes migrate
//
// The table contains two jobs. One of them was imported before a crash. The recipe prints:
//
//	imported 2 jobs
//	ann: welcome
//	bob: tips
//	the run of ann sleeps until the next mail
//
// To migrate, stop the old program, import the jobs, and start the new program. If the import is
// interrupted, repeat it. Remove the table when an import finds no job.
package migrate

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	_ "modernc.org/sqlite" // driver for the database of the old program
)

// Mails contains the dependencies of the steps.
type Mails struct {
	// Send sends a mail. It receives an idempotency key and does nothing if a mail with the same
	// key was sent.
	Send func(ctx context.Context, key, to, text string) error
}

// welcome replaces two kinds of jobs of the old program and the waiting time between them.
//
//flow:workflow
func welcome(ctx workflow.Context, user string) error {
	if err := Mail(ctx, user, "welcome"); err != nil {
		return err
	}
	if err := workflow.Sleep(ctx, 24*time.Hour); err != nil {
		return err
	}
	return Mail(ctx, user, "tips")
}

// tips replaces the second job of a chain that the old program has begun.
//
//flow:workflow
func tips(ctx workflow.Context, user string) error { return Mail(ctx, user, "tips") }

// digest replaces the nightly job. A night at which no worker runs is not lost.
//
//flow:workflow schedule="30 2 * * *"
func digest(ctx workflow.Context) error { return Mail(ctx, "all", "digest") }

//flow:step retries=10 backoff=exponential(1s,10m)
func (m *Mails) mail(ctx context.Context, to, text string) error {
	return m.Send(ctx, step.IdempotencyKey(ctx), to, text)
}

// Import starts a run for each remaining job in the table, and returns the number of these jobs.
// The ID of a run is derived from the ID of its job. Therefore an import that is repeated after a
// crash does not start a job twice.
func Import(ctx context.Context, db *sql.DB, client *workflow.Client) (n int, err error) {
	type job struct {
		id, due    int64
		kind, user string
	}
	var jobs []job
	rows, err := db.QueryContext(ctx, "SELECT id, kind, user, due FROM jobs WHERE done = 0")
	if err != nil {
		return 0, err
	}
	for rows.Next() {
		var j job
		if err := rows.Scan(&j.id, &j.kind, &j.user, &j.due); err != nil {
			return 0, errors.Join(err, rows.Close())
		}
		jobs = append(jobs, j)
	}
	if err := errors.Join(rows.Err(), rows.Close()); err != nil {
		return 0, err
	}
	kinds := map[string]workflow.Definition[string, workflow.None]{"welcome": Welcome, "tips": Tips}
	for _, j := range jobs {
		kind, ok := kinds[j.kind]
		if !ok {
			return n, fmt.Errorf("job %d is of the kind %q, which has no workflow", j.id, j.kind)
		}
		_, err := kind.Start(ctx, client, j.user, workflow.WithID(fmt.Sprint("job-", j.id)),
			workflow.WithIDPolicy(workflow.IDPolicy{Finished: workflow.RejectFinished}), workflow.WithStartAt(time.Unix(j.due, 0)))
		if _, before := errors.AsType[*workflow.FinishedRunError](err); err != nil && !before {
			return n, err
		}
		if _, err := db.ExecContext(ctx, "UPDATE jobs SET done = 1 WHERE id = $1", j.id); err != nil {
			return n, err
		}
		n++
	}
	return n, nil
}
