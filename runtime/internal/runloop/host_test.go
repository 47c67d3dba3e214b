package runloop_test

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

// host is a worker with one run. It performs the actions of the run's State on the book of its
// world, and checks that each of them is permitted at that time.
type host struct {
	*world
	name    string
	other   bool // whether it has the other version of the code
	serves  bool // whether it serves the route of the run
	params  runloop.Params
	state   runloop.State
	mirror  *mirror // nil if no second State receives the same inputs
	session *session
	alive   bool // whether the lease is alive
	stage   runloop.Stage
	closed  bool // whether it is the turn of another run

	inputs    []runloop.Input // posted, in order
	claims    uint64          // number of the last claim
	claim     *runloop.Claim  // the claim of the State
	next      *runloop.Claim  // a claim that waits for the answer to a commit
	owned     bool            // whether the run has not left since that claim
	confirmed uint64          // last event that is confirmed as durable
	reported  uint64          // last event that was reported to the observers
	moment    runloop.Moment  // as last read by the State
	reads     []*reading
	sending   []*sending
	inflight  *sending // the commit that the State waits for
	attempts  []*attempt
	outcomes  map[*runloop.Outcome]ending
	answer    store.Committed // answer of the commit that is being handled

	capacity, elsewhere      int // slots of the worker, and how many of them other runs hold
	taken, started, returned int
	finished                 int // number of attempts that have ended
	wantsSlot                bool
	wake, wakeSet            time.Time
	kept                     bool // whether the run is kept in memory after it has left
	lined                    bool // whether the run waits for its turn
	turn                     int
	alone, begun             bool
	turns                    []int // turns that have begun and whose time is not over
}

// reading is a read of the run.
type reading struct {
	claim *runloop.Claim
	inbox bool
	after uint64
	parts bool
}

// sending is a commit that was sent.
type sending struct {
	commit   *runloop.Commit
	req      store.Commit // copied, because the State reuses the memory of the commit
	claim    *runloop.Claim
	create   bool
	session  *session
	answer   store.Committed
	answered bool // whether the store has answered; the answer is not posted yet
	lost     bool // whether an answer was lost, so that the request is repeated
}

// attempt is an attempt whose code is being called.
type attempt struct {
	id      uint64
	begin   runloop.Begin
	cause   error // why its code was canceled
	opening *runloop.Opening
}

// lease implements [runloop.Lease] for the claims of a session.
type lease struct {
	h *host
	s *session
}

func (l lease) Alive(store.SessionID) bool { return l.h.alive && l.h.session == l.s && !l.s.over }

func (h *host) post(in runloop.Input) { h.inputs = append(h.inputs, in) }

// drain handles the first n inputs.
func (h *host) drain(n int) {
	in := h.inputs[:n:n]
	h.inputs = append([]runloop.Input(nil), h.inputs[n:]...)
	for i := range in {
		h.react(in[i])
	}
	h.tracef("%s proceed", h.name)
	h.perform(h.mirror.proceed(h, h.state.Proceed(h)))
	h.checkProgress()
}

// react passes an input to the State.
func (h *host) react(in runloop.Input) {
	durable := false // whether the answer confirms events
	switch in.Kind {
	case runloop.Claimed:
		h.next = in.Claim
		if h.inflight == nil { // otherwise the claim waits for the answer
			h.takeNext()
		}
	case runloop.Answered:
		h.answer = in.Commit.Answer
		if s := h.inflight; s != nil && s.commit == in.Commit {
			h.inflight = nil
			if s.answer.Err == nil && s.req.Frame != nil {
				h.confirmed, durable = s.req.Last, true
			}
		}
	case runloop.Due:
		h.wake = time.Time{}
	case runloop.Lost:
		h.next = nil
	}
	h.tracef("%s react %s", h.name, show(&in))
	had, claim := h.owned, h.claim
	h.perform(h.mirror.react(h, &in, h.state.React(h, in)))
	if in.Kind == runloop.Answered && errors.Is(h.answer.Err, runloop.ErrWithdrawn) && h.next != nil && h.inflight == nil {
		h.takeNext() // the run has not left: it continues under the claim that waits
	}
	if durable && had && h.claim == claim && h.reported != h.confirmed {
		h.failf("P11: event %d is confirmed, but the observers have received events up to %d", h.confirmed, h.reported)
	}
	h.checkLost(&in, had, claim)
}

