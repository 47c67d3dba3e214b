// Package outbox delivers the messages that runs send to other runs.
package outbox

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/internal/effects"
	"github.com/flowgen/flowgen/runtime/internal/failure"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
	"github.com/flowgen/flowgen/runtime/workflow"
)

const (
	// relayBatch bounds one read of an outbox.
	relayBatch = 512
	// relayCalls bounds how many deliveries of one pass run at once.
	relayCalls = 16
)

// Params are the parts and settings of a [Relay].
type Params struct {
	Store     store.Store
	Clock     store.Clock
	Log       *slog.Logger
	Activity  *activity.Counter // nil if activity is not counted
	Partition int
	// Name and Heartbeat are the worker's name and heartbeat interval.
	Name      string
	Heartbeat time.Duration
	// Silent reports whether a partition currently does not answer.
	Silent func(partition int) bool
	// Paused is called with the receiver of a pause, once the pause is in its inbox. It may be nil.
	Paused func(ctx context.Context, run event.RunID)
	// Rerun creates the rerun of a failed run, at the latest by deadline. If none can be made, it
	// returns the reason.
	Rerun func(ctx context.Context, run event.RunID, deadline time.Time) (why string, err error)
}

// stopPatience bounds how long Stop waits for a store that does not answer.
const stopPatience = 2 * time.Second

// Relay delivers the messages of the runs of a partition to others. Any worker of the partition may
// do so at any time, because each of its actions is idempotent. So it holds no lock, and keeps no
// state that correctness depends on.
//
// The worker that has written records delivers them at once, and no others; otherwise each of
// several workers would deliver the records of all. Most records are in the answer to their commit
// and need not be read. A worker delivers the records of others when it starts, and later only
// overdue ones, which the answers to heartbeats indicate. That is how the records of a dead worker
// are found.
type Relay struct {
	Params
	wake    wait.Notifier
	alarm   func() bool
	due     time.Time // when it next reads the outbox without a notification, as far as it knows
	stopped chan struct{}
	done    chan struct{}
	late    bool               // a record was due at the last heartbeat
	lost    map[pair]time.Time // receivers that were unknown, and when; see mayBeLost
	refused map[string]bool    // records of this pass whose receivers were not created, by sender and id
	ctx     context.Context    // of all its store calls
	cutOff  context.CancelFunc

	mu    sync.Mutex // guards holds while the records of a round are being delivered
	holds holds

	asked   sync.Mutex
	sent    []store.Outgoing     // records that the next pass delivers without reading them
	senders map[event.RunID]bool // senders whose records the next pass reads and delivers
	all     bool                 // deliver the records of all senders, because Notify was called
}

// New returns a relay. Its owner must call Run and Stop, each once.
func New(p Params) *Relay {
	r := &Relay{
		Params: p, wake: wait.NewNotifier(), stopped: make(chan struct{}), done: make(chan struct{}), lost: map[pair]time.Time{},
		senders: map[event.RunID]bool{},
	}
	r.holds.clock = p.Clock
	r.ctx, r.cutOff = context.WithCancel(context.Background())
	return r
}

// Notify makes the relay read the outbox and deliver all records that are due.
func (r *Relay) Notify() {
	r.asked.Lock()
	r.all = true
	r.asked.Unlock()
	r.notify()
}

// Sent makes the relay deliver the records that a commit of a run has written. It delivers the
// records that the store has returned without reading them. Unless these are all, it also reads the
// due records of the run.
func (r *Relay) Sent(run event.RunID, sent []store.Outgoing, all bool) {
	r.asked.Lock()
	r.sent = append(r.sent, sent...)
	if !all {
		r.senders[run] = true
	}
	r.asked.Unlock()
	r.notify()
}

func (r *Relay) notify() {
	r.Activity.Begin()
	if !r.wake.Notify() {
		r.Activity.End() // the relay is notified already
	}
}

// Heard takes the due time of the outbox from the answer to a heartbeat. A record that is due at
// two heartbeats in a row is overdue: its writer has died, or is slow.
func (r *Relay) Heard(due time.Time) {
	waits := !due.IsZero() && !due.After(r.Clock.Now())
	if waits && r.late {
		r.Notify()
	}
	r.late = waits
}

