package redisstore_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

func TestSTORE3_APartitionThatMovesToAnotherNodeLosesNothing(t *testing.T) {
	cluster, prefix := redistest.SharedCluster(t), redistest.Prefix()
	st := openURL(t, with(cluster.URL(), "partitions=1&prefix="+prefix))
	defer st.Close()
	w := newWriter(t, st, st, 60)
	ctx, cancel := context.WithCancel(w.ctx)
	defer cancel()
	var others sync.WaitGroup
	others.Go(func() { claimAndRelease(ctx, t, st) })
	others.Go(func() { // a reader must find the run on either node, or get an error
		for ctx.Err() == nil {
			got, err := st.Load(ctx, []store.Load{{Run: w.runs[7].log.Run}})
			if err == nil && (got[0].Err != nil || len(got[0].Frames) == 0) {
				t.Errorf("load of a run that is there: got %+v", got[0])
				return
			}
		}
	})
	const moves = 6
	moved := make(chan error, 1)
	go func() {
		var err error
		for n := 0; n < moves && err == nil; n++ {
			err = cluster.Move(w.ctx, "{"+prefix+":0}:format", time.Millisecond)
		}
		moved <- err
	}()
	for moving := true; moving; {
		w.write(1, 3)
		select {
		case err := <-moved:
			if err != nil {
				t.Errorf("move a slot: %v", err)
			}
			moving = false
		default:
		}
	}
	cancel()
	others.Wait()
	w.verify(st)
	t.Logf("%d moves, %d frames per run, %d batches without an answer", moves, len(w.runs[0].frames), w.again.Load())
}

// claimAndRelease claims and releases runs until ctx ends. The declared keys of its scripts exist
// all the time, and the keys of the runs are not declared. Only the key that never exists protects
// such scripts during a move.
func claimAndRelease(ctx context.Context, t *testing.T, st *redisstore.Store) {
	ids := &storetest.IDs{}
	route := store.Route{Queue: "moving", Workflow: "moving"}
	session := store.Session{ID: "moving", Worker: "moving", TTL: time.Hour, Routes: []store.Route{route}}
	var creates []store.Create
	for n := range 30 {
		l := storetest.NewLog(ids, st.Clock(), event.NewRunID(time.Now(), 0), event.Spec{Workflow: route.Workflow, Queue: route.Queue})
		c := l.Create()
		if n == 0 {
			c.Delay = time.Hour
		}
		creates = append(creates, c)
	}
	insist := func(what string, do func() error) {
		for err := do(); err != nil && ctx.Err() == nil; err = do() {
			if errors.Is(err, store.ErrFenced) {
				return // an earlier attempt has succeeded
			}
			if strings.Contains(err.Error(), "non local key") {
				t.Errorf("%s was executed in two places: %v", what, err)
				return
			}
		}
	}
	insist("create", func() error { _, err := st.Create(ctx, creates); return err })
	insist("open session", func() error { return st.OpenSession(ctx, session) })
	for ctx.Err() == nil {
		insist("claim", func() error {
			_, err := st.Claim(ctx, store.Claim{Session: session.ID, Token: event.NewToken(), Routes: session.Routes, Max: 3})
			return err
		})
		var owned []store.Owned
		insist("reconcile", func() (err error) { owned, err = st.Reconcile(ctx, 0, session.ID); return err })
		for _, o := range owned[:max(len(owned)-10, 0)] {
			insist("release", func() error { return st.Release(ctx, o.Run, o.Fence) })
		}
	}
}
