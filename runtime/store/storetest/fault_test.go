package storetest_test

import (
	"context"
	"errors"
	"flag"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

// These tests prove that the conformance suite detects mistakes. Each faulty store below is a
// correct store with one mistake. TestRun_CatchesEveryFault runs the suite against each faulty
// store in a separate process and requires the named subtest to fail.

const faultVariable = "STORETEST_FAULT"

// everyFault makes the test run all faults. By default it runs every third fault.
var everyFault = flag.Bool("faults", false, "make every mistake, not one of three")

func TestRun_CatchesEveryFault(t *testing.T) {
	t.Parallel()
	for i, name := range slices.Sorted(maps.Keys(faults)) {
		if i%3 != 0 && !*everyFault {
			continue
		}
		f := faults[name]
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFaultyStore$/"+f.caught+"$", "-test.v",
				"-rapid.shrinktime=1ms", "-rapid.nofailfile", "-rapid.seed=22") // with this seed, random histories reach the mistakes early
			cmd.Env = append(os.Environ(), faultVariable+"="+name)
			out, err := cmd.CombinedOutput()
			if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || !strings.Contains(string(out), "--- FAIL: TestFaultyStore/"+f.caught) {
				t.Errorf("subtest %s did not fail: %v\n%s", f.caught, err, out)
			}
		})
	}
}

// TestFaultyStore runs the suite for TestRun_CatchesEveryFault. Without a fault in the environment,
// it proves that the correct store passes the suite behind the wrapper.
func TestFaultyStore(t *testing.T) {
	wrap, checks := func(s wrapper) store.Store { return s }, 20
	if f, ok := faults[os.Getenv(faultVariable)]; ok {
		wrap, checks = f.wrap, 1000 // the test ends at the first history that fails
		storetest.SetPatience(300 * time.Millisecond)
	}
	storetest.Run(t, storetest.Config{
		Checks: checks,
		Open: func(_ testing.TB, clock store.Clock) store.Store {
			return wrap(wrapper{memstore.NewWith(memstore.Config{Clock: &runningClock{Clock: clock}})})
		},
	})
}

// wrapper is a correct store. It hides the optional interfaces of the wrapped store from type
// assertions, but store.As finds them.
type wrapper struct{ store.Store }

func (w wrapper) Unwrap() store.Store { return w.Store }

// snapshot returns the state of the wrapped store.
func (w wrapper) snapshot(ctx context.Context) *store.Snapshot {
	i, _ := store.As[store.Inspector](w.Store)
	snap, err := i.Inspect(ctx)
	if err != nil {
		return &store.Snapshot{}
	}
	return snap
}

// state returns the state of a run in the wrapped store, or nil if the run does not exist.
func (w wrapper) state(ctx context.Context, run event.RunID) *store.RunState {
	return w.snapshot(ctx).Runs[run]
}

type fault struct {
	caught string // the subtest that must fail
	wrap   func(wrapper) store.Store
}

// faults contains all faulty stores by name.
var faults = func() map[string]fault {
	all := map[string]fault{}
	for _, some := range []map[string]fault{
		storeFaults, chainFaults, outboxFaults, leftFaults, streamFaults, readFaults, awaitFaults, waitFaults, ownerFaults, itemFaults, collectFaults, extremeFaults,
		listFaults, unservedFaults, fleetFaults, opaqueFaults, limitFaults, shareFaults, limitHistoryFaults,
	} {
		maps.Copy(all, some)
	}
	return all
}()

// edit is a store that changes requests before, or answers after, the wrapped store executes them.
// Functions that are nil change nothing.
type edit struct {
	wrapper
	create  func(context.Context, *store.Create) *store.Created
	commit  func(context.Context, *store.Commit) *store.Committed
	deliver func(context.Context, *store.Deliver) error
	claim   func(context.Context, *store.Claim, *store.Claimed)
	release func(context.Context, event.RunID, *store.Fence)
	wait    func(*store.Wait) *store.Woken
	due     func(context.Context, *int)
	mark    func(context.Context, *store.Mark) bool // returns false to drop the mark
	outbox  func(ctx context.Context, limit *int, got *[]store.Outgoing, next *time.Time)
	confirm func(context.Context, event.RunID, event.ItemID) bool // returns false to drop the confirm
	beat    func(*store.Heartbeat)
	purge   func(context.Context)
	publish func(ctx context.Context, run event.RunID, fence *store.Fence, chunks *[]store.Publication) error
	read    func(context.Context, store.ReadStream) (store.StreamPage, error)
	await   func(ctx context.Context, run event.RunID, stream string, after uint64) error
}