// Run delivers records until Stop, and finally those that were written last.
func (r *Relay) Run() {
	defer close(r.done)
	defer r.cutOff()
	defer r.setAlarm(time.Time{})
	for {
		select {
		case <-r.stopped:
			select {
			case <-r.wake:
				r.look() // the remaining records are overdue soon, for other workers
			default:
			}
			return
		case <-r.wake:
			r.look()
		}
	}
}

// look delivers the due records, and sets the alarm for the others.
func (r *Relay) look() {
	defer r.Activity.End()
	next, err := r.pass(r.ctx)
	switch {
	case err == nil:
		r.setAlarm(next)
	case r.ctx.Err() == nil && !errors.Is(err, store.ErrClosed):
		r.setAlarm(r.Clock.Now().Add(time.Second))
	}
}

// Stop ends Run. It waits for an unresponsive store for stopPatience.
func (r *Relay) Stop() {
	close(r.stopped)
	defer time.AfterFunc(stopPatience, r.cutOff).Stop()
	<-r.done
}

// setAlarm wakes the relay at t. Several workers may know of the same later due time. Each adds a
// different delay, so that most of them find nothing left to do.
func (r *Relay) setAlarm(t time.Time) {
	if r.alarm != nil {
		r.alarm()
		r.alarm = nil
	}
	r.due = t
	if t.IsZero() {
		return
	}
	wait := t.Sub(r.Clock.Now())
	if wait > time.Second {
		h := fnv.New32a()
		_, _ = h.Write([]byte(r.Name))
		wait += min(r.Heartbeat, time.Minute) * time.Duration(h.Sum32()%64) / 64
	}
	r.alarm = r.Clock.AfterFunc(max(wait, time.Millisecond), r.Notify)
}

// pass delivers the due records that were requested, and returns the time of the next pass. A retry
// after an error delivers the records of all senders.
func (r *Relay) pass(ctx context.Context) (time.Time, error) {
	r.asked.Lock()
	sent, senders, all := r.sent, r.senders, r.all
	r.sent, r.senders, r.all = nil, map[event.RunID]bool{}, false
	r.asked.Unlock()
	if len(sent) > 0 {
		next, err := r.passOn(ctx, sent)
		if err != nil || !all && len(senders) == 0 {
			return next, err
		}
	}
	for {
		limit := relayBatch + len(r.holds.held) // records that are held must not displace others
		records, next, err := r.Store.Outbox(ctx, r.Partition, limit)
		if err != nil {
			return time.Time{}, err
		}
		whole := len(records) < limit
		r.holds.sweep(records, whole)
		if !all && whole { // otherwise the requested records may come later, and the records before them are delivered as well
			records = slices.DeleteFunc(records, func(o store.Outgoing) bool { return !senders[o.From] })
		}
		marks, later := r.carry(ctx, records)
		if err := r.mark(ctx, marks); err != nil {
			return time.Time{}, err
		}
		held, now := r.holds.next(), r.Clock.Now()
		switch {
		case ctx.Err() != nil:
			return time.Time{}, ctx.Err()
		case later:
			return now.Add(relayRetry), nil
		case len(marks) > 0 && (!whole || slices.ContainsFunc(marks, func(m store.Mark) bool { return m.Unknown })):
			// There may be more records, or the record that created the receiver is fresh again.
		case !held.IsZero():
			return held, nil
		case len(marks) > 0 && (next.IsZero() || next.After(now.Add(store.Horizon))):
			return now.Add(store.Horizon), nil // marked records are due then
		default:
			return next, nil
		}
	}
}

