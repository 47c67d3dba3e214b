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

// routeOf returns the workflow of run n. The higher the number of a workflow, the fewer runs it
// has.
func routeOf(n int) store.Route {
	w := 0
	for w < workflows-1 && n%2 == 1 {
		n, w = n/2, w+1
	}
	return store.Route{Queue: "default", Workflow: fmt.Sprintf("bench.workflow%d", w)}
}

// groups is the number of failure groups.
const groups = 200

// fill creates runs and ends nearly all of them. Of a thousand runs, 10 fail, in groups of equal
// failures, 10 are canceled and 5 stay active. One in five has a parent, one in two has a tag, and
// one in a thousand has another tag. A log contains only the start and the end of its run.
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
			c, err := create(n, parent)
			if err != nil {
				return err
			}
			creates = append(creates, c)
			if n%200 == 7 {
				continue
			}
			commit, err := end(n, &c)
			if err != nil {
				return err
			}
			commits = append(commits, commit)
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

func create(n int, parent event.RunID) (store.Create, error) {
	now := time.Now().UTC().Truncate(time.Millisecond)
	c := store.Create{
		Run: event.NewRunID(now, uint16(n)), Route: routeOf(n), Seq: 1, CommitID: event.NewCommitID(),
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
	spec := &event.Spec{Workflow: c.Route.Workflow, Queue: c.Route.Queue, Tags: c.Tags, Parent: c.Parent, Root: c.Root}
	if c.Parent != "" {
		spec.ParentKey, spec.Depth = fmt.Sprint("bench/child#", n), 1
	}
	var err error
	c.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: c.CommitID, Time: now,
		Events: []event.Event{{Seq: 1, Type: event.RunCreated, Time: now, Payload: fmt.Appendf(nil, `{"order":"order-%d","lines":[{"sku":"a-17","count":2}]}`, n), Spec: spec}},
	})
	return c, err
}

func end(n int, c *store.Create) (store.Commit, error) {
	fence, now := c.Owner.Fence(), time.Now().UTC().Truncate(time.Millisecond)
	commit := store.Commit{
		Run: c.Run, Fence: fence, Prev: c.CommitID, CommitID: event.NewCommitID(), First: 2, Last: 3, Effect: store.EffectFinish, Status: event.StatusCompleted, Progress: true,
	}
	last := event.Event{Seq: 3, Type: event.RunCompleted, Time: now, Payload: fmt.Appendf(nil, `{"receipt":"r-%d"}`, n)}
	switch n % 100 {
	case 41:
		commit.Status = event.StatusFailed
		group := n / 100 % groups
		last = event.Event{Seq: 3, Type: event.RunFailed, Time: now, Failure: &event.Failure{Code: "declined", Message: fmt.Sprintf("card %d of order-%d was declined", group, n)}}
		commit.FailureGroup = &store.FailureGroup{
			Group: fmt.Sprintf("f1-%012x", group), Kind: store.FailureKindFailed, Workflow: c.Route.Workflow, Step: "bench.charge", Text: fmt.Sprintf("card %d of § was declined", group),
		}
	case 42:
		commit.Status = event.StatusCanceled
		last = event.Event{Seq: 3, Type: event.RunCanceled, Time: now, Reason: "no more wanted"}
	}
	var err error
	commit.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: commit.CommitID, Prev: c.CommitID, Epoch: fence.Epoch, Token: fence.Token, Time: now,
		Events: []event.Event{{Seq: 2, Type: event.RunStarted, Time: now, By: "bench"}, last},
	})
	return commit, err
}
