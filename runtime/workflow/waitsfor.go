package workflow

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/store"
)

// LimitWait is a limit for whose permits a run, or one of its steps, waits.
type LimitWait struct {
	// Step is the stored name of the waiting step, and StepKey is its key within the run. Both are
	// empty if the run itself waits.
	Step, StepKey string
	Limit         string // name of the limit
	Key           string // key of the limit; empty: the limit has no keys
	Paused        bool   // the limit or key is paused: nothing that uses it begins until it is resumed
	// Ahead is the first run in the limiter queue, which may wait because it needs more permits
	// than are free. It is empty if this run is the first. If the first run executes a step, Ahead
	// is the run to which the step belongs.
	Ahead RunID
	Since time.Time
}

// String returns the limit as name or name/key, followed by "(paused)" if it is paused.
func (w *LimitWait) String() string {
	name := store.LimitID{Name: w.Limit, Key: w.Key}.String()
	if w.Paused {
		name += " (paused)"
	}
	return name
}

// LimitHold describes the permits of one limit that a run holds.
type LimitHold struct {
	Limit  string
	Key    string // key of the limit; empty: the limit has no keys
	Weight int
}

const (
	// mostWaits is the maximum number of limits that Info and lists report for a run.
	mostWaits = 20
	// listedFrames is the maximum number of frames of a log that a list reads to find the waiting
	// steps of a run. The next list continues after these frames. listedAtOnce is the maximum
	// number of runs whose frames are in memory at the same time.
	listedFrames, listedAtOnce = 16, 16
)

// remoteStep is a step of a run that another run executes.
type remoteStep struct {
	run  RunID
	name string
	key  string
}

// remoteSteps returns the open steps of a log that other runs execute, in order of creation.
func (l *followedLog) remoteSteps() (all []remoteStep) {
	for _, o := range slices.SortedFunc(l.state.Opens, byRef) {
		if name, is := event.StepOfRun(o.Name); is && o.Entity == event.EntityChild {
			all = append(all, remoteStep{run: o.Next, name: name, key: o.Key})
		}
	}
	return all
}

// byRef compares operations by the order of their creation.
func byRef(a, b *event.Open) int { return cmp.Compare(a.Ref, b.Ref) }

// mayHaveSteps reports whether a run may wait for steps that other runs execute. It returns false
// for a run that also does other work, because the run makes progress and its log may grow fast.
func mayHaveSteps(r *store.Record) bool {
	switch r.Status {
	case StatusWaiting, StatusPaused, StatusBlocked:
		return r.N > 1 && !event.Internal(r.Route.Workflow)
	}
	return false
}

// stepsOf reads the log of a run. It returns the steps that other runs execute for this run, and
// whether the run is paused.
func (c *client) stepsOf(ctx context.Context, r *store.Record) (steps []remoteStep, paused bool, err error) {
	if !mayHaveSteps(r) && r.Status != StatusHeld && r.Status != StatusBlocked {
		return nil, false, nil
	}
	err = c.readLog(ctx, r, func(l *followedLog) { steps, paused = l.remoteSteps(), l.state.Paused })
	return steps, paused, err
}

// listedSteps returns, for each run, the steps that other runs execute for it. It reads only a few
// frames of each log, so the result may be incomplete.
func (c *client) listedSteps(ctx context.Context, records []*store.Record) (map[RunID][]remoteStep, error) {
	steps := map[RunID][]remoteStep{}
	waiting := make([]*store.Record, 0, len(records))
	for _, r := range records {
		if mayHaveSteps(r) {
			waiting = append(waiting, r)
		}
	}
	for part := range slices.Chunk(waiting, listedAtOnce) {
		loads, logs := make([]store.Load, len(part)), make([]*followedLog, len(part))
		for i, r := range part {
			l := c.log(r.Run)
			l.mu.Lock()
			if l.broken || l.read > r.N || l.read == r.N && l.last != r.Last { // the cached log is not the current log of the run
				l.forget()
			}
			logs[i], loads[i] = l, store.Load{Run: r.Run, After: l.read, Limit: listedFrames}
			if l.read == r.N {
				loads[i].Limit = -1
			}
			l.mu.Unlock()
		}
		loaded, err := c.store.Load(ctx, loads)
		if err != nil {
			return steps, err
		}
		for i, l := range logs {
			l.mu.Lock()
			if loaded[i].Err == nil && l.read == loads[i].After && !l.broken {
				l.take(loaded[i].Frames)
			}
			steps[part[i].Run] = l.remoteSteps()
			c.logs.Measure(part[i].Run, l, l.size())
			l.mu.Unlock()
		}
	}
	return steps, nil
}