// passOn delivers records that were just sent, and returns the time of the next pass, which is no
// later than already scheduled. The store has reported that no records precede them. Records that
// are not delivered are read again like all due records.
func (r *Relay) passOn(ctx context.Context, sent []store.Outgoing) (time.Time, error) {
	again := false
	for some := range slices.Chunk(sent, relayBatch) {
		marks, later := r.carry(ctx, some)
		if err := r.mark(ctx, marks); err != nil {
			return time.Time{}, err
		}
		if err := ctx.Err(); err != nil {
			return time.Time{}, err
		}
		again = again || later || slices.ContainsFunc(marks, func(m store.Mark) bool { return m.Unknown })
	}
	now := r.Clock.Now()
	next := now.Add(store.Horizon) // marked records are due then
	if again {
		next = now.Add(relayRetry)
	}
	for _, t := range []time.Time{r.holds.next(), r.due} {
		if !t.IsZero() && t.Before(next) {
			next = t
		}
	}
	return next, nil
}

// mark moves records to their next phase. If the store refuses some of them, the others are moved
// nevertheless, and the refused ones are held.
func (r *Relay) mark(ctx context.Context, marks []store.Mark) error {
	if len(marks) == 0 {
		return nil
	}
	failed := r.Store.Mark(ctx, r.Partition, marks)
	if failed == nil || ctx.Err() != nil {
		return failed
	}
	moved, tries := 0, 0
	var stuck []store.Mark
	for _, m := range marks {
		err := r.Store.Mark(ctx, r.Partition, []store.Mark{m})
		if tries++; err == nil {
			moved++
			continue
		}
		if stuck = append(stuck, m); moved == 0 && tries == markTries {
			return failed // the failure does not concern single records
		}
	}
	most := damagedMost
	if moved == 0 {
		most = holdMost
	}
	for _, m := range stuck {
		o := &store.Outgoing{Send: store.Send{ID: m.ID}, From: m.From}
		if r.holds.fail(o, most) {
			r.Log.Error("a record of the outbox cannot be moved on: it is set aside", "from", m.From, "record", m.ID, "error", failed)
		}
	}
	return nil
}

// markTries is how many records in a row may fail to be moved before the failure is treated as an
// outage of the store.
const markTries = 3

// relayRetry is the delay after which a receiver that has answered "later" is tried again.
const relayRetry = 20 * time.Millisecond

// pair is a sender and a receiver, whose records are delivered in order.
type pair struct{ from, to event.RunID }

// carry processes each record according to its phase. later reports that some records could not be
// delivered yet.
func (r *Relay) carry(ctx context.Context, records []store.Outgoing) (marks []store.Mark, later bool) {
	r.refused = map[string]bool{}
	queues := map[pair][]*store.Outgoing{}
	var order []pair
	for i := range records {
		o := &records[i]
		p := pair{o.From, o.To}
		if len(queues[p]) == 0 {
			order = append(order, p)
		}
		queues[p] = append(queues[p], o)
	}
	// Deliver the first record of each pair, then the second, and so on. A pair whose record was
	// not delivered stops there.
	for len(order) > 0 {
		heads, ready := make([]*store.Outgoing, 0, len(order)), order[:0]
		for _, p := range order {
			if head := queues[p][0]; !r.waits(head) {
				heads, ready = append(heads, head), append(ready, p)
			}
		}
		order = ready
		round := r.round(ctx, heads)
		rest := order[:0]
		for i, p := range order {
			if round[i] == nil {
				later = later || !r.holds.waits(heads[i])
				continue
			}
			round[i].Unknown = round[i].Unknown && r.mayBeLost(p)
			marks = append(marks, *round[i])
			if r.refused[recordOf(heads[i])] {
				marks = append(marks, toTheEnd(heads[i])...)
			}
			if round[i].Unknown {
				continue // the record that created the receiver is delivered first
			}
			if queues[p] = queues[p][1:]; len(queues[p]) > 0 {
				rest = append(rest, p)
			}
		}
		order = rest
	}
	return marks, later
}

// waits reports whether it is too early to deliver a record.
func (r *Relay) waits(o *store.Outgoing) bool {
	if r.holds.waits(o) {
		return true
	}
	if to := int(o.To.Slot()) % r.Store.Partitions(); to != r.Partition && r.Silent(to) { // it would delay the others
		r.fail(o, holdMost)
		return true
	}
	return false
}

// fail makes a record wait, and reports whether to log that.
func (r *Relay) fail(o *store.Outgoing, most time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds.fail(o, most)
}

