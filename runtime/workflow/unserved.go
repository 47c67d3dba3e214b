package workflow

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/pins"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Unserved returns false if the store cannot determine whether a worker serves the run.
func (c *client) Unserved(ctx context.Context, r *store.Record) (bool, error) {
	roster, ok := store.As[store.Roster](c.store)
	if !ok || r.QueueState != store.StateReady {
		return false, nil
	}
	served, err := roster.Serves(ctx, int(r.Run.Slot())%c.store.Partitions(), r.Route)
	return err == nil && !served, err
}

func (c *client) ExplainUnserved(ctx context.Context, run RunID, err error) error {
	l, failed := c.load(ctx, store.Load{Run: run, Limit: -1})
	if failed != nil {
		return err
	}
	if unserved, _ := c.Unserved(ctx, &l.Record); !unserved { // if the state is unknown, return err unchanged
		return err
	}
	route, build := pins.Plain(l.Record.Route)
	if build != "" {
		return fmt.Errorf("%w: %w: %s is pinned to build %s: no worker of this build serves workflow %q on queue %q: start one, or move its runs to the workers of another build with \"flowctl deploys retire %[4]s\"",
			err, ErrRunUnserved, run, build, route.Workflow, route.Queue)
	}
	return fmt.Errorf("%w: %w: %s: no worker serves workflow %q on queue %q: start one that registers it and has the queue in worker.Config.Queues",
		err, ErrRunUnserved, run, route.Workflow, route.Queue)
}

func (c *client) EndUnserved(ctx context.Context, run RunID) (ended bool, err error) {
	loaded, err := c.records(ctx, []RunID{run})
	if err != nil {
		return false, err
	}
	runs, err := c.endLoaded(ctx, loaded)
	return len(runs) > 0, err
}

// endLoaded ends runs that were read after they had been asked to cancel. A run is ended if its code
// has not begun and either no worker serves it or it is queued behind other runs with its workflow
// ID. endLoaded returns the runs that it has ended.
//
// A worker that claimed such a run would end it without executing its code, because it was asked to
// cancel before it began. Therefore no effect of the code is lost. All other runs are left to
// workers.
func (c *client) endLoaded(ctx context.Context, loaded []store.Loaded) (ended []RunID, err error) {
	type place struct {
		partition int
		route     string
	}
	unserved, left, queued := map[place]bool{}, map[int][]RunID{}, map[int][]RunID{}
	for i := range loaded {
		r := &loaded[i].Record
		if loaded[i].Err != nil || r.N != 1 {
			continue
		}
		if r.QueueState == store.StateQueued && c.seizer() != nil {
			asked, err := c.asked(ctx, r.Run) // if the run was not asked to cancel, releasing it would make it ready ahead of its position in the queue
			if err != nil {
				return nil, err
			}
			if asked {
				queued[c.partitionOf(r.Run)] = append(queued[c.partitionOf(r.Run)], r.Run)
			}
			continue
		}
		if r.QueueState != store.StateReady {
			continue
		}
		at := place{c.partitionOf(r.Run), r.Route.Workflow + "\x00" + r.Route.Queue}
		if _, known := unserved[at]; !known {
			if unserved[at], err = c.Unserved(ctx, r); err != nil {
				return nil, err
			}
		}
		if unserved[at] {
			left[at.partition] = append(left[at.partition], r.Run)
		}
	}
	for how, parts := range []map[int][]RunID{takeFree: left, takeLined: queued} {
		for partition, runs := range parts {
			for part := range slices.Chunk(runs, endAtOnce) {
				some, err := c.endAlone(ctx, partition, part, taking(how), c.ending)
				if ended = append(ended, some...); err != nil {
					return ended, err
				}
			}
		}
	}
	return ended, nil
}

// asked reports whether the inbox of a run contains a cancel request.
func (c *client) asked(ctx context.Context, run RunID) (bool, error) {
	l, err := c.load(ctx, store.Load{Run: run, Limit: -1, Inbox: true})
	return asksToEnd(l.Inbox), err
}

func asksToEnd(inbox []store.Item) bool {
	return slices.ContainsFunc(inbox, func(i store.Item) bool {
		e, err := event.DecodeItem(i.Body)
		return err == nil && e.Type == event.CancelRequested
	})
}

// taking determines which states of a run allow a client to claim it.
type taking int

const (
	takeFree  taking = iota // the run is ready or parked, so that a worker could claim it
	takeLined               // the run may also wait in a queue, for permits or for its workflow ID
	takeOwned               // another session may also own the run; that session loses the run
)

// take claims a run. If the store does not implement [store.Seizer], only takeFree is possible.
func (c *client) take(ctx context.Context, partition int, session store.SessionID, run RunID, how taking) (store.ClaimedRun, error) {
	if seizer := c.seizer(); how != takeFree && seizer != nil {
		return seizer.Seize(ctx, partition, session, event.NewToken(), run, how == takeOwned)
	}
	return c.store.ClaimRun(ctx, partition, session, event.NewToken(), run)
}

// seizer returns the store as a store.Seizer, or nil if it does not implement that interface.
func (c *client) seizer() store.Seizer {
	seizer, _ := store.As[store.Seizer](c.store)
	return seizer
}

func (c *client) partitionOf(run RunID) int { return int(run.Slot()) % c.store.Partitions() }