// waiter is a run that waits for permits, for itself or for a step of another run.
type waiter struct {
	record *store.Record
	of     int // index of the run in whose WaitsFor the wait is reported
	step   remoteStep
}

// fillWaits sets WaitsFor of runs. records are the records of the runs that take their permits, and
// remote contains the steps that other runs execute for them.
func (c *client) fillWaits(ctx context.Context, infos []RunInfo, records []*store.Record, remote map[RunID][]remoteStep) error {
	reader, ok := store.As[store.TurnReader](c.store)
	if !ok {
		return nil
	}
	var waiters, steps []waiter
	var runs []RunID
	for i, r := range records {
		if r.Waits() {
			waiters = append(waiters, waiter{record: r, of: i})
		}
		found := remote[infos[i].ID]
		for _, s := range found[:min(len(found), mostWaits)] {
			steps, runs = append(steps, waiter{of: i, step: s}), append(runs, s.run)
		}
	}
	loaded, err := c.records(ctx, runs)
	if err != nil {
		return err
	}
	for i := range loaded {
		if loaded[i].Err == nil && loaded[i].Record.Waits() {
			steps[i].record = &loaded[i].Record
			waiters = append(waiters, steps[i])
		}
	}
	if len(waiters) == 0 {
		return nil
	}
	return c.placeWaits(ctx, reader, infos, waiters)
}

// placeWaits finds the limit for which each waiter waits, and adds it to WaitsFor.
func (c *client) placeWaits(ctx context.Context, reader store.TurnReader, infos []RunInfo, waiters []waiter) error {
	turns := make([]map[store.LimitID]store.Turn, c.store.Partitions())
	for _, w := range waiters {
		p := c.partitionOf(w.record.Run)
		if turns[p] == nil {
			turns[p] = map[store.LimitID]store.Turn{}
		}
		for _, u := range w.record.Uses {
			turns[p][u.LimitID] = store.Turn{}
		}
	}
	for p, parts := range turns {
		if len(parts) == 0 {
			continue
		}
		ids := slices.Collect(maps.Keys(parts))
		read, err := reader.Turns(ctx, p, ids)
		if err != nil { // not returned, because a damaged limit must not hide the other data
			c.logger.Debug("limits could not be read", "partition", p, "error", err)
			continue
		}
		for i, id := range ids {
			parts[id] = read[i]
		}
	}
	ahead := map[RunID]RunID{} // the runs that are first in their queues
	for _, w := range waiters {
		r := w.record
		if r.WaitsSince.IsZero() { // there was free capacity when the run arrived, so it only waits for a worker
			continue
		}
		all := make([]store.Turn, len(r.Uses))
		for i, u := range r.Uses {
			all[i] = turns[c.partitionOf(r.Run)][u.LimitID]
		}
		at, ok := store.WaitsAt(r.Run, r.Uses, all)
		if !ok {
			continue
		}
		id, turn := r.Uses[at].LimitID, all[at]
		one := LimitWait{Step: w.step.name, StepKey: w.step.key, Limit: id.Name, Key: id.Key, Paused: turn.Config.Paused, Since: r.WaitsSince}
		if turn.First != r.Run {
			one.Ahead = turn.First
			ahead[turn.First] = turn.First
		}
		infos[w.of].WaitsFor = append(infos[w.of].WaitsFor, one)
	}
	delete(ahead, "")
	if err := c.shownFor(ctx, ahead); err != nil {
		return err
	}
	for i := range infos {
		for k := range infos[i].WaitsFor {
			w := &infos[i].WaitsFor[k]
			w.Ahead = ahead[w.Ahead]
		}
	}
	return nil
}

