package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// BuildOf returns the build of a worker with this fingerprint, which is WorkerInfo.Build.
func BuildOf(fingerprint string) string { return flow.BuildOf(fingerprint) }

// plainRoute returns the route without the build to which its runs are pinned, and that build.
func plainRoute(r store.Route) (plain store.Route, build string) {
	r.Queue, build = event.SplitQueue(r.Queue)
	return r, build
}

// openRun is a run that has not ended, with the builds that its log contains.
type openRun struct {
	store.Record

	plain store.Route // the route without the build to which the run is pinned
	pin   string      // build to which the run is pinned; empty: none
	begun bool        // whether the code of the run has begun
	build string      // build that has executed the run last; empty: unknown or none
	err   error       // the error that prevents its log from being read
}

const (
	// openPage is the number of runs that eachOpen lists at once, and openBatch the number of runs
	// whose logs it reads at once.
	openPage, openBatch = 1000, 100
	// openFrames is the number of frames of a log that eachOpen reads at once.
	openFrames = 200
	// openBytes is the number of bytes of logs that eachOpen may read per run of its budget.
	openBytes = 16 << 10
)

// eachOpen calls f for each open run, the oldest first. Runs that are created meanwhile come last,
// so the children of a run follow it. It reads at most most runs, and at most openBytes·most bytes
// of their logs. It returns the number of the runs that it has read, and whether these are all.
// Runs that have ended meanwhile are omitted. Logs of internal runs are not read.
func (c *Client) eachOpen(ctx context.Context, most int, f func(*openRun) error) (read int, whole bool, err error) {
	lister, err := capability[store.Lister](c, "list open runs")
	if err != nil {
		return 0, false, err
	}
	bytes := most * openBytes
	for q := (store.Query{Statuses: open, Oldest: true, Limit: openPage}); ; {
		page, err := lister.List(ctx, q)
		c.inner.LogDamage()
		if err != nil {
			return read, false, err
		}
		for at := 0; at < len(page.Runs); at += openBatch {
			if read >= most || bytes <= 0 {
				return read, false, nil
			}
			batch, used, err := c.readOpen(ctx, page.Runs[at:min(at+openBatch, len(page.Runs))], bytes)
			if err != nil {
				return read, false, err
			}
			bytes -= used
			read += len(batch)
			for i := range batch {
				if err := f(&batch[i]); err != nil {
					return read, false, err
				}
			}
		}
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return read, true, nil
		}
	}
}

// readOpen reads the logs of the runs. It returns those that are still open, and the number of bytes
// that it has read. If a log exceeds the given number of bytes, the run has an error.
func (c *Client) readOpen(ctx context.Context, records []store.Record, bytes int) (runs []openRun, used int, err error) {
	all := make([]openRun, len(records))
	var loads []store.Load
	var of []*openRun
	for i := range records {
		r := &all[i]
		r.Record = records[i]
		r.plain, r.pin = plainRoute(r.Route)
		if !event.Internal(r.Route.Workflow) {
			loads, of = append(loads, store.Load{Run: r.Run, Limit: openFrames}), append(of, r)
		}
	}
	for len(loads) > 0 {
		loaded, err := c.store.Load(ctx, loads)
		if err != nil {
			return nil, used, err
		}
		var again []store.Load
		var rest []*openRun
		for i := range loaded {
			l, r := &loaded[i], of[i]
			used += r.take(l)
			after := loads[i].After + uint64(len(l.Frames))
			if r.err != nil || len(l.Frames) == 0 || after >= l.Record.N {
				continue
			}
			if used > bytes {
				r.err = fmt.Errorf("its log is longer than the %d bytes that may be read", bytes)
				continue
			}
			again, rest = append(again, store.Load{Run: r.Run, After: after, Limit: openFrames}), append(rest, r)
		}
		loads, of = again, rest
	}
	for i := range all {
		if r := &all[i]; r.QueueState != store.StateEnded && !errors.Is(r.err, store.ErrRunNotFound) {
			runs = append(runs, *r)
		}
	}
	return runs, used, nil
}

// take adds what a part of the log contains, and returns the size of that part.
func (r *openRun) take(l *store.Loaded) (size int) {
	if r.err = l.Err; r.err != nil {
		return 0
	}
	r.Record = l.Record
	for _, frame := range l.Frames {
		size += len(frame)
		f, err := event.DecodeFrame(frame)
		if err != nil {
			r.err = err
			return size
		}
		for i := range f.Events {
			e := &f.Events[i]
			r.begun = r.begun || e.Type == event.RunStarted
			if e.Build != "" {
				r.build = e.Build
			}
		}
	}
	return size
}

// countStarted calls count with the build that has begun each of the newest runs.
func (c *Client) countStarted(ctx context.Context, count func(build string)) error {
	lister, err := capability[store.Lister](c, "list runs")
	if err != nil {
		return err
	}
	page, err := lister.List(ctx, store.Query{Started: true, Limit: startedSample})
	if err != nil {
		return err
	}
	loads := make([]store.Load, len(page.Runs))
	for i := range page.Runs {
		loads[i] = store.Load{Run: page.Runs[i].Run, Limit: 2} // the run has begun in its first or second commit, unless it has received messages before
	}
	for at := 0; at < len(loads); at += openBatch {
		loaded, err := c.store.Load(ctx, loads[at:min(at+openBatch, len(loads))])
		if err != nil {
			return err
		}
		for i := range loaded {
			if r := (openRun{}); loaded[i].Err == nil {
				r.take(&loaded[i])
				count(r.build)
			}
		}
	}
	return nil
}

// blockedInfo returns the info of a blocked run. It is zero if the run has been removed, or cannot be
// read.
func (c *Client) blockedInfo(ctx context.Context, r *openRun) (workflow.RunInfo, error) {
	info, err := c.client.Run(r.Run).Info(ctx)
	if ctx.Err() != nil {
		return info, err
	}
	if err != nil {
		return workflow.RunInfo{}, nil //nolint:nilerr // the list contains the run without the reason
	}
	return info, nil
}