func (e edit) Create(ctx context.Context, runs []store.Create) ([]store.Created, error) {
	var answers []store.Created
	for _, c := range slices.Clone(runs) {
		if e.create != nil {
			if a := e.create(ctx, &c); a != nil {
				answers = append(answers, *a)
				continue
			}
		}
		a, err := e.Store.Create(ctx, []store.Create{c})
		if err != nil {
			return nil, err
		}
		answers = append(answers, a...)
	}
	return answers, nil
}

func (e edit) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	var answers []store.Committed
	for _, c := range slices.Clone(commits) {
		if e.commit != nil {
			if a := e.commit(ctx, &c); a != nil {
				answers = append(answers, *a)
				continue
			}
		}
		a, err := e.Store.Commit(ctx, []store.Commit{c})
		if err != nil {
			return nil, err
		}
		answers = append(answers, a...)
	}
	return answers, nil
}

func (e edit) Deliver(ctx context.Context, d store.Deliver) (event.RunID, error) {
	if e.deliver != nil {
		if err := e.deliver(ctx, &d); err != nil {
			return "", err
		}
	}
	return e.Store.Deliver(ctx, d)
}

func (e edit) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	if e.claim != nil {
		e.claim(ctx, &c, nil)
	}
	got, err := e.Store.Claim(ctx, c)
	if e.claim != nil && err == nil {
		e.claim(ctx, &c, &got)
	}
	return got, err
}

func (e edit) Release(ctx context.Context, run event.RunID, fence store.Fence) error {
	if e.release != nil {
		e.release(ctx, run, &fence)
	}
	return e.Store.Release(ctx, run, fence)
}

func (e edit) Wait(ctx context.Context, w store.Wait) (store.Woken, error) {
	if e.wait != nil {
		if woken := e.wait(&w); woken != nil {
			return *woken, nil
		}
	}
	return e.Store.Wait(ctx, w)
}

func (e edit) Due(ctx context.Context, partition, limit int) (time.Time, error) {
	if e.due != nil {
		e.due(ctx, &limit)
	}
	return e.Store.Due(ctx, partition, limit)
}

func (e edit) Mark(ctx context.Context, partition int, marks []store.Mark) error {
	for _, m := range marks {
		if e.mark != nil && !e.mark(ctx, &m) {
			continue
		}
		if err := e.Store.Mark(ctx, partition, []store.Mark{m}); err != nil {
			return err
		}
	}
	return nil
}

func (e edit) Outbox(ctx context.Context, partition, limit int) ([]store.Outgoing, time.Time, error) {
	if e.outbox != nil {
		e.outbox(ctx, &limit, nil, nil)
	}
	got, next, err := e.Store.Outbox(ctx, partition, limit)
	if e.outbox != nil {
		e.outbox(ctx, &limit, &got, &next)
	}
	return got, next, err
}

func (e edit) Confirm(ctx context.Context, run event.RunID, record event.ItemID) error {
	if e.confirm != nil && !e.confirm(ctx, run, record) {
		return nil
	}
	return e.Store.Confirm(ctx, run, record)
}

func (e edit) Heartbeat(ctx context.Context, partition int, s store.SessionID) (store.Heartbeat, error) {
	beat, err := e.Store.Heartbeat(ctx, partition, s)
	if e.beat != nil && err == nil {
		e.beat(&beat)
	}
	return beat, err
}

func (e edit) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	if e.purge != nil {
		e.purge(ctx)
	}
	inner, _ := store.As[store.Purger](e.Store)
	return inner.Purge(ctx, partition, limit)
}

func (e edit) Delete(ctx context.Context, run event.RunID) error {
	inner, _ := store.As[store.Purger](e.Store)
	return inner.Delete(ctx, run)
}

func (e edit) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	if e.publish != nil {
		if err := e.publish(ctx, run, &fence, &chunks); err != nil {
			return err
		}
	}
	return e.Store.Publish(ctx, run, fence, chunks)
}

func (e edit) ReadStream(ctx context.Context, r store.ReadStream) (store.StreamPage, error) {
	if e.read != nil {
		return e.read(ctx, r)
	}
	return e.Store.ReadStream(ctx, r)
}

func (e edit) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	if e.await != nil {
		return e.await(ctx, run, stream, after)
	}
	return e.Store.AwaitStream(ctx, run, stream, after)
}