// shownFor replaces each internal run among the values of the map by its parent. An internal run
// executes a step or takes permits for its parent.
func (c *client) shownFor(ctx context.Context, runs map[RunID]RunID) error {
	ids := slices.Collect(maps.Keys(runs))
	loaded, err := c.records(ctx, ids)
	for i := range loaded {
		if r := &loaded[i].Record; loaded[i].Err == nil && r.Parent != "" && event.Internal(r.Route.Workflow) {
			runs[ids[i]] = r.Parent
		}
	}
	return err
}

// remoteRetries returns the retries of steps that other runs execute, as retries of steps of the
// calling run.
func (c *client) remoteRetries(ctx context.Context, steps []remoteStep) (all []StepRetry, err error) {
	for _, s := range steps[:min(len(steps), mostWaits)] {
		l, err := c.load(ctx, store.Load{Run: s.run, Limit: -1})
		if errors.Is(err, ErrRunNotFound) || err == nil && l.Record.Group == "" {
			continue
		}
		var retries []StepRetry
		if err == nil {
			retries, _, err = c.followed(ctx, &l.Record)
		}
		if err != nil {
			return all, fmt.Errorf("get info of step %s: %w", s.key, err)
		}
		for _, r := range retries {
			r.Key = s.key
			all = append(all, r)
		}
	}
	return all, nil
}

// Retries: Info reads the retries of a run from its log, which may be long. Therefore the record
// shows whether there are retries to read. A worker sets the Group of a run in the commit in which
// the first of its steps begins to fail, and removes it in the commit after which no step fails.
// Info does not read the log of a run without a Group. It reads any other log once, and later
// continues at the position that it has reached.

// isFollowed reports whether Info needs data of the log that the record does not contain.
func isFollowed(r *store.Record, spec *event.Spec) bool {
	if r.QueueState == store.StateEnded || r.QueueState == store.StateParked && r.Due.IsZero() {
		return false // no attempt will follow
	}
	if r.Group != "" {
		return true
	}
	pending := r.Status == StatusPending || r.Status == StatusHeld || r.Status == StatusPaused
	return pending && spec != nil && spec.StartWithin > 0
}

// mostFollowed is the approximate maximum size of the cached logs, in bytes.
const mostFollowed = 4 << 20

// followedLog is the state of a log up to the last frame that was read.
type followedLog struct {
	mu     sync.Mutex // one caller reads, and other callers wait for its result
	read   uint64     // number of frames that were read
	last   event.CommitID
	state  event.LogState
	hooks  map[string]*event.Event // opening events of the open hooks, by token
	broken bool                    // the next frame cannot be read
}

// followed returns the retries of a run from its log, and the time by which the run must begin. If
// a part of the log cannot be read, the result covers the events before that part. Such a run is
// blocked, and the reason is reported elsewhere.
func (c *client) followed(ctx context.Context, r *store.Record) (retries []StepRetry, by time.Time, err error) {
	err = c.readLog(ctx, r, func(l *followedLog) {
		retries = retriesIn(&l.state)
		if l.state.Spec != nil { // the log has a readable event
			by = l.state.StartBy()
		}
	})
	return retries, by, err
}

// Orders reads only the part of the log that was added since the last read. If a part of the log
// cannot be read, the result covers the events before that part.
func (c *client) Orders(ctx context.Context, run RunID) (o flow.Orders, err error) {
	if _, err := c.handle(run).resolve(ctx); err != nil {
		return o, err
	}
	got, err := c.load(ctx, store.Load{Run: run, Limit: -1})
	if err == nil {
		err = c.readLog(ctx, &got.Record, func(l *followedLog) {
			o = flow.Orders{Paused: l.state.Paused, Canceling: l.state.Ending(), CancelReason: l.state.CancelReason}
		})
	}
	if err != nil {
		return flow.Orders{}, fmt.Errorf("read orders to run %s: %w", run, err)
	}
	return o, nil
}