// mayBeLost reports whether a failover may have lost an unknown receiver, so that the record which
// created it must be sent again. It reports true at most once per pair and Horizon: a receiver that
// never existed stays unknown, and the records of a pair must not cause each other to be sent
// forever.
func (r *Relay) mayBeLost(p pair) bool {
	now := r.Clock.Now()
	for other, at := range r.lost {
		if now.Sub(at) > store.Horizon {
			delete(r.lost, other)
		}
	}
	if _, tried := r.lost[p]; tried {
		return false
	}
	r.lost[p] = now
	return true
}

// round delivers records of different pairs, and returns a mark for each; nil for a record that
// must be retried.
func (r *Relay) round(ctx context.Context, records []*store.Outgoing) []*store.Mark {
	marks := make([]*store.Mark, len(records))
	var starts []int
	var requests []store.Create
	var calls sync.WaitGroup
	slots := make(chan struct{}, relayCalls)
	for i, o := range records {
		p, err := effects.DecodeOutboxMessage(o.Body)
		if o.Phase != store.PhaseSettled && err == nil && p.Start != nil {
			var c store.Create
			if c, err = p.Create(o); err == nil {
				starts, requests = append(starts, i), append(requests, c)
				continue
			}
		}
		if o.Phase != store.PhaseSettled && err != nil {
			// It is damaged, or of a newer release, whose workers can read it.
			if r.fail(o, damagedMost) {
				r.Log.Error("a record of the outbox cannot be read: it is set aside", "from", o.From, "to", o.To, "record", o.ID, "error", err)
			}
			continue
		}
		call := func() {
			switch {
			case o.Phase == store.PhaseSettled:
				marks[i] = r.confirm(ctx, o)
			case p.Rerun:
				marks[i] = r.rerun(ctx, o)
			default:
				marks[i] = r.deliver(ctx, o, p)
			}
		}
		if len(records) == 1 {
			call()
			break
		}
		calls.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			call()
		})
	}
	if len(requests) > 0 {
		r.create(ctx, records, starts, requests, marks)
	}
	calls.Wait()
	return marks
}

// confirm makes the receiver forget that it has seen the record.
func (r *Relay) confirm(ctx context.Context, o *store.Outgoing) *store.Mark {
	if err := r.Store.Confirm(ctx, o.To, o.ID); err != nil {
		r.failed(ctx, o, err)
		return nil
	}
	return mark(o)
}

func mark(o *store.Outgoing) *store.Mark {
	return &store.Mark{From: o.From, ID: o.ID, Phase: o.Phase, Deadline: o.Deadline}
}

// failed makes a record wait that could not be delivered. A closed store ends the worker. A failure
// of many records is reported as an outage; damage of a single receiver is logged here.
func (r *Relay) failed(ctx context.Context, o *store.Outgoing, err error) {
	damaged, ok := errors.AsType[*store.DamagedError](err)
	switch {
	case ctx.Err() != nil || errors.Is(err, store.ErrClosed):
	case ok && damaged.Run != "":
		if r.fail(o, damagedMost) {
			r.Log.Error("a record of the outbox cannot be delivered: it waits until its receiver is repaired", "from", o.From, "to", o.To, "record", o.ID, "error", err)
		}
	default:
		r.fail(o, holdMost)
	}
}

// create creates the runs that the records at the indexes starts request.
func (r *Relay) create(ctx context.Context, records []*store.Outgoing, starts []int, requests []store.Create, marks []*store.Mark) {
	answers, err := r.Store.Create(ctx, requests)
	if err != nil {
		for _, i := range starts {
			r.failed(ctx, records[i], err)
		}
		return
	}
	for n, i := range starts {
		answer := answers[n]
		if store.Unknown(answer.Err) {
			r.failed(ctx, records[i], answer.Err)
			continue
		}
		if answer.Err == nil && !answer.New {
			answer.Err = &store.ActiveError{WorkflowID: requests[n].WorkflowID, Run: answer.Run}
		}
		if errors.Is(answer.Err, store.ErrStale) || r.released(ctx, &requests[n], &answer) {
			continue
		}
		p, _ := effects.DecodeOutboxMessage(records[i].Body) // it was decoded before
		m := mark(records[i])
		if m.Phase == store.PhaseFresh || answer.Err != nil {
			m.Refusal = r.answer(records[i], p, answer.Err)
		}
		if answer.Err != nil && m.Phase == store.PhaseFresh {
			r.refused[recordOf(records[i])] = true
		}
		if m.Phase == store.PhaseFresh && m.Refusal == nil && !answer.Waits.IsZero() && event.Helper(requests[n].Route.Workflow) {
			m.Refusal = r.tellWait(records[i], p, &requests[n], answer.Waits)
		}
		marks[i] = m
	}
}

