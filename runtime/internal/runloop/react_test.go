package runloop_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/depth"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

var (
	firstSeed = flag.Uint64("runloop.seed", 1, "first seed of the random inputs")
	seedCount = flag.Int("runloop.seeds", 0, "number of seeds; 0: depends on the depth of the tests")
)

// TestReact_KeepsItsInvariantsForRandomInputs checks after each call that the actions of a State
// keep the invariants of package runloop, and that each run reaches its result once there are no
// more faults.
func TestReact_KeepsItsInvariantsForRandomInputs(t *testing.T) {
	n := *seedCount
	if n == 0 {
		if n = 1500; depth.Full() {
			n = 30_000
		}
	}
	for seed := *firstSeed; seed < *firstSeed+uint64(n); seed++ {
		p := &programs[seed%uint64(len(programs))]
		if err := attackReducer(seed, p, false); err != nil {
			t.Fatalf("seed %d: %v; again with a trace: %v", seed, err, attackReducer(seed, p, true))
		}
	}
	if *seedCount == 0 {
		total.check(t)
	}
}

// TestReact_KeepsCommitsBoundedForRandomInputs does the same with a run that receives and writes
// more than fits into one commit.
func TestReact_KeepsCommitsBoundedForRandomInputs(t *testing.T) {
	p := burst()
	for seed := range uint64(120 / depth.Stride(10)) {
		if err := attackReducer(seed, &p, false); err != nil {
			t.Fatalf("seed %d: %v; again with a trace: %v", seed, err, attackReducer(seed, &p, true))
		}
	}
}

// TestReact_AWaitingClaimIsTakenWhenTheCommitInFlightIsRefused refuses the commit of a claim that is
// over.
func TestReact_AWaitingClaimIsTakenWhenTheCommitInFlightIsRefused(t *testing.T) {
	for _, refusal := range []error{&store.TooLargeError{}, store.ErrUnread, store.ErrFenced} {
		w := newWorld(0, &programs[0])
		w.tracing, w.calm = true, true
		h := w.hosts[0]
		err := w.check(func() {
			w.claimTwice(h)
			s := h.sending[0]
			s.answered, s.answer = true, store.Committed{Err: refusal}
			h.serve(s)
			h.drain(len(h.inputs))
			if h.next != nil || h.claim.Number != 2 {
				h.failf("the run is worked on under claim %d, want 2", h.claim.Number)
			}
			w.finish()
		})
		if err != nil {
			t.Errorf("after %v: %v", refusal, err)
		}
	}
}

