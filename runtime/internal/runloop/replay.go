package runloop

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// replay replays the code of the run to the end of its log, or to the end of the portion that was read.
func (s *State) replay(got *store.Loaded) {
	events, err := s.decode(got)
	if err != nil {
		s.close()
		s.phase, s.recent = phaseLive, nil
		s.block(err)
		return
	}
	switch {
	case got.Next == nil && s.run == nil:
	case !s.Serves(s.route) || !s.enterCode():
		s.lose(&s.fence) // this worker does not serve the route
		return
	case got.Next != nil:
		s.replayPortion(events)
		return
	}
	s.goLive(events, got.Inbox)
	if s.run != nil && s.fence.Epoch > 1 { // The run was given back before. At the first claim, the log may be a copy of another run's log.
		s.wokenAt(events[len(events)-1].Time, s.since)
	}
}

// replayPortion replays the code of the run to the end of a portion of its log, and reads the next one.
// The last event is the first of the next portion.
func (s *State) replayPortion(events []event.Event) {
	began := s.moment.Now
	if err := s.replayCode(events, true); err != nil {
		s.phase, s.recent = phaseLive, nil
		s.block(err)
		return
	}
	s.read.took += s.moment.Now.Sub(began)
	s.read.add(events[:len(events)-1], s.Observed)
	s.readLog()
}

// enterCode puts the run into memory, unless it has replayed a portion of its log already. It returns
// false if this worker does not have the code.
func (s *State) enterCode() bool {
	if s.run != nil {
		return true
	}
	program, short, ok := s.Code.Program(s.route.Workflow, s.Client, s.Log, s.Around)
	if !ok {
		return false
	}
	s.run = replay.New(s.id, short, program, &s.memory.Pool)
	s.run.Stray, s.run.Unbounded, s.run.Build, s.run.Pin = s.stray, s.Unbounded, s.Build, s.Pin
	return true
}

// goLive executes or replays the code of the run with the given log events, and applies the given
// inbox items.
func (s *State) goLive(events []event.Event, inbox []store.Item) {
	s.phase, s.recent = phaseLive, nil
	if !s.Serves(s.route) {
		s.executeUnserved(events, inbox)
		return
	}
	if !s.enterCode() {
		s.lose(&s.fence) // this worker does not serve the route
		return
	}
	if s.recoveries >= s.Recoveries {
		s.poison(events, inbox)
		return
	}
	began := s.moment.Now
	if err := s.replayCode(events, false); err != nil {
		s.block(err)
		return
	}
	earlier := s.read
	s.read = portions{}
	s.observe(earlier.extend(events), earlier.took+s.moment.Now.Sub(began))
	s.interrupted = runningSteps(s.run.State())
	s.keepValues(events)
	if len(inbox) > 0 {
		s.logged = itemsIn(events)
		maps.Copy(s.logged, earlier.items)
	}
	s.block(s.takeItems(inbox))
}

// executeUnserved ends a run whose route this worker does not serve, or gives the run back.
func (s *State) executeUnserved(events []event.Event, inbox []store.Item) {
	_, remote := event.StepOfRun(s.route.Workflow)
	begun := len(events) != 1
	if begun && !remote {
		s.lose(&s.fence)
		return
	}
	s.run = replay.New(s.id, "", nil, &s.memory.Pool)
	var err error
	if begun {
		err = s.run.Skip(events)
	} else {
		err = s.run.Replay(events)
	}
	if err != nil {
		s.lose(&s.fence)
		return
	}
	s.observe(events, 0)
	s.pending = inbox
	for more := true; more && len(s.pending) > 0; { // all items at once, because no code runs and the last item may end the run
		more, err = s.applyNext()
	}
	s.block(err)
	s.pending = nil
	state := s.run.State()
	switch {
	case s.run.Ended():
	case begun && state.CancelRequested:
		s.end(event.Event{Type: event.RunCanceled, Failure: &event.Failure{
			Code: event.CodeCanceled, Message: strings.TrimSuffix("canceled while no worker served its queue: "+state.CancelReason, ": "),
		}})
	case !begun:
		if f := OutOfTime(state, s.moment.Now); f != nil {
			s.end(event.Event{Type: event.RunFailed, Failure: f})
		}
	}
	if !s.run.Ended() {
		s.lose(&s.fence)
	}
}

// poison ends a run that has reached Recoveries, without executing its code.
func (s *State) poison(events []event.Event, inbox []store.Item) {
	if err := s.run.Skip(events); err != nil {
		s.block(err)
		return
	}
	s.observe(events, 0)
	for _, item := range inbox {
		s.late = append(s.late, item.ID)
		s.taken = append(s.taken, item.ID)
	}
	if !s.run.State().Run.Terminal() {
		s.end(event.Event{Type: event.RunFailed, Failure: poisonFailure(s.run.State(), s.recoveries)})
	}
}

// poisonFailure returns the failure of a poisoned run with all known facts.
func poisonFailure(f *event.LogState, recoveries int) *event.Failure {
	var b strings.Builder
	fmt.Fprintf(&b, "its workers died %d times without any progress in between; its log ends at event %d (%s)", recoveries, f.Seq, f.Last)
	for _, ref := range runningSteps(f) {
		o := f.Open(ref)
		fmt.Fprintf(&b, "; attempt %d of step %s (%s) was under way", o.Attempt, o.Name, o.Key)
	}
	if f.Run == event.StatePending {
		b.WriteString("; its code never reached a durable operation")
	}
	b.WriteString(": find what ends the process, such as os.Exit, exhausted memory or a fatal error")
	return &event.Failure{Code: event.CodePoisoned, Message: b.String()}
}

func runningSteps(f *event.LogState) []uint64 {
	var refs []uint64
	if f.RunningSteps() == 0 {
		return nil
	}
	f.Opens(func(o *event.Open) bool {
		if o.State == event.StateRunning {
			refs = append(refs, o.Ref)
		}
		return true
	})
	slices.SortFunc(refs, cmp.Compare)
	return refs
}
