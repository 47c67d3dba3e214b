package replay

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// typeRecordPanic marks the failure of a recorded value whose function panicked.
const typeRecordPanic = "flowgen.RecordPanic"

// recordPanicError is the value of the panic of Record after its function panicked: the same
// in the first execution and in every replay, read from its stored form.
type recordPanicError struct{ failure *event.Failure }

func (p *recordPanicError) Error() string { return p.failure.Message }

// Record returns a value that was computed once. f gives its stored form, or a
// failure; it may not ask for anything durable. If f panics, that is recorded,
// too, and Record panics now and in every replay: f is never called again.
func (b *Branch) Record(f func() ([]byte, *event.Failure)) ([]byte, *event.Failure) {
	b.enter()
	r := b.run
	asked := event.Event{Type: event.ValueRecorded, Key: b.Key("record")}
	if c := r.takeOver(&asked, nil); c != nil {
		return replayed(&c.created)
	}
	rec := r.expect(&asked, nil)
	r.abortOnError()
	if rec == nil {
		rec = b.compute(&asked, f)
	}
	return replayed(rec)
}

// replayed returns a value as it was recorded.
func replayed(rec *event.Event) ([]byte, *event.Failure) {
	if rec.Failure != nil && rec.Failure.Type == typeRecordPanic {
		panic(&recordPanicError{rec.Failure})
	}
	return slices.Clone(rec.Payload), rec.Failure
}

// compute calls f and puts what came of it into the log, however it ended.
func (b *Branch) compute(e *event.Event, f func() ([]byte, *event.Failure)) (rec *event.Event) {
	r := b.run
	r.pure = "workflow.Record (" + e.Key + ")"
	returned := false
	defer func() {
		if !returned {
			text := "runtime.Goexit was called" // which goes on after this
			if v := recover(); v != nil {
				text = fmt.Sprint(v)
			}
			e.Failure = failure.Panicked("panic in workflow.Record: "+text, debug.Stack())
			e.Failure.Type = typeRecordPanic
		}
		r.pure = ""
		rec = r.emit(e)
		r.abortOnError()
	}()
	e.Payload, e.Failure = f()
	returned = true
	return nil
}
