package workflow

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// atOnce is the number of concurrent requests of one call, if the store takes them one by one.
const atOnce = 16

// Infos returns the same data about runs as [Client.List], in the order of the arguments, with one
// request to the store. Data that is only in logs, such as the reasons of blocked runs, is not
// included. The error of a run, such as [ErrRunNotFound], has the index of the run; if the request
// fails, all runs have its error.
func (c *Client) Infos(ctx context.Context, runs ...RunID) (infos []RunInfo, errs []error) {
	infos, errs = make([]RunInfo, len(runs)), make([]error, len(runs))
	loaded, err := c.records(ctx, runs)
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

// cancelMany requests the cancellation of the runs that have no error yet, like [Handle.Cancel] but
// with fewer requests to the store: it finds and ends unserved runs together. It returns errs with
// the errors of Cancel; nil for each run whose request is durable.
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
			// All cancels of a run have the same ID, so only the first one is recorded.
			errs[i] = c.deliver(ctx, run, store.Item{ID: "cancel", Scope: store.ScopeChain}, &event.Event{Type: event.CancelRequested, Reason: reason})
		})
	}
	all.Wait()
	c.endCanceled(ctx, runs, errs)
	for i, err := range errs {
		if err != nil {
			errs[i] = fmt.Errorf("cancel: %w", err)
		}
	}
	return errs
}

// endCanceled ends the runs without an error that need no worker for that. A deleted run accepts
// again the items that it accepted before, so its error is set here.
func (c *Client) endCanceled(ctx context.Context, runs []RunID, errs []error) {
	var asked []RunID
	var at []int
	for i, run := range runs {
		if errs[i] == nil {
			asked, at = append(asked, run), append(at, i)
		}
	}
	loaded, err := c.records(ctx, asked)
	for i := range loaded {
		if errors.Is(loaded[i].Err, ErrRunNotFound) {
			errs[at[i]] = fmt.Errorf("run %s: %w", asked[i], loaded[i].Err)
		}
	}
	if err == nil {
		_, err = c.endLoaded(ctx, loaded)
	}
	if err != nil { // the requests are durable even if this fails
		c.logger.Debug("canceled runs were left to their workers", "runs", len(asked), "error", err)
	}
}

// records loads the records of runs, without their logs.
func (c *Client) records(ctx context.Context, runs []RunID) ([]store.Loaded, error) {
	loads := make([]store.Load, len(runs))
	for i, run := range runs {
		loads[i] = store.Load{Run: run, Limit: -1}
	}
	return c.loadAll(ctx, loads)
}
