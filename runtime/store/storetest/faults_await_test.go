package storetest_test

import (
	"context"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// The kinds of notifications of AwaitStream that a deaf store can omit.
const (
	byCommit   = "a commit"
	byPublish  = "a publish"
	byOther    = "another run of the chain"
	ofStream   = "the end of the stream"
	ofChain    = "the end of the chain"
	ofDelete   = "a delete"
	ofPurge    = "a purge"
	toOthers   = "whoever is not the first"
	fromBefore = "what was there before"
	meanwhile  = "what comes meanwhile"
)

// deaf is a store whose AwaitStream omits one kind of notification.
type deaf struct {
	wrapper
	to string

	mu   sync.Mutex
	more chan struct{} // closed and replaced on each notification
}

func newDeaf(to string) func(wrapper) store.Store {
	return func(w wrapper) store.Store { return &deaf{wrapper: w, to: to, more: make(chan struct{})} }
}

func (d *deaf) tell(of ...string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if slices.Contains(of, d.to) {
		return
	}
	if d.to == toOthers {
		select {
		case d.more <- struct{}{}:
		default:
		}
		return
	}
	close(d.more)
	d.more = make(chan struct{})
}

func (d *deaf) AwaitStream(ctx context.Context, run event.RunID, stream string, after uint64) error {
	page, err := d.ReadStream(ctx, store.ReadStream{Run: run, Stream: stream, Limit: -1})
	if err != nil {
		return err
	}
	if d.to == meanwhile {
		for range 2000 {
			runtime.Gosched()
		}
	}
	d.mu.Lock()
	more := d.more
	if d.to != meanwhile {
		page, err = d.ReadStream(ctx, store.ReadStream{Run: run, Stream: stream, Limit: -1})
	}
	d.mu.Unlock()
	if d.to != fromBefore && (err != nil || page.Last != after || page.Closed || page.Ended) {
		return err
	}
	select {
	case <-more:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (d *deaf) Commit(ctx context.Context, commits []store.Commit) ([]store.Committed, error) {
	answers, err := d.Store.Commit(ctx, commits)
	for i := range commits {
		of := []string{byCommit}
		for _, p := range commits[i].Publish {
			if p.Drop || p.Close {
				of = []string{ofStream}
			}
		}
		if commits[i].Effect == store.EffectFinish {
			of = []string{ofChain}
		}
		d.tell(append(of, d.others(ctx, commits[i].Run)...)...)
	}
	return answers, err
}

func (d *deaf) Publish(ctx context.Context, run event.RunID, fence store.Fence, chunks []store.Publication) error {
	err := d.Store.Publish(ctx, run, fence, chunks)
	d.tell(append(d.others(ctx, run), byPublish)...)
	return err
}

// others returns byOther if the chain of the run has more than one run, and nil otherwise.
func (d *deaf) others(ctx context.Context, run event.RunID) []string {
	if r := d.state(ctx, run); r != nil && (r.Chain != r.Run || r.Next != "") {
		return []string{byOther}
	}
	return nil
}

func (d *deaf) Delete(ctx context.Context, run event.RunID) error {
	inner, _ := store.As[store.Purger](d.Store)
	err := inner.Delete(ctx, run)
	d.tell(ofDelete)
	return err
}

func (d *deaf) Purge(ctx context.Context, partition, limit int) (int, time.Time, error) {
	inner, _ := store.As[store.Purger](d.Store)
	n, next, err := inner.Purge(ctx, partition, limit)
	d.tell(ofPurge)
	return n, next, err
}

// awaiting returns a constructor of stores whose AwaitStream calls do.
func awaiting(do func(ctx context.Context, w wrapper, run event.RunID, stream string, after uint64) error) func(wrapper) store.Store {
	return func(w wrapper) store.Store {
		return edit{wrapper: w, await: func(ctx context.Context, run event.RunID, stream string, after uint64) error {
			return do(ctx, w, run, stream, after)
		}}
	}
}

// awaitFaults are mistakes in AwaitStream.
var awaitFaults = map[string]fault{
	"await is deaf to what was there before": {"AwaitStreamReturnsAtOnceIfThereIsMore", newDeaf(fromBefore)},
	"await never blocks": {"AwaitStreamBlocksWhileNothingHappens",
		awaiting(func(context.Context, wrapper, event.RunID, string, uint64) error { return nil })},
	"await is deaf to commits":                 {"AwaitStreamIsToldOfACommit", newDeaf(byCommit)},
	"await is deaf to steps":                   {"AwaitStreamIsToldOfAPublish", newDeaf(byPublish)},
	"await is deaf to the end of a stream":     {"AwaitStreamIsToldOfTheEndOfAStream", newDeaf(ofStream)},
	"await is deaf to the end of a chain":      {"AwaitStreamIsToldOfTheEndOfTheChain", newDeaf(ofChain)},
	"await is deaf to other runs of the chain": {"AwaitStreamIsToldByAnyRunOfTheChain", newDeaf(byOther)},
	"await goes with the run that continues":   {"AwaitStreamGoesOnWhenTheRunContinues", newDeaf(byOther)},
	"await is deaf to a delete":                {"AwaitStreamEndsWhenTheRunIsDeleted", newDeaf(ofDelete)},
	"await is deaf to a purge":                 {"AwaitStreamEndsWhenTheRunIsPurged", newDeaf(ofPurge)},
	"await tells one of all":                   {"ManyWhoAwaitStreamsAreAllTold", newDeaf(toOthers)},
	"await looks, and listens only later":      {"AwaitStreamMissesNothingThatIsWrittenMeanwhile", newDeaf(meanwhile)},
	"await waits for a run that does not exist": {"AwaitStreamOfAnUnknownRunIsNotFound",
		awaiting(func(ctx context.Context, w wrapper, run event.RunID, stream string, after uint64) error {
			if w.state(ctx, run) == nil {
				<-ctx.Done()
			}
			return w.Store.AwaitStream(ctx, run, stream, after)
		})},
	"await ignores its context": {"AwaitStreamEndsWithItsContext",
		awaiting(func(ctx context.Context, w wrapper, run event.RunID, stream string, after uint64) error {
			return w.Store.AwaitStream(context.WithoutCancel(ctx), run, stream, after)
		})},
}
