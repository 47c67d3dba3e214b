package worker_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
)

// refusal returns err as an error of type E. It fails the test if err has another type.
func refusal[E error](t *testing.T, what string, err error) E {
	t.Helper()
	typed, ok := errors.AsType[E](err)
	if !ok {
		t.Fatalf("%s: got error %v (%T), want a %T", what, err, err, typed)
	}
	return typed
}

// only returns the answer to a single request.
func only[T any](answers []T, err error) (answer T, _ error) {
	if err != nil {
		return answer, err
	}
	return answers[0], nil
}

func TestEV9_ErrorsOfStoresAreTyped(t *testing.T) {
	flowtest.OnEveryStore(t, func(t *testing.T, w *flowtest.World) {
		slot := event.SlotOf("order 7")
		partition := int(slot) % w.Store.Partitions()
		route := store.Route{Queue: "default", Workflow: "refused"}
		create := func(id string) (store.Create, error) {
			c := store.Create{
				Run: event.NewRunID(time.Now(), slot), WorkflowID: id, Active: store.ActiveFail, Route: route,
				Frame: []byte("first"), Seq: 1, CommitID: event.NewCommitID(),
			}
			created, err := only(w.Store.Create(w.Ctx, []store.Create{c}))
			return c, errors.Join(err, created.Err)
		}
		first, err := create("order 7")
		if err != nil {
			t.Fatal(err)
		}
		_, err = create("order 7")
		active := refusal[*store.ActiveError](t, "a second start", err)
		if want := (store.ActiveError{WorkflowID: "order 7", Run: first.Run}); *active != want {
			t.Errorf("got %+v, want %+v", *active, want)
		}

		session := store.Session{Partition: partition, ID: "wses_refused", TTL: time.Minute, Routes: []store.Route{route}}
		if err := w.Store.OpenSession(w.Ctx, session); err != nil {
			t.Fatal(err)
		}
		claimed, err := w.Store.ClaimRun(w.Ctx, partition, session.ID, event.NewToken(), first.Run)
		if err != nil {
			t.Fatal(err)
		}
		commit := func(change func(c *store.Commit)) error {
			c := store.Commit{
				Run: first.Run, WorkflowID: "order 7", Fence: claimed.Fence, Prev: claimed.Last,
				Frame: []byte("next"), CommitID: event.NewCommitID(), First: 2, Last: 2, Status: event.StatusRunning,
			}
			change(&c)
			committed, err := only(w.Store.Commit(w.Ctx, []store.Commit{c}))
			return errors.Join(err, committed.Err)
		}
		mismatch := refusal[*store.WorkflowIDMismatchError](t, "another workflow id", commit(func(c *store.Commit) { c.WorkflowID = "order 8" }))
		if want := (store.WorkflowIDMismatchError{Run: first.Run, Got: "order 8", Want: "order 7"}); *mismatch != want {
			t.Errorf("got %+v, want %+v", *mismatch, want)
		}
		lost := refusal[*store.ConflictError](t, "an event that is there", commit(func(c *store.Commit) { c.First, c.Last = 1, 1 }))
		if lost.Run != first.Run || lost.Seq != 1 || lost.StoredSeq != 1 {
			t.Errorf("got %+v, want event 1 of %s to conflict with event 1", *lost, first.Run)
		}
		if err := commit(func(c *store.Commit) { c.Fence.Epoch++ }); !errors.Is(err, store.ErrFenced) {
			t.Errorf("a claim that was lost: got %v, want %v", err, store.ErrFenced)
		}
		loaded, err := only(w.Store.Load(w.Ctx, []store.Load{{Run: first.Run}}))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(uint64(1), loaded.Record.Seq); diff != "" {
			t.Errorf("what was refused has written something: %s", diff)
		}

		unknown := event.NewRunID(time.Now(), slot)
		if loaded, err := only(w.Store.Load(w.Ctx, []store.Load{{Run: unknown}})); err != nil || !errors.Is(loaded.Err, store.ErrRunNotFound) {
			t.Errorf("load of a run that does not exist: got %v, %v", loaded.Err, err)
		}
		item := store.Item{ID: event.NewItemID(), Body: []byte("message")}
		if _, err := w.Store.Deliver(w.Ctx, store.Deliver{Run: unknown, Item: item}); !errors.Is(err, store.ErrRunNotFound) {
			t.Errorf("a message for a run that does not exist: got %v", err)
		}
		if err := commit(func(c *store.Commit) { c.Effect, c.Status = store.EffectFinish, event.StatusCompleted }); err != nil {
			t.Fatal(err)
		}
		_, err = w.Store.Deliver(w.Ctx, store.Deliver{Run: first.Run, Item: item})
		terminal := refusal[*store.TerminalError](t, "a message for an ended run", err)
		if want := (store.TerminalError{Run: first.Run, Status: event.StatusCompleted}); *terminal != want {
			t.Errorf("got %+v, want %+v", *terminal, want)
		}
	})
}