func (c *client) log(run RunID) *followedLog {
	return c.logs.Get(run, func() *followedLog { return new(followedLog) })
}

// readLog reads the part of the log of a run that was added since the last call, and then calls use,
// even if it returns an error. While use is called, the log does not change.
func (c *client) readLog(ctx context.Context, r *store.Record, use func(*followedLog)) error {
	l := c.log(r.Run)
	l.mu.Lock()
	defer l.mu.Unlock()
	err := l.follow(ctx, c, r)
	use(l)
	c.logs.Measure(r.Run, l, l.size())
	return err
}

// follow reads the part of the log that was added since the last call.
func (l *followedLog) follow(ctx context.Context, c *client, r *store.Record) error {
	same, err := l.isBeginningOf(ctx, c, r)
	if err != nil {
		return err
	}
	if !same {
		l.forget()
	}
	for l.read < r.N {
		got, err := c.load(ctx, store.Load{Run: r.Run, After: l.read, Limit: pageFrames})
		if err != nil {
			return err
		}
		if len(got.Frames) == 0 || !l.take(got.Frames) {
			return nil
		}
	}
	return nil
}

// isBeginningOf reports whether the frames that were read are a prefix of the current log. They are
// not if the store has lost writes, or if the run was deleted and created again with the same ID.
func (l *followedLog) isBeginningOf(ctx context.Context, c *client, r *store.Record) (bool, error) {
	switch {
	case l.broken:
		return false, nil
	case l.read == 0:
		return true, nil
	case l.read == r.N:
		return l.last == r.Last, nil
	}
	got, err := c.load(ctx, store.Load{Run: r.Run, After: l.read - 1, Limit: 1}) // read a single frame, because the log may have grown since r was read
	if err != nil || len(got.Frames) == 0 {
		return false, err
	}
	f, err := event.DecodeFrame(got.Frames[0])
	return err == nil && f.CommitID == l.last, nil
}

// take applies frames. It reports whether all frames could be applied.
func (l *followedLog) take(frames [][]byte) bool {
	for _, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil || l.read > 0 && f.Prev != l.last || !l.apply(f.Events) {
			l.broken = true
			return false
		}
		l.read, l.last = l.read+1, f.CommitID
	}
	return true
}

func (l *followedLog) forget() {
	l.read, l.last, l.state, l.hooks, l.broken = 0, event.CommitID{}, event.LogState{}, nil, false
}

// size returns the approximate memory use of l, in bytes.
func (l *followedLog) size() int64 {
	const log, open = 1 << 10, 512
	n := log + int64(l.state.Seq)
	l.state.Opens(func(*event.Open) bool { n += open; return true })
	for token, e := range l.hooks {
		n += open + int64(len(token)+len(e.Meta))
	}
	return n
}

// apply applies events. It reports whether all events could be applied.
func (l *followedLog) apply(events []event.Event) bool {
	for i := range events {
		if l.state.Apply(&events[i]) != nil {
			return false
		}
		l.noteHook(&events[i])
	}
	return true
}

func retriesIn(f *event.LogState) (all []StepRetry) {
	for _, o := range slices.SortedFunc(f.AllFailing, byRef) {
		r := StepRetry{Step: o.Name, Key: o.Key, Attempt: o.Attempt, Failed: o.Failure.Message, Code: o.Failure.Code}
		if o.State == event.StatePending { // for other states, the attempt is running or an external system completes it
			r.Next = o.Due
		}
		all = append(all, r)
	}
	return all
}

// waits returns the record of the run that takes the permits for a run. Usually this is the record
// r of the run itself.
func (c *client) waits(ctx context.Context, r *store.Record, spec *event.Spec) (*store.Record, error) {
	if spec.PermitSlot == 0 || r.QueueState == store.StateEnded {
		return r, nil
	}
	l, err := c.load(ctx, store.Load{Run: event.DerivedRunID(r.Run, event.PermitRun, uint16(spec.PermitSlot-1)), Limit: -1})
	if errors.Is(err, ErrRunNotFound) { // the run that takes the permits does not exist yet
		return &store.Record{}, nil
	}
	return &l.Record, err
}