// takeNext makes the claim that waits the claim of the State.
func (h *host) takeNext() {
	h.claim, h.next = h.next, nil
	h.owned, h.lined, h.inflight, h.confirmed = true, false, nil, h.claim.Seq
}

// perform carries out actions in order.
func (h *host) perform(actions []runloop.Action) {
	leaves := false
	for i := range actions {
		a := &actions[i]
		h.tracef("%s   %s", h.name, line(a))
		h.permitted(a)
		switch a.Op {
		case runloop.Read:
			h.reads = append(h.reads, &reading{a.Claim, a.Inbox, a.After, a.Portion > 0})
		case runloop.Send:
			h.send(a)
		case runloop.Start:
			h.started++
			h.attempts = append(h.attempts, &attempt{id: a.Attempt, begin: a.Begin})
		case runloop.StopAttempt:
			for _, t := range h.attempts {
				if t.id == a.Attempt && t.cause == nil {
					t.cause = a.Err
				}
			}
		case runloop.Reveal:
			close(a.Opening.Done)
		case runloop.ReturnSlot:
			h.returned++
			h.freed()
		case runloop.Release:
			if h.book.release(a.Fence); !h.serves {
				h.book.reached.count("an unserved run was given back")
			}
		case runloop.Leave:
			h.owned, leaves, h.kept = false, true, a.N > 0 && h.chance(2)
			h.lined, h.begun, h.inflight = false, false, nil
			if a.Claimed != (h.next != nil) {
				h.failf("P6: Leave reports %t, but the claim that waits is %v", a.Claimed, h.next)
			}
			if h.next != nil {
				h.takeNext()
			}
		case runloop.LineUp:
			h.lined = true
		case runloop.BeginTurn:
			h.turns = append(h.turns, a.Turn)
		case runloop.EndTurn:
			h.begun = h.begun && h.turn != a.Turn
		case runloop.Wake:
			h.setWake(a)
		case runloop.Decline:
			h.decline()
		}
	}
	if leaves && !h.kept && !h.owned {
		h.perform(h.mirror.react(h, &runloop.Input{Kind: runloop.Evict}, h.state.React(h, runloop.Input{Kind: runloop.Evict})))
	}
}

// setWake sets the alarm of the run. Work that is overdue is retried after a while.
func (h *host) setWake(a *runloop.Action) {
	h.wake = a.Due
	if a.Due.IsZero() {
		return
	}
	if soon := h.now.Add(20 * time.Millisecond); a.Due.Before(soon) {
		h.wake = soon
	}
	if a.Looked.Before(a.Due) && !h.now.Before(a.Due) {
		h.post(runloop.Input{Kind: runloop.Due})
	}
}

// decline withdraws the creation of the run if its request was not sent: the client creates the run.
func (h *host) decline() {
	if h.book.place == 0 && !slices.ContainsFunc(h.sending, func(s *sending) bool { return s.create }) {
		h.book.create(h.now)
	}
}

// freed posts Due if the run waits for a slot.
func (h *host) freed() {
	if h.wantsSlot {
		h.wantsSlot = false
		h.post(runloop.Input{Kind: runloop.Due})
	}
}

func (h *host) send(a *runloop.Action) {
	s := &sending{commit: a.Commit, req: a.Commit.Req, claim: a.Claim, create: a.Commit.Create, session: h.session}
	h.sending, h.inflight = append(h.sending, s), s
}

