package worker

import (
	"context"
	"log/slog"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/engine"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/internal/stack"
	"github.com/flowgen/flowgen/runtime/store"
)

// What goes wrong with runs is logged here, and only once the commit that holds it
// was confirmed: a commit that is lost is made again by the next worker, which then logs
// it, and a replay commits nothing. So a line stands in the log of one worker, unless
// that dies between the answer and the line.

// report is a line about an event that is not in a confirmed commit yet.
type report struct {
	seq   uint64 // of the event
	level slog.Level
	text  string
	attrs []slog.Attr
}

// reportStep prepares the line about the end of an attempt, which is the event after
// those that the run has now. What was canceled is none: the code wanted that.
func (t *task) reportStep(op *replay.Op, e *event.Event) {
	if e.Failure.Code == event.CodeCanceled {
		return
	}
	r := report{seq: t.run.Fold().Seq + 1, level: slog.LevelError, text: "step failed"}
	if c := engine.PlanOf(op).Caller; c != nil {
		r.add(slog.String("run", string(c.Run)), slog.String("step", op.Name), slog.String("key", c.Key))
	} else {
		r.add(slog.String("run", string(t.id)), slog.String("workflow", t.class.Workflow), slog.String("step", op.Name), slog.String("key", op.Key))
	}
	r.add(slog.Int("attempt", e.Attempt))
	if e.Type == event.StepRetrying {
		r.level, r.text = slog.LevelWarn, "attempt of a step failed"
		r.add(slog.Duration("next", e.Due.Sub(t.w.clock.Now()).Round(time.Millisecond)))
	}
	r.addFailure(e.Failure)
	t.reports = append(t.reports, r)
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

// reportCommit logs what a confirmed commit holds. last is its last event, if it ended
// the run.
func (t *task) reportCommit(c *commit, last *event.Event) {
	n := 0
	for n < len(t.reports) && t.reports[n].seq <= c.req.Last && c.req.Frame != nil {
		t.w.report(&t.reports[n])
		n++
	}
	if t.reports = t.reports[n:]; len(t.reports) == 0 {
		t.reports = nil
	}
	switch {
	case c.req.Effect == store.EffectBlock:
		t.reportRun("run is blocked", slog.String("error", c.note))
	case last == nil || last.Type != event.RunFailed:
	case t.remote() && last.Failure.Code != event.CodePoisoned:
		// Its step has failed, which was logged.
	default:
		r := report{}
		r.addFailure(last.Failure)
		t.reportRun("run failed", r.attrs...)
	}
}

// remote reports whether the run only executes a step for another one.
func (t *task) remote() bool {
	_, remote := event.StepOfRun(t.class.Workflow)
	return remote
}

func (t *task) reportRun(text string, attrs ...slog.Attr) {
	r := report{level: slog.LevelError, text: text}
	r.add(slog.String("run", string(t.id)), slog.String("workflow", t.class.Workflow))
	r.add(attrs...)
	t.w.report(&r)
}

func (w *Worker) report(r *report) {
	w.log.LogAttrs(context.Background(), r.level, r.text, r.attrs...)
}
