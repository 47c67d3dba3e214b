package workflowtest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

var errNothingRegistered = errors.New("workflowtest: no workflow is registered: pass the Env to the generated Register before the first run starts")

// fail reports a failure to the test. Later calls do nothing.
func (e *Env) fail(text string) {
	e.mu.Lock()
	first := !e.failed && !e.closed
	e.failed = true
	e.mu.Unlock()
	if first {
		e.tb.Error(text)
	}
}

func (e *Env) failWith(err error) error {
	e.fail(err.Error())
	return err
}

// explain fails the test because no wait can end. The text describes what each run waits for.
func (e *Env) explain(why error) error {
	var b strings.Builder
	passed := e.Now().Sub(Epoch)
	switch {
	case e.blockedCode() != "":
		b.WriteString("workflowtest: " + e.blockedCode())
	case errors.Is(why, errStuck) && e.anyBlocked():
		b.WriteString("workflowtest: a run is blocked: the code of its workflow does not fit its log")
	case errors.Is(why, errStuck):
		fmt.Fprintf(&b, "workflowtest: what is waited for can never come: after %v of virtual time no step runs, no timer is set, and nothing planned with At is left", passed)
	case errors.Is(why, errHorizon):
		fmt.Fprintf(&b, "workflowtest: what is waited for does not come: virtual time would pass the horizon of %v (WithHorizon sets another)", e.options.horizon)
	case errors.Is(why, errEndless):
		fmt.Fprintf(&b, "workflowtest: what is waited for does not come: %d steps, timers and messages later, after %v of virtual time, the run has not got there: does it loop?", maxMoves, passed)
	default:
		fmt.Fprintf(&b, "workflowtest: %v; virtual time stands still meanwhile", why)
	}
	for _, line := range e.open() {
		b.WriteString("\n  " + line)
	}
	for _, line := range e.runningSteps() {
		b.WriteString("\n  " + line)
	}
	if errors.Is(why, errStuck) && e.blockedCode() == "" && !e.anyBlocked() {
		b.WriteString("\n  To fix it: send what is missing from a function planned with Env.At, give the wait a timeout, or look whether the order of waits is right.")
	}
	err := &StuckError{Text: b.String()}
	e.fail(err.Text)
	return err
}

// open describes each open run and what it waits for.
func (e *Env) open() []string {
	e.mu.Lock()
	runs := slices.Clone(e.runs)
	e.mu.Unlock()
	var lines []string
	for _, id := range runs {
		loaded, err := e.store.Load(context.Background(), []store.Load{{Run: id}})
		if err != nil || loaded[0].Err != nil || loaded[0].Record.QueueState == store.StateEnded {
			continue
		}
		rec := &loaded[0].Record
		lines = append(lines, fmt.Sprintf("run %s of %s is %s, its log ends with event %d:", id, rec.Route.Workflow, rec.Status, rec.Seq))
		for _, l := range e.waits(&loaded[0]) {
			lines = append(lines, "  "+l)
		}
	}
	return lines
}

// anyBlocked reports whether some run is blocked because the code does not match its log.
func (e *Env) anyBlocked() bool {
	e.mu.Lock()
	runs := slices.Clone(e.runs)
	e.mu.Unlock()
	return slices.ContainsFunc(runs, func(id event.RunID) bool {
		loaded, err := e.store.Load(context.Background(), []store.Load{{Run: id, Limit: -1}})
		return err == nil && loaded[0].Err == nil && loaded[0].Record.QueueState == store.StateBlocked
	})
}

// waits describes what a run waits for.
func (e *Env) waits(l *store.Loaded) []string {
	rec := &l.Record
	switch {
	case rec.QueueState == store.StateBlocked:
		return strings.Split(e.blockedReason(rec.Run), "\n")
	case rec.QueueState == store.StateReady && !e.serves(rec.Route.Workflow):
		return []string{"no worker knows " + rec.Route.Workflow + ": pass the Env to the generated Register of its package"}
	case rec.QueueState == store.StateQueued:
		return []string{fmt.Sprintf("it starts when the run before it with the workflow id %q has ended", rec.WorkflowID)}
	}
	events, err := decode(l.Frames)
	if err != nil {
		return []string{err.Error()}
	}
	run, err := e.replay(rec.Run, rec.Route.Workflow, events)
	if err != nil {
		return []string{err.Error()}
	}
	defer run.Close()
	if run.State().Run == event.StatePending {
		return []string{"its code has not begun"}
	}
	lines := run.Blocked()
	for _, what := range run.Losers() {
		lines = append(lines, loserTook(rec.Route.Workflow, what))
	}
	return lines
}

func (e *Env) serves(name string) bool {
	return slices.ContainsFunc((*flow.Registry)(&e.registry).WorkflowNames(), func(c store.Route) bool { return c.Workflow == name })
}

// blockedReason returns the reason why a run is blocked.
func (e *Env) blockedReason(run event.RunID) string {
	if n, ok := store.As[store.StepDataStore](e.store); ok {
		if data, err := n.StepData(context.Background(), run); err == nil && data[flow.BlockedKey] != nil {
			return "it is blocked: " + string(data[flow.BlockedKey])
		}
	}
	return "it is blocked"
}

// replay runs the code of a workflow against a log. The caller must close the returned run.
func (e *Env) replay(id event.RunID, name string, events []event.Event) (*replay.Run, error) {
	program, short, ok := (*flow.Registry)(&e.registry).Program(name, (*flow.Client)(e.client).Engine(), discard, nil)
	if !ok {
		return nil, fmt.Errorf("workflow %s is not registered: pass the Env to the generated Register of its package", name)
	}
	run := replay.New(id, short, program, nil)
	if err := run.Replay(events); err != nil {
		return nil, err
	}
	if err := run.Err(); err != nil {
		return nil, err
	}
	return run, nil
}

// decode decodes the frames of a log.
func decode(frames [][]byte) ([]event.Event, error) {
	var events []event.Event
	for i, b := range frames {
		f, err := event.DecodeFrame(b)
		if err != nil {
			return nil, fmt.Errorf("read frame %d: %w", i+1, err)
		}
		events = append(events, f.Events...)
	}
	return events, nil
}

// runningSteps describes the running steps, with the time for which they have been running.
func (e *Env) runningSteps() []string {
	c := &e.scheduler
	c.mu.Lock()
	defer c.mu.Unlock()
	var lines []string
	for x := range c.executions {
		switch x.phase {
		case phaseRunning:
			lines = append(lines, fmt.Sprintf("attempt %d of step %s has been working for %v of real time: let stand-ins wait with workflowtest.Sleep",
				x.info.Number, x.info.Step, time.Since(x.since).Round(time.Millisecond)))
		case phaseStalled:
			lines = append(lines, fmt.Sprintf("attempt %d of step %s waits for the end of its context", x.info.Number, x.info.Step))
		}
	}
	slices.Sort(lines)
	return lines
}

func (e *Env) blockedCode() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.blocked
}
