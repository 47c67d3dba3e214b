package replay

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// drive applies random events to a run until the run ends, no event is possible, or the log is long
// enough.
func (h *host) drive(rng *rand.Rand) {
	for tries := 0; tries < 400 && len(h.log) < 80 && !h.run.Ended(); tries++ {
		h.now = h.now.Add(time.Duration(rng.IntN(3)) * time.Millisecond)
		open := h.open()
		paused := h.run.State().Paused
		if paused { // during a pause no time passes and no step begins
			open = slices.DeleteFunc(open, func(o *event.Open) bool { return o.State != event.StateRunning })
		}
		switch n := rng.IntN(20); {
		case paused && n < 3:
			h.apply(event.Event{Type: event.RunResumed})
		case h.run.AtGate() && n < 6:
			h.apply(event.Event{Type: event.RunStepped})
		case n == 19 && rng.IntN(3) == 0:
			h.apply(event.Event{Type: event.RunPaused})
		case n < 7 && h.run.Startable() != nil && !paused:
			h.start()
		case n < 16 && len(open) > 0:
			h.advance(rng, open[rng.IntN(len(open))])
		case n < 17:
			h.send(topicName(rng.IntN(3)), fmt.Sprint(len(h.log)))
		case n == 17:
			h.payload(rng)
		case n == 18 && rng.IntN(2) == 0:
			h.ask(topicName(rng.IntN(3)), strings.Repeat("1", rng.IntN(5)+1))
		case rng.IntN(20) == 0:
			h.cancel()
		}
	}
}

// payload sends a payload to a hook, which may be closed.
func (h *host) payload(rng *rand.Rand) {
	var open []*event.Open
	h.run.State().Opens(func(o *event.Open) bool {
		if o.Entity == event.EntityHook {
			open = append(open, o)
		}
		return true
	})
	if len(open) == 0 {
		h.apply(event.Event{Type: event.HookMissed, Token: "closed", Item: "missed"})
		return
	}
	slices.SortFunc(open, func(a, b *event.Open) int { return int(a.Ref) - int(b.Ref) })
	h.apply(event.Event{Type: event.HookReceived, Ref: open[rng.IntN(len(open))].Ref, Payload: []byte(fmt.Sprint(len(h.log)))})
}

// ask sends an ask to the run like a worker.
func (h *host) ask(name, payload string) {
	e := event.Event{Type: event.AskReceived, Name: name, Item: event.ItemID(fmt.Sprint("ask-", len(h.log))), Payload: []byte(payload)}
	switch refusal, handled := h.run.Judge(name, e.Payload); {
	case refusal != nil:
		return
	case handled:
		e.Type = event.AskAccepted
	}
	h.apply(e)
}

// open returns the open steps and waits, oldest first.
func (h *host) open() []*event.Open {
	var all []*event.Open
	h.run.State().Opens(func(o *event.Open) bool {
		if o.Entity == event.EntityStep || o.Entity == event.EntityWait {
			all = append(all, o)
		}
		return true
	})
	slices.SortFunc(all, func(a, b *event.Open) int { return int(a.Ref) - int(b.Ref) })
	return all
}

func (h *host) advance(rng *rand.Rand, o *event.Open) {
	switch {
	case o.Entity == event.EntityWait:
		if !o.Due.IsZero() {
			h.fire(o.Ref)
		}
	case o.State == event.StatePending:
		if o.Attempt > 0 {
			h.apply(event.Event{Type: event.StepStarted, Ref: o.Ref, Attempt: o.Attempt + 1, By: "w"})
		}
	default:
		op := h.run.Op(o.Ref)
		e := event.Event{Ref: o.Ref, Attempt: o.Attempt, Failure: &event.Failure{Code: event.CodeError, Message: "no"}}
		switch n := rng.IntN(4); {
		case n < 2:
			e.Type, e.Failure, e.Payload = event.StepCompleted, nil, []byte(fmt.Sprint(len(h.log)))
		case op.CancelWanted():
			e.Type, e.Failure = event.StepFailed, CancelFailure(op.CancelCause())
		case n == 2:
			e.Type, e.Due = event.StepRetrying, h.now.Add(time.Second)
		default:
			e.Type = event.StepFailed
		}
		h.apply(e)
	}
}

// drawLog draws a random program. It returns the program, the observations of an execution, and the
// log of the execution.
func drawLog(t *testing.T, rt *rapid.T) ([]stmt, []string, []event.Event) {
	return drawLogOf(t, rt, drawBody(rt, 2, 5, 10))
}

// drawLogOf executes the program body. It returns the program, the observations of the execution,
// and the log of the execution.
func drawLogOf(t *testing.T, rt *rapid.T, body []stmt) ([]stmt, []string, []event.Event) {
	code, seen := program(body)
	h := load(t, code)
	spec := &event.Spec{
		Workflow: "p.flow", Timeout: time.Second * time.Duration(rapid.IntRange(0, 1).Draw(rt, "timeout")),
		Debug: rapid.IntRange(0, 3).Draw(rt, "debug") == 0,
	}
	h.apply(event.Event{Type: event.RunCreated, Spec: spec, Payload: []byte(`"in"`)})
	h.apply(event.Event{Type: event.RunStarted, By: "w"})
	h.drive(rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "driver"), 0)))
	return body, slices.Clone(seen.trace), h.log
}