// deliver puts an item into an inbox.
func (r *Relay) deliver(ctx context.Context, o *store.Outgoing, p *effects.OutboxMessage) *store.Mark {
	_, err := r.Store.Deliver(ctx, p.Deliver(o))
	var ended *store.TerminalError
	m := mark(o)
	switch {
	case err == nil && p.Item.Pauses && r.Paused != nil:
		r.Paused(ctx, o.To)
	case err == nil, errors.As(err, &ended):
	case errors.Is(err, store.ErrRunNotFound):
		m.Unknown = true
	case errors.Is(err, store.ErrLater), errors.Is(err, store.ErrStale):
		return nil
	default:
		r.failed(ctx, o, err)
		return nil
	}
	if ended != nil {
		err = fmt.Errorf("%w: %w", workflow.ErrRunTerminal, ended)
	}
	if o.Phase == store.PhaseFresh {
		m.Refusal = r.answer(o, p, err)
	}
	return m
}

// answer returns the item that answers the sender, or nil if the sender needs no answer. Its id is
// derived from the record, so the sender gets one answer however often the record is delivered.
func (r *Relay) answer(o *store.Outgoing, p *effects.OutboxMessage, refusal error) *store.Item {
	if p.Answer == effects.Nothing || p.Answer == effects.OnRefusal && refusal == nil {
		return nil
	}
	e := event.Event{Key: p.Key, Next: o.To}
	switch {
	case p.Start != nil && refusal == nil && p.Answer == effects.Settles:
		e.Type = event.ChildCompleted
	case p.Start != nil && refusal == nil:
		e.Type = event.ChildStarted
	case p.Start != nil:
		e.Type = event.ChildFailed
	case refusal == nil:
		e.Type = event.SendCompleted
	default:
		e.Type = event.SendFailed
	}
	mark := ""
	if refusal != nil {
		e.Failure = failure.Encode(refusal, refusalCode(p, refusal))
		mark = "-"
	}
	return r.item(o, mark, &e)
}

// refusalCode returns the code of a refusal. A run that uses more of a limit than its bound fails
// with the same code whether the limit was lowered before the run was created or while it waited.
func refusalCode(p *effects.OutboxMessage, refusal error) string {
	if p.Start != nil && errors.As(refusal, new(*store.LimitError)) {
		return event.CodeOverLimit
	}
	return event.CodeRefused
}

// tellWait returns the item that notifies a run that the run which it has created, to execute a
// step or to take permits, waits for limits.
func (r *Relay) tellWait(o *store.Outgoing, p *effects.OutboxMessage, c *store.Create, since time.Time) *store.Item {
	e := event.Event{Type: event.ResourceWait, Key: p.Key, Next: o.To, From: since}
	for _, u := range c.Uses {
		e.Uses = append(e.Uses, event.Use{Limit: u.Name, Key: u.Key, Weight: u.Weight})
	}
	return r.item(o, "~", &e)
}

// item returns an item for the sender of a record.
func (r *Relay) item(o *store.Outgoing, mark string, e *event.Event) *store.Item {
	id := event.DerivedItemID(o.From, "answer:"+string(o.ID)) + event.ItemID(mark)
	body, err := event.AppendItem(nil, e)
	if err != nil {
		r.Log.Error("answer to a run cannot be written", "run", o.From, "error", err)
		return nil
	}
	return &store.Item{ID: id, Scope: store.ScopeRun, Body: body}
}
