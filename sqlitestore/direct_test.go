package sqlitestore

import (
	"errors"
	"path/filepath"
	"sync"
	"testing"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// TestWrite_PanicOfAnOperationLeavesTheWriterUsable proves that a caller that recovers from a panic
// of its operation, as net/http does, leaves neither a lock nor an open transaction behind.
func TestWrite_PanicOfAnOperationLeavesTheWriterUsable(t *testing.T) {
	const selectSeq = `SELECT seq FROM counters WHERE seq >= +?`
	for name, fail := range map[string]func(t *tx) error{
		"between statements": func(*tx) error { panic("operation") },
		"within a statement": func(t *tx) error { return t.query(selectSeq, func(row) error { panic("operation") }, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			s := openTest(t)
			ctx := testContext(t)
			lost, kept := newRun(100), newRun(100)
			func() {
				defer func() {
					if p := recover(); p != "operation" {
						t.Fatalf("recovered from %v, want the panic of the operation", p)
					}
				}()
				check(t, s.write(ctx, func(tx *tx) error {
					if _, err := tx.op.Create(&lost); err != nil {
						return err
					}
					return fail(tx)
				}))
			}()
			_, err := s.Create(ctx, []store.Create{kept})
			check(t, err)
			check(t, s.write(ctx, func(tx *tx) error { return tx.query(selectSeq, func(row) error { return nil }, 0) }))
			expectRuns(t, s, []event.RunID{kept.Run})
		})
	}
}

// TestDirect_DoesNotOvertakeQueuedOperations proves that a caller executes its operation itself only
// if no other operation waits.
func TestDirect_DoesNotOvertakeQueuedOperations(t *testing.T) {
	s := openTest(t)
	c, err := connect(testContext(t), s.path, sqlite.OpenReadWrite)
	check(t, err)
	defer func() { check(t, c.Close()) }()
	w := newWriter(s, c, Normal) // without goroutines, so that the queue stays as it is
	var order []string
	operation := func(name string) *op {
		return &op{work: workFunc(func(*tx) error { order = append(order, name); return nil }), answer: make(chan error, 1)}
	}
	queued, other := operation("queued"), operation("other")
	w.submit(queued)
	if done, err := w.direct(other); done || err != nil {
		t.Fatalf("direct beside a queued operation: got %t, %v, want that it does nothing", done, err)
	}
	w.group()
	check(t, <-queued.answer)
	if done, err := w.direct(other); !done || err != nil {
		t.Fatalf("direct with an empty queue: got %t, %v, want that it executes the operation", done, err)
	}
	if len(order) != 2 || order[0] != "queued" {
		t.Errorf("executed: got %q, want the queued operation first, and each once", order)
	}
}

// TestClose_BesideOperationsKeepsExactlyTheAnsweredOnes closes the store while callers execute
// operations on their own goroutines and in the queue.
func TestClose_BesideOperationsKeepsExactlyTheAnsweredOnes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	check(t, err)
	ctx := testContext(t)
	var mu sync.Mutex
	var stored []event.RunID
	enough := make(chan struct{})
	var callers sync.WaitGroup
	for range 4 {
		callers.Go(func() {
			for {
				c := newRun(100)
				_, err := s.Create(ctx, []store.Create{c})
				if errors.Is(err, store.ErrClosed) {
					return
				}
				if err != nil {
					t.Errorf("create: %v", err)
					return
				}
				mu.Lock()
				if stored = append(stored, c.Run); len(stored) == 20 {
					close(enough)
				}
				mu.Unlock()
			}
		})
	}
	<-enough
	check(t, s.Close())
	callers.Wait()
	again, err := Open(path)
	check(t, err)
	defer func() { check(t, again.Close()) }()
	expectRuns(t, again, stored)
}

// TestClose_WaitsForAnOperationOnItsCallersGoroutine proves that the connection stays open until the
// operation has ended.
func TestClose_WaitsForAnOperationOnItsCallersGoroutine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "runs.db")
	s, err := Open(path)
	check(t, err)
	ctx := testContext(t)
	c := newRun(100)
	executing, proceed := make(chan struct{}), make(chan struct{})
	created := make(chan error, 1)
	go func() {
		created <- s.write(ctx, func(tx *tx) error {
			close(executing)
			<-proceed
			_, err := tx.op.Create(&c)
			return err
		})
	}()
	<-executing
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	eventually(t, "Close waits for the writer", func() bool {
		s.writer.mu.Lock()
		defer s.writer.mu.Unlock()
		return !s.writer.closing.IsZero()
	})
	close(proceed)
	check(t, <-created)
	check(t, <-closed)
	if _, err := s.Create(ctx, []store.Create{newRun(100)}); !errors.Is(err, store.ErrClosed) {
		t.Errorf("create after Close: got error %v, want that the store is closed", err)
	}
	late := &op{work: workFunc(func(*tx) error { return nil })} // of a caller that has noticed nothing of Close so far
	if done, err := s.writer.direct(late); done {
		t.Errorf("direct after Close: got %v, want that it does not use the closed connection", err)
	}
	again, err := Open(path)
	check(t, err)
	defer func() { check(t, again.Close()) }()
	expectRuns(t, again, []event.RunID{c.Run})
}