// endAlone ends runs of a partition that no worker executes. ending returns the commit that ends a
// run from its stored data. If it returns nil, endAlone releases the run. endAlone returns the runs
// that it has ended.
//
// endAlone claims the runs with its own session, which exists only for this call and serves no
// queue. Therefore a concurrent client or worker either claims a run first, or finds that the run
// is owned or has ended. If the client crashes, its session expires, and the runs wait again with
// the requests in their inboxes.
func (c *client) endAlone(ctx context.Context, partition int, runs []RunID, how taking, ending func(*store.ClaimedRun, *store.Loaded) (*store.Commit, error)) (ended []RunID, err error) {
	session := store.SessionID("client/" + event.NewToken().String())
	if err := c.store.OpenSession(ctx, store.Session{Partition: partition, ID: session, Worker: "client", TTL: endLease}); err != nil {
		return nil, err
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), endPatience)
	defer cancel()
	defer func() { _ = c.store.CloseSession(closing, partition, session) }() // if this fails, the lease of the session expires
	var claims []store.ClaimedRun
	var loads []store.Load
	for _, run := range runs {
		claimed, err := c.take(ctx, partition, session, run, how)
		switch {
		case err == nil:
			claims, loads = append(claims, claimed), append(loads, store.Load{Run: run, Inbox: true})
		case !errors.Is(err, store.ErrOwned) && !errors.Is(err, store.ErrNotClaimable) && !errors.As(err, new(*store.TerminalError)):
			return nil, err // the other errors mean that another process has claimed or ended the run first
		}
	}
	loaded, err := c.loadAll(ctx, loads)
	if err != nil {
		return nil, err
	}
	var requests []store.Commit
	var failed error
	for i := range claims {
		request, err := ending(&claims[i], &loaded[i])
		if err != nil || request == nil {
			failed = errors.Join(failed, err, c.store.Release(closing, claims[i].Run, claims[i].Fence))
			continue
		}
		requests = append(requests, *request)
	}
	if len(requests) == 0 {
		return nil, failed
	}
	answers, err := c.store.Commit(ctx, requests)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	for i := range answers {
		if failed = errors.Join(failed, answers[i].Err); answers[i].Err == nil {
			ended = append(ended, requests[i].Run)
		}
	}
	return ended, failed
}

const (
	// endLease is the lease of endAlone's session. It is shorter than those of workers, so that an
	// expired session of a client hardly affects the detection of dead workers, see package store.
	endLease = 2 * time.Second
	// endAtOnce is the maximum number of runs that one call claims. All of them end long before the
	// lease expires.
	endAtOnce = 100
	// endPatience is the maximum time for closing the session.
	endPatience = 5 * time.Second
)

// ending returns the commit that ends a run that was asked to cancel and whose log contains only
// its creation. It returns nil if a worker must end the run.
func (c *client) ending(claimed *store.ClaimedRun, l *store.Loaded) (*store.Commit, error) {
	if l.Err != nil || len(l.Frames) != 1 {
		return nil, l.Err
	}
	created, err := event.DecodeFrame(l.Frames[0])
	if err != nil || len(created.Events) != 1 || created.Events[0].Type != event.RunCreated {
		return nil, err
	}
	r := replay.New(claimed.Run, "", nil, nil)
	defer r.Close()
	if err := r.Replay(created.Events); err != nil {
		return nil, err
	}
	late, err := c.applyUntilEnd(r, l.Inbox)
	if err != nil || !r.Ended() {
		return nil, err
	}
	events := r.Take()
	last := &events[len(events)-1]
	last.By = "client"
	r.Unread(func(e *event.Event) bool {
		last.Unread = append(last.Unread, e.Item)
		return true
	})
	last.Unread = append(last.Unread, late...)
	return endCommit(claimed, r.State(), events, l.Inbox)
}

// endCommit returns the commit that ends a run and consumes the items of its inbox. The last of the
// events records the outcome. state includes the events.
func endCommit(claimed *store.ClaimedRun, state *event.LogState, events []event.Event, inbox []store.Item) (*store.Commit, error) {
	req, err := commitAlone(claimed, state, events, inbox, store.EffectFinish)
	if req != nil {
		req.Progress = true
	}
	return req, err
}

// commitAlone returns the commit of events. Only the last event may have effects on other runs.
func commitAlone(claimed *store.ClaimedRun, state *event.LogState, events []event.Event, inbox []store.Item, effect store.Effect) (*store.Commit, error) {
	last := &events[len(events)-1]
	req := &store.Commit{
		Run: claimed.Run, WorkflowID: claimed.WorkflowID, Fence: claimed.Fence, Prev: claimed.Last, CommitID: event.NewCommitID(),
		First: events[0].Seq, Last: last.Seq, Effect: effect, Status: state.Status(),
	}
	if n := len(inbox); n > 0 {
		req.Consume, req.ConsumeLast = n, inbox[n-1].ID
	}
	var err error
	if req.Send, err = effects.Sends(claimed.Run, state, last); err != nil {
		return nil, err
	}
	req.Frame, err = event.AppendFrame(nil, &event.Frame{
		CommitID: req.CommitID, Prev: claimed.Last, Epoch: claimed.Fence.Epoch, Token: claimed.Fence.Token, Time: last.Time, Events: events,
	})
	return req, err
}

// applyUntilEnd applies the items in the inbox of a run that has not begun, until the run ends. It
// returns the remaining items. If an item is not a message, a pause or a cancel request, a worker
// must apply it, and applyUntilEnd stops.
func (c *client) applyUntilEnd(r *replay.Run, inbox []store.Item) (late []event.ItemID, err error) {
	for _, item := range inbox {
		if r.Ended() {
			late = append(late, item.ID)
			continue
		}
		e, err := event.DecodeItem(item.Body)
		if err != nil {
			return nil, err
		}
		switch e.Type {
		case event.CancelRequested, event.MessageReceived:
		case event.RunPaused, event.RunResumed:
			continue // has no effect, because the run ends; the item counts as accepted
		default:
			return nil, nil
		}
		e.Item, e.Time = item.ID, c.store.Clock().Now()
		if err := r.Apply(*e); err != nil {
			return nil, err
		}
	}
	return late, nil
}
