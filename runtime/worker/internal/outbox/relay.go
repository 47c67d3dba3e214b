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
	// relayBatch bounds the records of one read of an outbox.
	relayBatch = 512
	// relayCalls bounds the number of deliveries in parallel.
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
	// Silent reports whether a partition does not answer at present.
	Silent func(partition int) bool
	// Paused is called with the receiver of a pause after the pause is in its inbox. It may be nil.
	Paused func(ctx context.Context, run event.RunID)
	// Rerun creates the rerun of a failed run, by the deadline at the latest. If the run cannot be
	// rerun, it returns the reason.
	Rerun func(ctx context.Context, run event.RunID, deadline time.Time) (why string, err error)
}

// stopPatience bounds how long Stop waits for a store that does not answer.
const stopPatience = 2 * time.Second

// Relay delivers the messages that the runs of a partition send to other runs. Any worker may
// deliver a message at any time, because every action of a relay is idempotent. So a Relay holds no
// lock and keeps no state that correctness depends on.
//
// A worker delivers the records of its own runs at once. If it delivered all records, several
// workers would deliver the same ones. Most records are in the answer to their commit and do not
// have to be read. A worker delivers the records of other workers when it starts, and later only if
// they are overdue, which the answers to heartbeats indicate. So the records of a dead worker are
// delivered as well.
type Relay struct {
	Params
	wake    wait.Notifier
	alarm   func() bool
	due     time.Time // when the alarm makes the relay read the outbox; zero if no alarm is set
	stopped chan struct{}
	done    chan struct{}
	late    bool               // whether a record was due at the last heartbeat
	lost    map[pair]time.Time // receivers that were unknown, with the time of that answer; see mayBeLost
	refused map[recordKey]bool // records of this pass whose receivers were not created
	ctx     context.Context    // context of all store calls
	cutOff  context.CancelFunc

	mu    sync.Mutex // guards holds while a round delivers records
	holds holds

	asked   sync.Mutex
	sent    []store.Outgoing     // records that the next pass delivers without reading them
	senders map[event.RunID]bool // senders whose records the next pass reads and delivers
	all     bool                 // whether the next pass delivers the records of all senders
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

// Notify makes the relay read the outbox and deliver all due records.
func (r *Relay) Notify() {
	r.asked.Lock()
	r.all = true
	r.asked.Unlock()
	r.notify()
}

// Sent makes the relay deliver the records that a commit of a run has written. Records in sent,
// which the store has returned, are delivered without a read. If all is false, the relay also reads
// the due records of the run.
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
		r.Activity.End() // the relay has a pending notification
	}
}

// Heard receives the due time of the outbox from the answer to a heartbeat. A record that is due at
// two consecutive heartbeats is overdue: the worker that wrote it is dead or slow.
func (r *Relay) Heard(due time.Time) {
	waits := !due.IsZero() && !due.After(r.Clock.Now())
	if waits && r.late {
		r.Notify()
	}
	r.late = waits
}

// Run delivers records until Stop is called. It then delivers the records of the last notification.
func (r *Relay) Run() {
	defer close(r.done)
	defer r.cutOff()
	defer r.setAlarm(time.Time{})
	for {
		select {
		case <-r.stopped:
			select {
			case <-r.wake:
				r.look() // without this pass the records would wait until another worker finds them overdue
			default:
			}
			return
		case <-r.wake:
			r.look()
		}
	}
}

// look delivers the due records and sets the alarm for the next due time.
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

// Stop ends Run. It waits at most stopPatience for a store that does not answer.
func (r *Relay) Stop() {
	close(r.stopped)
	defer time.AfterFunc(stopPatience, r.cutOff).Stop()
	<-r.done
}

// setAlarm sets the alarm of the relay to t. Relays of several workers may set it to the same time.
// Each adds a different delay, so that most of them find no records left.
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

// pass delivers the requested records that are due, and returns the time of the next pass. A retry
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
		limit := relayBatch + len(r.holds.held) // held records must not displace others
		records, next, err := r.Store.Outbox(ctx, r.Partition, limit)
		if err != nil {
			return time.Time{}, err
		}
		whole := len(records) < limit
		r.holds.sweep(records, whole)
		if !all && whole { // If the read was cut off at limit, requested records may follow, so the records before them are delivered as well.
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
			// Read the outbox again.
		case !held.IsZero():
			return held, nil
		case len(marks) > 0 && (next.IsZero() || next.After(now.Add(store.Horizon))):
			return now.Add(store.Horizon), nil // the marked records are due at that time
		default:
			return next, nil
		}
	}
}

// passOn delivers records that a commit has just written. It returns the time of the next pass,
// which is not later than the alarm already set. The store has reported that no other records
// precede them. Records that are not delivered are read again like all due records.
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
	next := now.Add(store.Horizon) // the marked records are due at that time
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