// commands returns for each event of a log whether the event came from the code.
func commands(log []event.Event) []bool {
	r := New(testRun, "flow", nil, nil)
	is := make([]bool, len(log))
	for i := range log {
		is[i] = r.isCommand(&log[i])
		if r.Skip(log[i:i+1]) != nil {
			return is[:i]
		}
	}
	return is
}

func TestReplay_RegeneratesThePathHoweverTheLogIsPaged(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body, trace, log := drawLog(t, rt)
		is := commands(log)
		kept := slices.Clone(log)
		for range 10 {
			code, seen := program(body)
			again := load(t, code)
			for from := 0; from < len(log); {
				to := from + 1 + rapid.IntRange(0, len(log)).Draw(rt, "page")
				for to = min(to, len(log)); to < len(log) && (is[to] || isBookkeeping(log[to].Type)); {
					to++
				}
				page := again.run.Replay
				end := to
				if to < len(log) && log[to].Type.External() && rapid.Bool().Draw(rt, "portion") {
					page, end = again.run.ReplayPortion, to+1
				}
				if err := page(log[from:end]); err != nil {
					rt.Fatalf("replay: %v", err)
				}
				from = to
			}
			if diff := cmp.Diff(trace, seen.trace); diff != "" {
				rt.Fatalf("the code saw (-first +again):\n%s", diff)
			}
			if out := again.run.Take(); len(out) > 0 {
				rt.Fatalf("the replay adds %s", describe(&out[0]))
			}
			if got, want := again.run.State().Run, stateOf(log).Run; got != want || again.run.Ended() != want.Terminal() {
				rt.Fatalf("the run is %v, want %v", got, want)
			}
		}
		sameEvents(t, kept, log)
	})
}

func isBookkeeping(t event.Type) bool { return t == event.StepStarted || t == event.StepRetrying }

func stateOf(log []event.Event) *event.LogState {
	var f event.LogState
	for i := range log {
		_ = f.Apply(&log[i])
	}
	return &f
}

func TestReplay_EveryPrefixOfALogLeadsToTheSameLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		body, trace, log := drawLog(t, rt)
		is := commands(log)
		for cut := range len(log) + 1 {
			code, seen := program(body)
			again := load(t, code)
			if err := again.run.Replay(log[:cut]); err != nil {
				rt.Fatalf("cut at %d: replay: %v", cut, err)
			}
			got := append(slices.Clone(log[:cut]), again.run.Take()...)
			for len(got) < len(log) {
				if is[len(got)] {
					rt.Fatalf("cut at %d: event %d is not regenerated: %s", cut, len(got)+1, describe(&log[len(got)]))
				}
				if err := again.run.Apply(log[len(got)]); err != nil {
					rt.Fatalf("cut at %d: apply: %v", cut, err)
				}
				got = append(got, again.run.Take()...)
			}
			sameEvents(t, log, got)
			if again.run.overlooked {
				rt.Fatalf("cut at %d: a deadlock was overlooked", cut)
			}
			if diff := cmp.Diff(trace, seen.trace); diff != "" {
				rt.Fatalf("cut at %d: the code saw (-first +again):\n%s", cut, diff)
			}
			again.run.Close()
		}
	})
}

// live executes code from the beginning with the outside events of a log, and returns the resulting
// log. A replay must give the same result, which it computes in another way.
func live(t *testing.T, code Program, log []event.Event) ([]event.Event, error) {
	h := load(t, code)
	defer h.run.Close()
	for len(h.log) < len(log) {
		e := log[len(h.log)]
		if h.run.isCommand(&e) {
			return h.log, fmt.Errorf("event %d is a command that the code does not give", e.Seq)
		}
		if err := h.run.Apply(e); err != nil {
			return h.log, err
		}
		h.log = append(h.log, h.run.Take()...)
	}
	return h.log, nil
}

// checkVerdict checks that the result of a replay agrees with a live execution. It reports whether
// the replay has accepted the log.
func checkVerdict(t *testing.T, rt *rapid.T, body []stmt, log []event.Event) bool {
	code, seen := program(body)
	h := load(t, code)
	defer h.run.Close()
	if err := h.run.Replay(log); err != nil {
		if !strings.Contains(err.Error(), "event ") {
			rt.Fatalf("the error names no event: %v", err)
		}
		return false
	}
	if h.run.overlooked { // other code has written the log
		return true
	}
	other, seenLive := program(body)
	want, err := live(t, other, log)
	if err != nil {
		rt.Fatalf("replay accepts a log that this code does not write: %v", err)
	}
	got := append(slices.Clone(log), h.run.Take()...)
	if diff := cmp.Diff(shape(want), shape(got)); diff != "" {
		rt.Fatalf("replay accepts another log than this code writes (-writes +accepted):\n%s", diff)
	}
	if diff := cmp.Diff(untimed(seenLive.trace), untimed(seen.trace)); diff != "" {
		rt.Fatalf("the code saw (-live +replay):\n%s", diff)
	}
	return true
}