// TestReact_AWaitingClaimIsLostWithItsSession ends the session of a claim that waits for the answer
// to a commit.
func TestReact_AWaitingClaimIsLostWithItsSession(t *testing.T) {
	w := newWorld(0, &programs[0])
	w.tracing, w.calm = true, true
	h := w.hosts[0]
	err := w.check(func() {
		w.claimTwice(h)
		w.book.end(h.session)
		h.openSession()
		h.post(runloop.Input{Kind: runloop.Lost})
		h.drain(len(h.inputs))
		if !h.state.Away() || h.owned {
			h.failf("the run is executed under a claim whose session has ended")
		}
		w.finish()
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReact_NoAttemptStartsOnceTheCodeHasDeviatedFromItsLog makes the code deviate while the commit
// with the step_started of its attempts is in flight.
func TestReact_NoAttemptStartsOnceTheCodeHasDeviatedFromItsLog(t *testing.T) {
	p := breaking()
	w := newWorld(0, &p)
	w.tracing, w.calm = true, true
	h := w.newHost(true)
	h.capacity, w.hosts = 1, []*host{h}
	err := w.check(func() {
		w.book.create(w.now)
		w.claim(h)
		h.untilItSends()
		w.deliver()
		h.drain(len(h.inputs))
		h.read(h.reads[0])
		h.drain(len(h.inputs))
		s := h.sending[0]
		for range 2 { // the store carries out the request, and its answer arrives
			h.serve(s)
		}
		h.drain(len(h.inputs))
		if h.taken != 1 || h.returned != 1 {
			h.failf("%d slots taken and %d returned without a start, want 1 and 1", h.taken, h.returned)
		}
		w.finish()
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReact_ALogThatDoesNotBeginWithTheCreationBlocksTheRun claims a run whose log contains no Spec.
func TestReact_ALogThatDoesNotBeginWithTheCreationBlocksTheRun(t *testing.T) {
	w := newWorld(0, &programs[0])
	w.tracing, w.calm = true, true
	h := w.hosts[0]
	err := w.check(func() {
		w.book.start = &event.Event{Seq: 1, Type: event.RunStarted, Time: event.Instant(w.now)}
		w.book.create(w.now)
		w.claim(h)
		h.drain(len(h.inputs))
		h.read(h.reads[0])
		h.drain(len(h.inputs))
		if len(h.sending) != 1 || h.sending[0].req.Effect != store.EffectBlock {
			h.failf("the commits are %+v, want one that blocks the run", h.sending)
		}
	})
	if err != nil {
		t.Error(err)
	}
}

// TestReact_ARefusedAskThatIsSentAgainWhileTheInboxIsReadIsTakenForANewOne sends an ask again that the
// commit in flight has consumed. The commit has no frame, so no read of the inbox shows that the store
// has carried it out.
func TestReact_ARefusedAskThatIsSentAgainWhileTheInboxIsReadIsTakenForANewOne(t *testing.T) {
	for name, readFirst := range map[string]bool{"the commit is sent first": false, "the read begins first": true} {
		t.Run(name, func(t *testing.T) { sendsRefusedAskAgain(t, readFirst) })
	}
}

func sendsRefusedAskAgain(t *testing.T, readFirst bool) {
	t.Helper()
	p := asked()
	w := newWorld(0, &p)
	w.tracing, w.calm = true, true
	h := w.hosts[0]
	deliver := func(e event.Event, id event.ItemID, _ bool) { w.book.deliver(e, id, store.ScopeChain) }
	refused := func() {
		if !w.book.forget("refused") {
			h.failf("the ask was not consumed")
		}
		deliver(event.Event{Type: event.AskReceived, Name: question.Name(), Payload: []byte("1")}, "refused", true)
	}
	err := w.check(func() {
		w.book.create(w.now)
		for range 2 { // a step answers the second one, and keeps the run on its host
			deliver(w.book.ask())
		}
		w.claim(h)
		for len(h.inputs)+len(h.sending)+len(h.reads) > 0 {
			h.drain(len(h.inputs))
			h.serve(rand1(w, h.sending))
			h.read(rand1(w, h.reads))
		}
		refused()
		w.announce()
		h.drain(len(h.inputs))
		h.read(h.reads[0])
		if !readFirst {
			h.drain(len(h.inputs))
		}
		deliver(w.book.message())
		w.announce()
		h.drain(len(h.inputs))
		if len(h.sending) == 0 { // the commit waits for the read
			h.read(h.reads[0])
			h.drain(len(h.inputs))
		}
		s := h.sending[0]
		h.serve(s) // the store carries out the commit
		refused()
		deliver(w.book.message())
		h.read(rand1(w, h.reads))
		h.serve(s)
		w.announce()
		w.finish()
	})
	if err != nil {
		t.Error(err)
	}
}

// claimTwice claims the run again while the first commit of its first claim is in flight.
func (w *world) claimTwice(h *host) {
	w.book.create(w.now)
	w.claim(h)
	h.untilItSends()
	w.book.release(w.book.fence)
	w.claim(h)
	h.drain(len(h.inputs))
}

// untilItSends executes the run until a commit is in flight.
func (h *host) untilItSends() {
	for len(h.sending) == 0 {
		h.drain(len(h.inputs))
		if len(h.reads) > 0 {
			h.read(h.reads[0])
		}
	}
}

// attackReducer plays with a program and then lets the run end. Some of the prefixes of its log are
// executed to their ends as well. It returns the violated invariant.
func attackReducer(seed uint64, p *program, tracing bool) error {
	w := newWorld(seed, p)
	w.tracing = tracing
	err := w.check(func() {
		w.play(20 + w.rng.IntN(400))
		w.finish()
	})
	total.add(w.book.reached)
	for i, b := range w.prefixes {
		if err != nil {
			break
		}
		again := newWorld(seed+uint64(i), b.program)
		again.tracing, again.now, again.book, again.commits = tracing, w.now, b, w.commits
		if err = again.check(again.finish); err != nil {
			err = fmt.Errorf("P9: after %d frames: %w", len(b.frames), err)
		}
	}
	return err
}

// check calls f and returns the violated invariant with the trace.
func (w *world) check(f func()) (err error) {
	defer func() {
		w.memory.Close()
		w.mirrorMemory.Close()
		switch v := recover().(type) {
		case nil:
		case violation:
			err = fmt.Errorf("%s: %s\n%s", w.book.program.workflow, string(v), strings.Join(w.trace, "\n"))
		default:
			w.tracef("panic: %v", v)
			println(strings.Join(w.trace, "\n"))
			panic(v)
		}
	}()
	f()
	for _, h := range w.hosts { // ends the coroutines of runs that are kept in memory
		h.react(runloop.Input{Kind: runloop.Drop})
	}
	return nil
}

// finish ends all faults and executes the run to its end.
func (w *world) finish() {
	w.calm = true
	w.tracef("no more faults")
	for i := range w.hosts {
		if h := w.hosts[i]; h.stage > runloop.Working || !h.serves {
			h.stop()
			h.replace(h.other)
		}
	}
	for _, h := range w.hosts {
		h.closed, h.elsewhere = false, 0
		h.freed()
		h.alive = true
		h.post(runloop.Input{Kind: runloop.Due})
	}
	for range 3000 {
		busy := false
		for _, h := range w.hosts {
			busy = h.calmly() || busy
		}
		if busy {
			continue
		}
		if w.book.ended() {
			w.conclude()
			return
		}
		w.continueRun()
	}
	panic(violation("the run does not end"))
}

// stop ends the grace period of a stopping host, and checks that the run leaves.
func (h *host) stop() {
	h.stage = max(h.stage, runloop.Ending)
	h.post(runloop.Input{Kind: runloop.Stop})
	for range 100 {
		if !h.calmly() {
			break
		}
	}
	if !h.state.Away() && h.owned {
		h.failf("P8: the run does not leave a worker that is stopping")
	}
}

// calmly handles everything that the host has to do, and reports whether there was anything.
func (h *host) calmly() (busy bool) {
	if len(h.inputs) > 0 {
		h.drain(len(h.inputs))
		busy = true
	}
	for len(h.sending) > 0 {
		h.serve(h.sending[0])
		busy = true
	}
	for len(h.reads) > 0 {
		h.read(h.reads[0])
		busy = true
	}
	for len(h.attempts) > 0 {
		h.attemptActs(h.attempts[0])
		busy = true
	}
	if h.lined && !h.begun {
		h.giveTurn()
		busy = true
	}
	return busy
}

// continueRun makes the next thing happen that the run waits for.
func (w *world) continueRun() {
	events, _ := w.book.answers()
	_, _, ok := w.book.message()
	switch {
	case w.book.place == 0:
		w.book.create(w.now)
	case w.book.place == store.StateBlocked: // code of the other version, or another session, tries the run
		h := w.hosts[0]
		other := h.other != (w.book.program.other != nil)
		h.replace(other)
		w.book.blockers = nil
		w.claim(w.hosts[0])
	case w.book.claimable(w.now, w.hosts[0].other):
		w.claim(w.hosts[0])
	default:
		if ok {
			w.deliverMany()
		}
		if len(events) > 0 {
			w.deliver()
		} else if w.paused() {
			w.command(event.RunResumed, 'c')
		}
		w.advance(30 * time.Millisecond)
		for _, h := range w.hosts {
			if w.book.owner == h.session {
				h.reconcile()
			}
		}
	}
}

// paused reports whether the last command in the log pauses the run.
func (w *world) paused() (is bool) {
	for i := range w.book.events {
		switch w.book.events[i].Type {
		case event.RunPaused:
			is = true
		case event.RunResumed:
			is = false
		}
	}
	return is
}

// conclude checks the log of the run and the slots of the hosts.
func (w *world) conclude() {
	if err := w.book.verify(); err != nil {
		panic(violation(err.Error()))
	}
	for _, h := range w.hosts {
		if h.owned {
			h.reconcile()
			h.drain(len(h.inputs))
		}
		if !h.state.Away() && h.claim != nil {
			h.failf("P6: the run has ended but stays on a worker")
		}
		if h.taken != h.started+h.returned {
			h.failf("P4: %d slots taken, %d attempts started and %d slots returned", h.taken, h.started, h.returned)
		}
	}
}
