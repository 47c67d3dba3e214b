package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flow"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
)

// A reporter logs a failure of a run only after the commit that contains the failure was confirmed.
// If the commit is lost, the next worker makes it again and logs the failure. A replay commits
// nothing and logs nothing. So exactly one worker logs each line, unless the worker dies between
// the answer and the line.

// report is a log line about an event that no confirmed commit contains yet.
type report struct {
	seq   uint64 // sequence number of the event
	level slog.Level
	text  string
	attrs []slog.Attr
}

func (r *report) add(attrs ...slog.Attr) { r.attrs = append(r.attrs, attrs...) }

func (r *report) addFailure(f *event.Failure) {
	if f == nil {
		return
	}
	r.add(slog.String("code", f.Code), slog.String("error", f.Message))
	if f.Code == event.CodePanic {
		r.add(slog.String("at", stack.Origin(f.Stack)))
	}
}

func (r *report) to(log *slog.Logger) {
	log.LogAttrs(context.Background(), r.level, r.text, r.attrs...)
}

// reporter logs the failures of one run.
type reporter struct {
	*execution
	*heldClaim
	waiting []report // reports whose events are not committed
}

// step prepares the line about a failed attempt. e is the event that records the failure, which
// must be the next event of the run; its time is the start of the backoff. A canceled attempt is
// not reported, because the code requested the cancel.
func (r *reporter) step(op *replay.Op, e *event.Event) {
	if e.Failure.Code == event.CodeCanceled {
		return
	}
	line := report{seq: r.run.State().Seq + 1, level: slog.LevelError, text: "step failed"}
	if c := flow.PlanOf(op).Caller; c != nil {
		line.add(slog.String("run", string(c.Run)), slog.String("step", op.Name), slog.String("key", c.Key))
	} else {
		line.add(slog.String("run", string(r.in.id)), slog.String("workflow", r.route.Workflow), slog.String("step", op.Name), slog.String("key", op.Key))
	}
	line.add(slog.Int("attempt", e.Attempt))
	if e.Type == event.StepRetrying {
		line.level, line.text = slog.LevelWarn, "attempt of a step failed"
		line.add(slog.Duration("next", e.Due.Sub(e.Time).Round(time.Millisecond)))
	}
	line.addFailure(e.Failure)
	r.waiting = append(r.waiting, line)
}

// commit logs the reports of a confirmed commit. last is the event that ended the run, or nil if
// the run has not ended.
func (r *reporter) commit(c *commit, last *event.Event) {
	n := 0
	for n < len(r.waiting) && r.waiting[n].seq <= c.req.Last && c.req.Frame != nil {
		r.waiting[n].to(r.log)
		n++
	}
	if r.waiting = r.waiting[n:]; len(r.waiting) == 0 {
		r.waiting = nil
	}
	switch {
	case c.req.Effect == store.EffectBlock:
		r.ofRun("run is blocked", slog.String("error", c.why))
	case last == nil || last.Type != event.RunFailed:
	case r.remote() && last.Failure.Code != event.CodePoisoned:
		// The failure of the step was logged before.
	default:
		line := report{}
		line.addFailure(last.Failure)
		r.ofRun("run failed", line.attrs...)
	}
}

// remote reports whether the run executes a step for another run.
func (r *reporter) remote() bool {
	_, remote := event.StepOfRun(r.route.Workflow)
	return remote
}

func (r *reporter) ofRun(text string, attrs ...slog.Attr) {
	line := report{level: slog.LevelError, text: text}
	line.add(slog.String("run", string(r.in.id)), slog.String("workflow", r.route.Workflow))
	line.add(attrs...)
	line.to(r.log)
}

// longLog is the length, in events, at which the first warning about a long log is logged.
const longLog = 10_000

// length logs a warning when the length of the log passes longLog, and at each further doubling.
func (r *reporter) length(before, after uint64, bytes int) {
	reached := uint64(0)
	for n := uint64(longLog); n <= after; n *= 2 {
		if before < n {
			reached = n
		}
	}
	if reached > 0 {
		r.log.Warn("log of a run is long: continue as new before it reaches its limit", "run", r.in.id, "workflow", r.route.Workflow,
			"events", after, "bytes", bytes, "limit", r.cfg.MaxLogEvents)
	}
}
