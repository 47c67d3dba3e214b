package offload_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/internal/sealed"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Environment variables of the processes of this file: the role, the directory, and the point at which
// the process kills itself, with the number of the crossing.
const (
	roleEnv  = "OFFLOAD_ROLE"
	dirEnv   = "OFFLOAD_DIR"
	pointEnv = "OFFLOAD_KILL"
	nthEnv   = "OFFLOAD_NTH"
)

// Points at which a process is killed.
const (
	beforePut    = "before a blob is stored"
	partOfBlob   = "while the temporary file of a blob is written"
	wholeBlob    = "when the temporary file is complete"
	afterPut     = "after a blob was stored"
	beforeCommit = "before a commit"
	afterCommit  = "after a commit"
	beforeGet    = "before a blob is read"
	afterGet     = "after a blob was read"
	beforeList   = "before the blobs are listed"
	afterList    = "after the blobs were listed"
	beforeDelete = "before a blob is removed"
	afterDelete  = "after a blob was removed"
)

// cross kills the process if it crosses the point for the nth time.
func cross(point string) {
	if os.Getenv(pointEnv) == point && strconv.FormatInt(crossings.Add(1), 10) == os.Getenv(nthEnv) {
		_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	}
}

var crossings atomic.Int64

// mortalBlobs are the blobs of a process that is killed.
type mortalBlobs struct {
	*codec.FileBlobs
	dir string
}

func (b mortalBlobs) Put(ctx context.Context, name string, data []byte) error {
	cross(beforePut)
	for point, part := range map[string][]byte{partOfBlob: data[:len(data)/2], wholeBlob: data} {
		if os.Getenv(pointEnv) == point { // the state that a process leaves which is killed in FileBlobs.Put
			if err := os.WriteFile(filepath.Join(b.dir, ".unfinished", fmt.Sprint(os.Getpid())), part, 0o600); err != nil {
				return err
			}
			cross(point)
		}
	}
	err := b.FileBlobs.Put(ctx, name, data)
	cross(afterPut)
	return err
}

func (b mortalBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	cross(beforeGet)
	data, err := b.FileBlobs.Get(ctx, name)
	cross(afterGet)
	return data, err
}

func (b mortalBlobs) List(ctx context.Context, prefix, after string, limit int) ([]store.Blob, error) {
	cross(beforeList)
	page, err := b.FileBlobs.List(ctx, prefix, after, limit)
	cross(afterList)
	return page, err
}

func (b mortalBlobs) Delete(ctx context.Context, names ...string) error {
	cross(beforeDelete)
	err := b.FileBlobs.Delete(ctx, names...)
	cross(afterDelete)
	return err
}

// mortalStore is the store of a process that is killed.
type mortalStore struct{ store.Store }

func (s mortalStore) Unwrap() store.Store { return s.Store }

func (s mortalStore) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	cross(beforeCommit)
	done, err := s.Store.Commit(ctx, commits)
	cross(afterCommit)
	return done, err
}

var (
	chances = flowtest.AStep[int, string]("chances", shim.Policy{Retry: workflow.RetryPolicy{Attempts: 1000, Initial: time.Millisecond}})
	mortals = flowtest.Flow[string, string]("mortals")
)

// home opens the store and the blobs in a directory.
func home(dir string) (store.Store, mortalBlobs, *workflow.Client, error) {
	st, err := store.Open(context.Background(), "sqlite:"+filepath.Join(dir, "flows.db"))
	if err != nil {
		return nil, mortalBlobs{}, nil, err
	}
	at := filepath.Join(dir, "blobs")
	files, err := codec.NewFileBlobs(at)
	if err != nil {
		return nil, mortalBlobs{}, nil, err
	}
	blobs := mortalBlobs{files, at}
	c, err := codec.New(codec.Config{Keys: codec.Keys(flowtest.Key("k1")), Blobs: blobs, OffloadAbove: large})
	if err != nil {
		return nil, mortalBlobs{}, nil, err
	}
	return st, blobs, workflow.NewClient(mortalStore{st}, workflow.ClientConfig{Codec: c}), nil
}

// process executes the role of a process: a worker until SIGTERM, or a sweep.
func process(role string) error {
	st, blobs, c, err := home(os.Getenv(dirEnv))
	if err != nil {
		return err
	}
	if role == "sweep" {
		return errors.Join(upkeep(context.Background(), st, blobs), c.Close(), st.Close())
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	w := worker.New(c, worker.Config{Heartbeat: 200 * time.Millisecond, ClaimExpiry: time.Second, Recoveries: 1_000_000})
	chances.As(func(_ context.Context, n int) (string, error) {
		return text(os.Getpid()+n, 2*large), nil // an attempt of another process has another result
	})(w)
	flowtest.As(mortals, func(ctx workflow.Context, in string) (string, error) {
		var all string
		for n := range 4 {
			got, err := chances.Call(ctx, n)
			if err != nil {
				return "", err
			}
			all += got
		}
		return in + all, nil
	})(w)
	return errors.Join(w.Run(ctx), c.Close(), st.Close())
}

// upkeep removes blobs without references, long after they were stored.
func upkeep(ctx context.Context, st store.Store, blobs store.BlobStore) error {
	clock := &later{Clock: store.SystemClock, by: sealed.Grace + time.Minute}
	sweeper := sealed.NewSweeper(st, blobs, clock)
	for range 3 {
		if err := sweeper.Pass(ctx); err != nil {
			return err
		}
		clock.by += time.Hour
	}
	return nil
}

// live starts a process that is killed when it crosses a point for the nth time. An empty point means
// that it is not killed.
func live(t *testing.T, role, dir, point string, nth int) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), roleEnv+"="+role, dirEnv+"="+dir, pointEnv+"="+point, fmt.Sprintf("%s=%d", nthEnv, nth))
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return cmd, &out
}

