package sqlitestore

import (
	"bytes"
	"context"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"zombiezen.com/go/sqlite"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore/internal/db"
)

var route = store.Route{Queue: "default", Workflow: "orders.fulfil"}

func openTest(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "runs.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func testContext(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

func newRun(size int) store.Create {
	return store.Create{
		Run: event.NewRunID(time.Now(), 0), Route: route, CommitID: event.NewCommitID(), Seq: 1, Frame: make([]byte, size),
	}
}

// occupy takes the write lock of the file, as another process can, until leave is called.
func occupy(t *testing.T, s *Store) (leave func()) {
	t.Helper()
	c, err := connect(testContext(t), s.path, sqlite.OpenReadWrite)
	check(t, err)
	check(t, db.Retry(testContext(t), func() error { return c.exec(`BEGIN IMMEDIATE`) }))
	return sync.OnceFunc(func() {
		check(t, c.exec(`COMMIT`))
		check(t, c.Close())
	})
}

func TestCreate_WaitsWhileAnotherProcessWrites(t *testing.T) {
	s := openTest(t)
	leave := occupy(t, s)
	defer leave()
	created := make(chan error, 1)
	c := newRun(100)
	go func() {
		_, err := s.Create(testContext(t), []store.Create{c})
		created <- err
	}()
	select {
	case err := <-created:
		t.Fatalf("create returned %v while another process held the write lock", err)
	case <-time.After(time.Second):
	}
	// A read must not wait for the write lock.
	got, err := s.Load(testContext(t), []store.Load{{Run: c.Run}})
	check(t, err)
	if !errors.Is(got[0].Err, store.ErrRunNotFound) {
		t.Errorf("load: got error %v, want that there is no such run yet", got[0].Err)
	}
	leave()
	check(t, <-created)
}

func TestCreate_CanceledWhileAnotherProcessWritesIsNotExecutedLater(t *testing.T) {
	s := openTest(t)
	leave := occupy(t, s)
	defer leave()
	c := newRun(100)
	for range 3 {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Millisecond)
		_, err := s.Create(ctx, []store.Create{c})
		cancel()
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("create: got error %v, want that its context ended", err)
		}
	}
	clear(c.Frame) // the race detector fails if the store reads the frame after this line
	leave()
	other := newRun(100)
	_, err := s.Create(testContext(t), []store.Create{other})
	check(t, err)
	got, err := s.Load(testContext(t), []store.Load{{Run: c.Run}, {Run: other.Run}})
	check(t, err)
	if !errors.Is(got[0].Err, store.ErrRunNotFound) || got[1].Err != nil {
		t.Errorf("errors: got %v and %v, want that only the second run was created", got[0].Err, got[1].Err)
	}
}

func TestQueue_DoesNotKeepOperationsWhoseCallersHaveLeft(t *testing.T) {
	s := openTest(t)
	leave := occupy(t, s)
	defer leave()
	for range 200 {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond)
		_, _ = s.Create(ctx, []store.Create{newRun(100)}) // only the queue matters, not the result
		cancel()
	}
	deadline := testContext(t)
	for length := 200; length > 0; {
		s.writer.mu.Lock()
		length = len(s.writer.queue)
		s.writer.mu.Unlock()
		if deadline.Err() != nil {
			t.Fatalf("%d operations are still in the queue", length)
		}
	}
}

func TestCancel_AtAnyMomentLeavesTheStoreIntact(t *testing.T) {
	s := openTest(t)
	check(t, s.OpenSession(testContext(t), store.Session{ID: "a", TTL: time.Hour, Routes: []store.Route{route}}))
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for i := range 100 {
				ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i*(n+1))*time.Microsecond)
				c := newRun(1000)
				for i := range c.Frame {
					c.Frame[i] = 1
				}
				created, err := s.Create(ctx, []store.Create{c})
				cancel()
				clear(c.Frame) // the race detector fails if the store reads the frame after this line
				switch {
				case err == nil && created[0].New:
				case errors.Is(err, context.DeadlineExceeded):
				default:
					t.Errorf("create: got %+v, %v, want the run or the end of the context", created, err)
				}
			}
		})
	}
	wg.Wait()
	snap, err := s.Inspect(testContext(t))
	check(t, err)
	for id, r := range snap.Runs {
		if len(r.Frames) != 1 || bytes.Count(r.Frames[0], []byte{1}) != 1000 || r.QueueState != store.StateReady {
			t.Errorf("run %s: got %d frames, queue state %s, want it created as a whole", id, len(r.Frames), r.QueueState)
		}
	}
	if got := len(snap.Ready[route]); got != len(snap.Runs) {
		t.Errorf("ready runs: got %d, want all %d", got, len(snap.Runs))
	}
}

func TestClose_WaitsForWhatWasSent(t *testing.T) {
	s := openTest(t)
	leave := occupy(t, s)
	defer leave()
	const n = 20
	created := make(chan error, n)
	for range n {
		go func() {
			_, err := s.Create(testContext(t), []store.Create{newRun(100)})
			created <- err
		}()
	}
	awaitQueue(t, s, n)
	closed := make(chan error, 1)
	go func() { closed <- s.Close() }()
	leave()
	for range n {
		check(t, <-created)
	}
	check(t, <-closed)
}

// awaitQueue waits until n operations wait for the write lock.
func awaitQueue(t *testing.T, s *Store, n int) {
	t.Helper()
	ctx := testContext(t)
	for length := 0; length < n; {
		s.writer.mu.Lock()
		length = len(s.writer.queue)
		s.writer.mu.Unlock()
		if ctx.Err() != nil {
			t.Fatalf("only %d of %d operations have arrived", length, n)
		}
	}
}

func TestClose_GivesUpOnAProcessThatDoesNotLetGo(t *testing.T) {
	s := openTest(t)
	check(t, s.write(testContext(t), func(*tx) error {
		s.writer.patience = 50 * time.Millisecond
		return nil
	}))
	leave := occupy(t, s)
	defer leave()
	created := make(chan error, 1)
	go func() {
		_, err := s.Create(testContext(t), []store.Create{newRun(100)})
		created <- err
	}()
	awaitQueue(t, s, 1)
	check(t, s.Close())
	if err := <-created; !errors.Is(err, store.ErrClosed) || !errors.Is(err, errGone) {
		t.Errorf("create: got error %v, want that the store is closed, and why", err)
	}
}