var limits = regexp.MustCompile(`its context had [0-9a-zµ.]+`)

// untimed returns a trace without the durations of time limits. A replay uses the durations in the
// log, and a mutation changes the times of events.
func untimed(trace []string) []string {
	all := slices.Clone(trace)
	for i := range all {
		all[i] = limits.ReplaceAllString(all[i], "its context had some time")
	}
	return all
}

func shape(log []event.Event) []string {
	all := make([]string, len(log))
	for i := range log {
		e := log[i]
		if e.Type == event.StreamWritten {
			e.Payload = nil // the payload is not stored in the log
		}
		if e.Failure != nil && e.Failure.Code == event.CodeDeadlock {
			e.Failure = &event.Failure{Code: event.CodeDeadlock} // the description of the branches is not compared
		}
		all[i] = fmt.Sprintf("%s %s %s", describe(&e), e.Outcome, e.Payload)
	}
	return all
}

func TestReplay_MutatedLogIsRefusedOrIsWhatTheCodeWrites(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		// If a log does not record a version, it belongs to an older program. So versions are
		// excluded.
		body, _, log := drawLogOf(t, rt, without("version", drawBody(rt, 2, 5, 10)))
		for range 5 {
			checkVerdict(t, rt, body, mutateLog(rt, slices.Clone(log)))
		}
	})
}

func mutateLog(rt *rapid.T, log []event.Event) []event.Event {
	i := rapid.IntRange(0, len(log)-1).Draw(rt, "at")
	j := rapid.IntRange(0, len(log)-1).Draw(rt, "and")
	renumber := true
	switch rapid.IntRange(0, 9).Draw(rt, "mutation") {
	case 0:
		log = slices.Delete(log, i, i+1)
	case 1:
		log[i], log[j] = log[j], log[i]
	case 2:
		log = slices.Insert(log, i, log[j])
	case 3:
		log[i].Key += "x"
	case 4:
		log[i].Name += "x"
	case 5:
		log[i].Type = rapid.SampledFrom(event.Types()).Draw(rt, "type")
	case 6:
		log[i].Outcome = event.Outcome(rapid.IntRange(0, 4).Draw(rt, "outcome"))
	case 7:
		log[i].Ref = uint64(j + 1)
	case 8:
		switch log[i].Type { // other events have no payload or a payload that a replay does not compare
		case event.StepCreated, event.StepCompleted, event.MessageReceived, event.RunCompleted:
			log[i].Payload = []byte("77")
		}
	default:
		renumber = false
		log = slices.Delete(log, i, i+1)
	}
	if renumber {
		for k := range log {
			if log[k].Ref == log[k].Seq {
				log[k].Ref = uint64(k + 1)
			}
			log[k].Seq = uint64(k + 1)
		}
	}
	return log
}

func TestReplay_MutatedProgramIsRefusedOrWritesTheLog(t *testing.T) {
	refused := 0
	rapid.Check(t, func(rt *rapid.T) {
		// The result of Version depends on where the log ends, which is its purpose. The refusal of
		// an ask that waited for its handler also depends on the log, because a replay does not
		// call the handler again. So both are excluded.
		fixed := func(body []stmt) []stmt { return without("handle", without("version", body)) }
		body, _, log := drawLogOf(t, rt, fixed(drawBody(rt, 2, 5, 10)))
		for range 3 {
			if !checkVerdict(t, rt, fixed(mutateProgram(rt, body)), log) {
				refused++
			}
		}
	})
	if refused == 0 {
		t.Error("no mutated program was refused: the test proves nothing")
	}
}

// without returns the program with harmless statements in place of all statements of one kind.
func without(kind string, body []stmt) []stmt {
	body = slices.Clone(body)
	for i := range body {
		if body[i].Kind == kind {
			body[i].Kind = "try"
		}
		body[i].Body = without(kind, body[i].Body)
	}
	return body
}

func mutateProgram(rt *rapid.T, body []stmt) []stmt {
	body = slices.Clone(body)
	i := rapid.IntRange(0, len(body)-1).Draw(rt, "at")
	extra := drawBody(rt, 1, 1, 1)
	switch rapid.IntRange(0, 4).Draw(rt, "mutation") {
	case 0:
		return slices.Delete(body, i, i+1)
	case 1:
		return slices.Insert(body, i, extra...)
	case 2:
		body[i] = extra[0]
	case 3:
		body[i].M++
	default:
		if len(body[i].Body) == 0 {
			body[i].N++
			break
		}
		body[i].Body = mutateProgram(rt, body[i].Body)
	}
	return body
}