// permitted checks an action against the invariants of package runloop.
func (h *host) permitted(a *runloop.Action) {
	switch a.Op {
	case runloop.Start:
		h.mayStart(a)
	case runloop.Send:
		h.maySend(a)
	case runloop.Read:
		h.underClaim(a)
	case runloop.StopAttempt:
		h.mayStop(a)
	case runloop.Reveal:
		if o := a.Opening; o.Err == nil && !h.book.has(h.confirmed, func(e *event.Event) bool { return e.Type == event.StepHookCreated && e.Token == o.Token }) {
			h.failf("P1: a token is revealed before its step_hook_created is durable")
		}
	case runloop.Log:
		h.mayLog(&a.Line)
	case runloop.Observe:
		h.reported = uint64(len(a.Seen.Log))
	case runloop.Report:
		h.mayReport(a.Events.Events)
	}
	if h.started+h.returned > h.taken {
		h.failf("P4: %d slots taken, %d attempts started and %d slots returned", h.taken, h.started, h.returned)
	}
	if a.Op == runloop.Leave && h.started+h.returned != h.taken {
		h.failf("P4: the run leaves with %d slots taken, %d attempts started and %d slots returned", h.taken, h.started, h.returned)
	}
}

func (h *host) mayStart(a *runloop.Action) {
	h.underClaim(a)
	began := func(e *event.Event) bool {
		return e.Type == event.StepStarted && e.Ref == a.Begin.Ref && e.Attempt == a.Begin.Number
	}
	switch {
	case !h.book.has(h.confirmed, began):
		h.failf("P1: attempt %d of step %d is started before its step_started is durable", a.Begin.Number, a.Begin.Ref)
	case h.inflight != nil && h.inflight.req.Effect != store.EffectNone:
		h.failf("P2: an attempt is started while a commit with effect %d is in flight", h.inflight.req.Effect)
	case h.next != nil:
		h.failf("P6: an attempt is started although a later claim waits")
	case !h.moment.Alive:
		h.failf("P6: an attempt is started although the lease is not alive")
	case !h.serves:
		h.failf("P6: an attempt is started on a worker that does not serve the run")
	case h.claim.LeftQueue && !h.book.has(h.confirmed, func(e *event.Event) bool { return e.Type == event.CancelRequested }):
		h.failf("P6: an attempt of a run without permits is started before its cancel is durable")
	case a.Begin.Run.Err() != nil:
		h.failf("P6: an attempt is started although its outcome cannot be recorded: %v", a.Begin.Run.Err())
	}
	for _, t := range h.attempts {
		if t.begin.Ref == a.Begin.Ref && t.begin.Run == a.Begin.Run {
			h.failf("P6: attempt %d of step %d is started beside attempt %d", a.Begin.Number, a.Begin.Ref, t.begin.Number)
		}
	}
}

func (h *host) maySend(a *runloop.Action) {
	h.underClaim(a)
	req := &a.Commit.Req
	if h.book.program.whole && !h.claim.LeftQueue && req.Effect == store.EffectPark && req.Unused == store.UnusedNone && !h.begins(req) {
		h.failf("P6: a run that has not begun parks with its permits")
	}
	switch {
	case h.inflight != nil:
		h.failf("P2: a commit is sent while another one is in flight")
	case !h.moment.Alive && h.moment.Stage < runloop.Stopping:
		h.failf("P6: a commit is sent although the lease is not alive")
	case req.Fence != h.claim.Fence:
		h.failf("P6: a commit is sent under fence %v of an earlier claim", req.Fence)
	}
	if req.Frame == nil {
		return
	}
	if h.commitIDs[req.CommitID] {
		h.failf("P3: the commit ID %s is sent again", req.CommitID)
	}
	h.commitIDs[req.CommitID] = true
	f, err := event.DecodeFrame(req.Frame)
	if err != nil {
		h.failf("P3: a frame cannot be decoded: %v", err)
	}
	h.bounded(f)
	if ends := f.Events[len(f.Events)-1].Type.Terminal(); !h.serves && !ends {
		h.failf("P6: a worker that does not serve the run commits %d events that do not end it", len(f.Events))
	}
	if req.First != h.confirmed+1 || req.Last != h.confirmed+uint64(len(f.Events)) || f.CommitID != req.CommitID || f.Prev != req.Prev {
		h.failf("P3: a commit contains events %d to %d, %d in its frame, and %d is the last durable one", req.First, req.Last, len(f.Events), h.confirmed)
	}
}

