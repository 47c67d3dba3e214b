package runloop

import (
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
)

// A failure of a run is logged only after the commit that contains the failure was confirmed. If the
// commit is lost, the next worker makes it again and logs the failure. A replay commits nothing and
// logs nothing. So exactly one worker logs each line, unless the worker dies between the answer and
// the line.

// report is a log line about an event that no confirmed commit contains yet.
type report struct {
	seq uint64 // sequence number of the event
	Line
}

// addFailure adds a failure to a line. The message is user data.
func (s *State) addFailure(l *Line, f *event.Failure) {
	if f == nil {
		return
	}
	l.Args = append(l.Args, "code", f.Code)
	if !s.Private {
		l.Args = append(l.Args, "error", f.Message)
	}
	if f.Code == event.CodePanic {
		l.Args = append(l.Args, "at", stack.Origin(f.Stack))
	}
}

// reportStep prepares the line about a failed attempt. e is the event that records the failure,
// which must be the next event of the run; its time is the start of the backoff. A canceled attempt
// is not reported, because the code requested the cancel.
func (s *State) reportStep(op *replay.Op, e *event.Event) {
	if e.Failure.Code == event.CodeCanceled {
		return
	}
	line := Line{Level: slog.LevelError, Text: "step failed"}
	if c := flow.PlanOf(op).Caller; c != nil {
		line.Args = []any{"run", c.Run, "step", op.Name, "key", c.Key}
	} else {
		line.Args = []any{"run", s.id, "workflow", s.route.Workflow, "step", op.Name, "key", op.Key}
	}
	line.Args = append(line.Args, "attempt", e.Attempt)
	if e.Type == event.StepRetrying {
		line.Level, line.Text = slog.LevelWarn, "attempt of a step failed"
		line.Args = append(line.Args, "next", e.Due.Sub(e.Time).Round(time.Millisecond))
	}
	s.addFailure(&line, e.Failure)
	s.reports = append(s.reports, report{s.run.State().Seq + 1, line})
}

// report logs the lines of a confirmed commit. last is the event that ended the run, or nil if the
// run has not ended.
func (s *State) report(c *Commit, last *event.Event) {
	n := 0
	for n < len(s.reports) && s.reports[n].seq <= s.seq {
		s.act(Action{Op: Log, Line: s.reports[n].Line})
		n++
	}
	if s.reports = s.reports[n:]; len(s.reports) == 0 {
		s.reports = nil
	}
	switch {
	case c.Req.Effect == store.EffectBlock:
		s.log(slog.LevelError, "run is blocked", "run", s.id, "workflow", s.route.Workflow, "error", c.Why)
	case last == nil || last.Type != event.RunFailed:
	case s.remote() && last.Failure.Code != event.CodePoisoned:
		// The failure of the step was logged before.
	default:
		line := Line{Level: slog.LevelError, Text: "run failed", Args: []any{"run", s.id, "workflow", s.route.Workflow}}
		s.addFailure(&line, last.Failure)
		s.act(Action{Op: Log, Line: line})
	}
}

// remote reports whether the run executes a step for another run.
func (s *State) remote() bool {
	_, remote := event.StepOfRun(s.route.Workflow)
	return remote
}

// longLog is the length, in events, at which the first warning about a long log is logged.
const longLog = 10_000

// reportLength logs a warning when the length of the log passes longLog, and at each further doubling.
func (s *State) reportLength(before, after uint64, bytes int) {
	reached := uint64(0)
	for n := uint64(longLog); n <= after; n *= 2 {
		if before < n {
			reached = n
		}
	}
	if reached > 0 {
		s.warn("log of a run is long: continue as new before it reaches its limit", "run", s.id, "workflow", s.route.Workflow,
			"events", after, "bytes", bytes, "limit", s.MaxLogEvents)
	}
}
