package admin

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const (
	workflows = 20
	batch     = 500
	session   = store.SessionID("wses_admin")
)

// routeOf is the workflow of run n: the higher its number, the rarer.
func routeOf(n int) store.Route {
	w := 0
	for w < workflows-1 && n%2 == 1 {
		n, w = n/2, w+1
	}
	return store.Route{Queue: "default", Workflow: fmt.Sprintf("bench.workflow%d", w)}
}

// fill creates runs and ends nearly all of them: of a thousand 10 have failed, 10 were cancelled and 5 go on. Each
// fifth has a parent, each second one tag, one in a thousand another.
func fill(ctx context.Context, s store.Store, runs int, say func(done int)) error {
	for p := range s.Partitions() {
		if err := s.OpenSession(ctx, store.Session{Partition: p, ID: session, Worker: "bench", TTL: time.Hour}); err != nil {
			return err
		}
	}
	parent := event.NewRunID(time.Now(), 0)
	for from := 0; from < runs; from += batch {
		creates, commits := make([]store.Create, 0, batch), make([]store.Commit, 0, batch)
		for n := from; n < min(from+batch, runs); n++ {
			c := create(n, parent)
			creates = append(creates, c)
			if n%200 != 7 {
				commits = append(commits, end(n, &c))
			}
		}
		created, err := s.Create(ctx, creates)
		if err == nil {
			for _, a := range created {
				err = errors.Join(err, a.Err)
			}
		}
		if err != nil {
			return err
		}
		committed, err := s.Commit(ctx, commits)
		if err == nil {
			for _, a := range committed {
				err = errors.Join(err, a.Err)
			}
		}
		if err != nil {
			return err
		}
		say(from + batch)
	}
	return nil
}

func create(n int, parent event.RunID) store.Create {
	c := store.Create{
		Run: event.NewRunID(time.Now(), uint16(n)), Route: routeOf(n), Frame: make([]byte, 100), Seq: 1, CommitID: event.NewCommitID(), //nolint:gosec // any slot
		Status: event.StatusRunning, Owner: &store.Owner{Session: session, Token: event.NewToken()}, Tags: map[string]string{},
	}
	if n%5 == 0 {
		c.Parent, c.Root = parent, parent
	}
	if n%2 == 0 {
		c.Tags["region"] = "eu"
	}
	if n%1000 == 3 {
		c.Tags["region"] = "us"
	}
	return c
}

func end(n int, c *store.Create) store.Commit {
	status := event.StatusCompleted
	switch n % 100 {
	case 41:
		status = event.StatusFailed
	case 42:
		status = event.StatusCanceled
	}
	return store.Commit{
		Run: c.Run, Fence: c.Owner.Fence(), Prev: c.CommitID, Frame: make([]byte, 100), CommitID: event.NewCommitID(), First: 2, Last: 3,
		Effect: store.EffectFinish, Status: status, Progress: true,
	}
}