// begins reports whether the code of the run has begun when a commit is durable.
func (h *host) begins(req *store.Commit) bool {
	started := func(e *event.Event) bool { return e.Type == event.RunStarted }
	if h.book.has(h.confirmed, started) || req.Frame == nil {
		return h.book.has(h.confirmed, started)
	}
	f, err := event.DecodeFrame(req.Frame)
	return err == nil && slices.ContainsFunc(f.Events, func(e event.Event) bool { return started(&e) })
}

// bounded checks the size of a commit.
func (h *host) bounded(f *event.Frame) {
	chunks, items, bytes := 0, 0, 0
	for i := range f.Events {
		e := &f.Events[i]
		if e.Type == event.StreamWritten {
			chunks++
		}
		if e.Item != "" {
			items++
		}
		bytes += e.Size()
	}
	if ends := f.Events[len(f.Events)-1].Type.Terminal(); chunks > 1000 || items > 1000 || bytes > 4<<20 && len(f.Events) > 1 && !ends {
		h.failf("P10: a commit contains %d chunks, %d items and %d bytes", chunks, items, bytes)
	}
}

// underClaim checks that the run has not left, and that the action belongs to its last claim.
func (h *host) underClaim(a *runloop.Action) {
	if !h.owned || a.Claim != h.claim {
		h.failf("P6: %s under a claim that is over", line(a))
	}
}

// mayStop checks that the reason to cancel an attempt is durable.
func (h *host) mayStop(a *runloop.Action) {
	if !errors.Is(a.Err, replay.ErrCanceled) && !errors.Is(a.Err, replay.ErrTimeout) {
		return
	}
	for _, t := range h.attempts {
		if t.id != a.Attempt {
			continue
		}
		canceled := func(e *event.Event) bool {
			return e.Seq > t.begin.Ref && (e.Type == event.WaitCompleted || e.Type == event.CancelRequested || e.Type == event.StepFailed)
		}
		if !h.book.has(h.confirmed, canceled) {
			h.failf("P1: attempt %d of step %d is canceled before the reason is durable", t.begin.Number, t.begin.Ref)
		}
	}
}

// mayReport checks that observers receive each durable event once, in order.
func (h *host) mayReport(events []event.Event) {
	for i := range events {
		e := &events[i]
		if h.reported++; e.Seq != h.reported {
			h.failf("P11: event %d is reported after event %d", e.Seq, h.reported-1)
		}
		if !h.book.has(e.Seq, func(d *event.Event) bool {
			return d.Seq == e.Seq && d.Type == e.Type && d.Key == e.Key && d.Time.Equal(e.Time)
		}) {
			h.failf("P11: event %d (%s) is reported, but is not durable", e.Seq, e.Type)
		}
	}
}

// mayLog checks that the event that a line is about is durable.
func (h *host) mayLog(l *runloop.Line) {
	var want event.Type
	switch l.Text {
	case "step failed":
		want = event.StepFailed
	case "attempt of a step failed":
		want = event.StepRetrying
	case "run failed":
		want = event.RunFailed
	default:
		return
	}
	number := arg(l, "attempt")
	if !h.book.has(h.confirmed, func(e *event.Event) bool { return e.Type == want && (number == nil || e.Attempt == number.(int)) }) {
		h.failf("P1: %q (%v) is logged before the event is durable", l.Text, l.Args)
	}
}

