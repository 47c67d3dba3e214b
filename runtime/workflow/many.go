package workflow

import (
	"context"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// atOnce is how many requests of one call are under way at a time, where the store takes them one by one.
const atOnce = 16

// Infos returns what [Client.List] has of runs, in their order, with one question to the store: what only their logs say, as
// the reasons of blocked runs, is not in it. The error of a run, such as [ErrRunNotFound], is in its place among the errors; if the
// store does not answer it is that of all of them.
func (c *Client) Infos(ctx context.Context, runs ...RunID) (infos []RunInfo, errs []error) {
	infos, errs = make([]RunInfo, len(runs)), make([]error, len(runs))
	loads := make([]store.Load, len(runs))
	for i, run := range runs {
		loads[i] = store.Load{Run: run, Limit: -1}
	}
	loaded, err := c.loadAll(ctx, loads)
	for i, run := range runs {
		if err == nil {
			infos[i], errs[i] = infoOf(&loaded[i].Record), loaded[i].Err
		} else {
			errs[i] = err
		}
		if errs[i] != nil {
			infos[i], errs[i] = RunInfo{}, fmt.Errorf("get info of run %s: %w", run, errs[i])
		}
	}
	return infos, errs
}

// CancelMany asks runs to end, as [Handle.Cancel] does, and takes fewer questions to the store for it: those that nobody
// serves are looked for, and ended, together. The errors are those of Cancel, in the order of the runs; nil for each run
// whose request is durable.
func (c *Client) CancelMany(ctx context.Context, reason string, runs ...RunID) []error {
	return c.cancelMany(ctx, reason, runs, c.refuseInternals(ctx, "cancel", runs))
}

// cancelMany cancels the runs for which there is no error yet.
func (c *Client) cancelMany(ctx context.Context, reason string, runs []RunID, errs []error) []error {
	wrong := store.CheckText("reason", reason, MaxReason)
	var all sync.WaitGroup
	places := make(chan struct{}, atOnce)
	for i, run := range runs {
		if wrong != nil {
			errs[i] = wrong
		}
		if errs[i] != nil {
			continue
		}
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			// One id for all cancels of a run: the first one is recorded.
			errs[i] = c.deliver(ctx, run, store.Item{ID: "cancel", Scope: store.ScopeChain}, &event.Event{Type: event.CancelRequested, Reason: reason})
		})
	}
	all.Wait()
	var asked []RunID
	for i, run := range runs {
		if errs[i] == nil {
			asked = append(asked, run)
		} else {
			errs[i] = fmt.Errorf("cancel: %w", errs[i])
		}
	}
	if _, err := c.endUnserved(ctx, asked...); err != nil { // the requests are durable all the same
		c.logger.Debug("canceled runs were left to their workers", "runs", len(asked), "error", err)
	}
	return errs
}
