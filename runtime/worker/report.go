package worker

import (
	"context"
	"log/slog"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/stack"
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