func arg(l *runloop.Line, key string) any {
	for i := 0; i+1 < len(l.Args); i += 2 {
		if l.Args[i] == key {
			return l.Args[i+1]
		}
	}
	return nil
}

// checkLost checks that an input that ends the claim has made the run leave.
func (h *host) checkLost(in *runloop.Input, had bool, claim *runloop.Claim) {
	switch {
	case in.Kind == runloop.Lost && had && h.owned && h.claim == claim:
		h.failf("P6: the run stays after its claim was lost")
	case h.state.Away() && h.owned && h.inflight == nil:
		h.failf("P6: the run has left without Leave")
	}
}

// checkProgress checks that something is outstanding that continues the run.
func (h *host) checkProgress() {
	if h.state.Away() || !h.owned || len(h.inputs) > 0 || !h.claim.Lease.Alive(h.claim.Session) {
		return
	}
	current := false
	for _, r := range h.reads {
		current = current || r.claim == h.claim
	}
	if h.inflight == nil && !current && len(h.attempts) == 0 && h.wake.IsZero() && !(h.wantsSlot && h.busySlots() > 0) && !h.lined && !h.begun {
		h.failf("P8: the run is owned, but nothing is outstanding that continues it")
	}
}

// busySlots returns the number of slots that others or called attempts hold.
func (h *host) busySlots() int { return h.elsewhere + h.taken - h.returned - h.finished }

// The following methods implement [runloop.Driver]. Their answers are recorded for the mirror.

func (h *host) Moment(c *runloop.Claim) runloop.Moment {
	h.moment = runloop.Moment{Now: h.now, Stage: h.stage, Closed: h.closed, Alive: c != nil && c.Lease.Alive(c.Session)}
	return noted(h.mirror, h.moment)
}

func (h *host) Enter()                                {}
func (h *host) Leave(c *runloop.Claim) runloop.Moment { return h.Moment(c) }
func (h *host) Memory() *runloop.Memory               { return &h.memory }
func (h *host) Full() bool                            { return noted(h.mirror, h.chance(3)) }
func (h *host) Roomy() bool                           { return noted(h.mirror, h.chance(2)) }
func (h *host) roll() float64                         { return noted(h.mirror, h.rng.Float64()) }

func (h *host) TakeSlot() bool {
	if h.inflight != nil && h.inflight.req.Effect != store.EffectNone {
		h.failf("P2: a slot is taken while a commit with effect %d is in flight", h.inflight.req.Effect)
	}
	if h.busySlots() >= h.capacity {
		h.wantsSlot = true
		return noted(h.mirror, false)
	}
	h.taken++
	return noted(h.mirror, true)
}

func (h *host) Turn() (number int, alone, begun bool) {
	t := noted(h.mirror, [3]int{h.turn, toInt(h.alone), toInt(h.begun)})
	return t[0], t[1] == 1, t[2] == 1
}

func toInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (h *host) ClosedStreams(uint64) []string { return nil }

func (h *host) CommitID() event.CommitID {
	h.commits++
	return noted(h.mirror, event.CommitID{1, byte(h.commits >> 16), byte(h.commits >> 8), byte(h.commits)})
}

func (h *host) failf(format string, args ...any) {
	panic(violation(fmt.Sprintf(format, args...)))
}

// violation is a violated invariant.
type violation string

// divide removes the frames that were read before. It may cut the log before a frame that begins with
// an external event.
func (h *host) divide(l *store.Loaded, r *reading) {
	if r.inbox {
		return
	}
	l.Frames = l.Frames[r.after:]
	for i, b := range l.Frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			panic(err)
		}
		if i > 0 && r.parts && f.Events[0].Type.External() && h.chance(2) {
			h.book.reached.count("a log was read in portions")
			l.Next, l.Frames, l.Inbox = b, l.Frames[:i], nil
			return
		}
	}
}