// die executes a process until it is killed at a point.
func die(t *testing.T, role, dir, point string, nth int) {
	t.Helper()
	cmd, out := live(t, role, dir, point, nth)
	kill := time.AfterFunc(flowtest.Patience, func() { _ = cmd.Process.Signal(syscall.SIGABRT) })
	defer kill.Stop()
	err := cmd.Wait()
	if status, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || status.Signal() != syscall.SIGKILL {
		t.Fatalf("%s: the process was not killed: %v\n%s", point, err, out)
	}
}

// TestOPS11_AKillAtEachPointOfAnOffloadLosesAndOrphansNoBlob proves that processes which are killed at
// each point of an offload, of a read, and of a sweep leave no orphaned blob after the upkeep, and that
// no blob is missing.
func TestOPS11_AKillAtEachPointOfAnOffloadLosesAndOrphansNoBlob(t *testing.T) {
	if flowtest.Stores["sqlite"] == nil {
		t.Skip("built with the tag inmemory, without SQLite")
	}
	dir := t.TempDir()
	st, blobs, c, err := home(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(c.Close(), st.Close(), blobs.Close()); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 3*flowtest.Patience)
	defer cancel()
	in := text(1, 2*large)
	run, err := mortals.Start(ctx, c, in)
	if err != nil {
		t.Fatal(err)
	}
	for _, point := range []string{beforeGet, afterGet, beforePut, partOfBlob, wholeBlob, afterPut, beforeCommit, afterCommit} {
		die(t, "worker", dir, point, 1)
	}
	for _, point := range []string{afterPut, beforeCommit} { // after other crossings
		die(t, "worker", dir, point, 2)
	}
	last, out := live(t, "worker", dir, "", 0)
	got, err := run.Result(ctx)
	if err != nil || len(got) != len(in)+8*large {
		t.Errorf("got %d bytes and %v", len(got), err)
	}
	if err := errors.Join(last.Process.Signal(syscall.SIGTERM), last.Wait()); err != nil {
		t.Errorf("the last worker: %v\n%s", err, out)
	}
	needed := func() map[string]bool {
		log, err := st.Load(ctx, []store.Load{{Run: run.ID(), Inbox: true}})
		if err != nil || log[0].Err != nil {
			t.Fatal(err, log[0].Err)
		}
		names := store.BlobNames{Chain: run.ID()}
		for _, frame := range log[0].Frames {
			if err := names.Frame(frame); err != nil {
				t.Fatal(err)
			}
		}
		return names.Names
	}()
	before, err := blobs.FileBlobs.List(ctx, "", "", 100)
	if err != nil || len(needed) != 6 || len(before) <= len(needed) {
		t.Fatalf("%d blobs, the run needs %d, %v: want orphaned blobs before the upkeep", len(before), len(needed), err)
	}
	for _, point := range []string{beforeList, afterList, beforeDelete, afterDelete} {
		die(t, "sweep", dir, point, 1)
	}
	if err := upkeep(ctx, st, blobs); err != nil {
		t.Fatal(err)
	}
	after, err := blobs.FileBlobs.List(ctx, "", "", 100)
	if err != nil || len(after) != len(needed) {
		t.Errorf("%d blobs after the upkeep, the run needs %d, %v", len(after), len(needed), err)
	}
	for _, blob := range after {
		if !needed[blob.Name] {
			t.Errorf("blob %s is orphaned", blob.Name)
		}
	}
	parts, err := filepath.Glob(filepath.Join(dir, "blobs", ".unfinished", "*"))
	if err != nil || len(parts) != 2 {
		t.Errorf("unfinished files %v, %v: want those of two processes", parts, err)
	}
	for _, part := range parts {
		old := time.Now().Add(-25 * time.Hour)
		if err := os.Chtimes(part, old, old); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := codec.NewFileBlobs(filepath.Join(dir, "blobs")); err != nil || again.Close() != nil {
		t.Fatal(err)
	}
	if parts, err = filepath.Glob(filepath.Join(dir, "blobs", ".unfinished", "*")); err != nil || len(parts) != 0 {
		t.Errorf("unfinished files after a day: %v, %v", parts, err)
	}
	if loaded, err := c.Store().Load(ctx, []store.Load{{Run: run.ID()}}); err != nil || loaded[0].Err != nil || loaded[0].Sealed != nil {
		t.Errorf("the run cannot be read: %v, %v", err, loaded)
	}
}
