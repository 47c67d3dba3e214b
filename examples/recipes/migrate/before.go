package migrate

import (
	"context"
	"database/sql"
	"errors"
	"time"
)

// Before is the program before the migration. It consists of a table of jobs that a loop polls, and
// a daily job that the loop inserts. A sequence of mails is a chain of jobs. Nothing counts
// retries.
type Before struct {
	DB   *sql.DB
	Mail func(ctx context.Context, to, text string) error
}

// schema creates the table of jobs.
const schema = `CREATE TABLE IF NOT EXISTS jobs (
	id INTEGER PRIMARY KEY, kind TEXT NOT NULL, user TEXT NOT NULL, due INTEGER NOT NULL, done INTEGER NOT NULL DEFAULT 0)`

// Enqueue inserts a job.
func (b *Before) Enqueue(ctx context.Context, kind, user string, due time.Time) error {
	if _, err := b.DB.ExecContext(ctx, schema); err != nil {
		return err
	}
	_, err := b.DB.ExecContext(ctx, "INSERT INTO jobs (kind, user, due) VALUES ($1, $2, $3)", kind, user, due.Unix())
	return err
}

// Next executes a job that is due. It returns false if there is none. If the process crashes
// between the mail and the update, the mail is sent twice.
func (b *Before) Next(ctx context.Context, now time.Time) (bool, error) {
	var id int64
	var kind, user string
	err := b.DB.QueryRowContext(ctx, "SELECT id, kind, user FROM jobs WHERE done = 0 AND due <= $1 ORDER BY due LIMIT 1", now.Unix()).Scan(&id, &kind, &user)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	switch kind {
	case "welcome":
		if err = b.Mail(ctx, user, "welcome"); err == nil {
			err = b.Enqueue(ctx, "tips", user, now.Add(24*time.Hour))
		}
	case "tips":
		err = b.Mail(ctx, user, "tips")
	}
	if err != nil {
		return true, err // The job stays in the table.
	}
	_, err = b.DB.ExecContext(ctx, "UPDATE jobs SET done = 1 WHERE id = $1", id)
	return true, err
}

// Loop polls the table each second, and inserts the nightly job. If the process is down at the time
// of the job, the job is lost.
func (b *Before) Loop(ctx context.Context) error {
	for tick := time.NewTicker(time.Second); ; {
		select {
		case now := <-tick.C:
			if now.Hour() == 2 && now.Minute() == 30 && now.Second() == 0 {
				if err := b.Enqueue(ctx, "digest", "all", now); err != nil {
					return err
				}
			}
			if _, err := b.Next(ctx, now); err != nil {
				return err
			}
		case <-ctx.Done():
			tick.Stop()
			return nil
		}
	}
}