// mark moves records to their next phase. If the store rejects some of the marks, the other records
// are moved nevertheless, and the records of the rejected marks are held.
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
			r.Log.Error("a record of the outbox cannot be advanced: it is set aside", "from", m.From, "record", m.ID, "error", failed)
		}
	}
	return nil
}

// markTries is how many marks in a row may fail before the failure is treated as an outage of the
// store.
const markTries = 3

// relayRetry is the delay before a record is delivered again to a receiver that has answered
// "later".
const relayRetry = 20 * time.Millisecond

// pair is a sender and a receiver. The records of a pair are delivered in order.
type pair struct{ from, to event.RunID }

// carry processes each record according to its phase. It returns the marks of the processed
// records, and reports in later whether some records must be retried soon.
func (r *Relay) carry(ctx context.Context, records []store.Outgoing) (marks []store.Mark, later bool) {
	r.refused = map[recordKey]bool{}
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
	// Deliver the first record of each pair, then the second, and so on. If a record is not
	// delivered, the later records of its pair are not delivered.
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
			if r.refused[keyOf(heads[i])] {
				marks = append(marks, toTheEnd(heads[i])...)
			}
			if round[i].Unknown {
				continue // the record that created the receiver is delivered again first
			}
			if queues[p] = queues[p][1:]; len(queues[p]) > 0 {
				rest = append(rest, p)
			}
		}
		order = rest
	}
	return marks, later
}

// waits reports whether a record must not be delivered at this time.
func (r *Relay) waits(o *store.Outgoing) bool {
	if r.holds.waits(o) {
		return true
	}
	if to := int(o.To.Slot()) % r.Store.Partitions(); to != r.Partition && r.Silent(to) { // the silent partition would delay the others
		r.fail(o, holdMost)
		return true
	}
	return false
}

// fail makes a record wait; see holds.fail. It reports whether the failure should be logged.
func (r *Relay) fail(o *store.Outgoing, most time.Duration) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.holds.fail(o, most)
}

// mayBeLost reports whether a failover may have lost a receiver that the store does not find, so
// that the record that created the receiver must be sent again. It reports true at most once per
// pair and Horizon. A receiver that never existed is never found, and without the bound its records
// would cause each other to be sent forever.
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

// round delivers records of different pairs. It returns a mark for each record, or nil for a record
// that must be retried.
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
			// The record is damaged or was written by a newer release, whose workers can read it.
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

// confirm removes the receiver's entry that marks the record as accepted.
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

// failed makes a record wait after a failed delivery. It returns without an effect if the store is
// closed, which ends the worker. It reports an error that affects many records as an outage, and
// logs an error of a single receiver.
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

// create creates the runs that the records at the indexes in starts request.
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
		p, _ := effects.DecodeOutboxMessage(records[i].Body) // the record was decoded before
		m := mark(records[i])
		if m.Phase == store.PhaseFresh || answer.Err != nil {
			m.Refusal = r.answer(records[i], p, answer.Err)
		}
		if answer.Err != nil && m.Phase == store.PhaseFresh {
			r.refused[keyOf(records[i])] = true
		}
		if m.Phase == store.PhaseFresh && m.Refusal == nil && !answer.Waits.IsZero() && event.Helper(requests[n].Route.Workflow) {
			m.Refusal = r.tellWait(records[i], p, &requests[n], answer.Waits)
		}
		marks[i] = m
	}
}

// deliver puts the item of a record into the receiver's inbox.
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

// answer returns the item that answers the sender, or nil if the sender expects no answer. The ID
// of the item is derived from the record. So the sender receives one answer, however often the
// record is delivered.
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

// refusalCode returns the failure code for a refusal. The code for a run that uses more of a limit
// than its bound does not depend on whether the bound was lowered before the run was created or
// while the run waited.
func refusalCode(p *effects.OutboxMessage, refusal error) string {
	if p.Start != nil && errors.As(refusal, new(*store.LimitError)) {
		return event.CodeOverLimit
	}
	return event.CodeRefused
}

// tellWait returns the item that notifies a run that its child waits for limits. The child is a run
// that executes a step or takes permits.
func (r *Relay) tellWait(o *store.Outgoing, p *effects.OutboxMessage, c *store.Create, since time.Time) *store.Item {
	e := event.Event{Type: event.ResourceWait, Key: p.Key, Next: o.To, From: since}
	for _, u := range c.Uses {
		e.Uses = append(e.Uses, event.Use{Limit: u.Name, Key: u.Key, Weight: u.Weight})
	}
	return r.item(o, "~", &e)
}

// item returns an item for the inbox of a record's sender.
func (r *Relay) item(o *store.Outgoing, mark string, e *event.Event) *store.Item {
	id := event.DerivedItemID(o.From, "answer:"+string(o.ID)) + event.ItemID(mark)
	body, err := event.AppendItem(nil, e)
	if err != nil {
		r.Log.Error("answer to a run cannot be written", "run", o.From, "error", err)
		return nil
	}
	return &store.Item{ID: id, Scope: store.ScopeRun, Body: body}
}
