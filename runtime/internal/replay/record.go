package replay

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// typeRecordPanic is the failure type of a recorded value whose function panicked.
const typeRecordPanic = "flowgen.RecordPanic"

// recordPanicError is the panic value of Record after its function panicked. It is read from its
// stored form, and so is the same in the first execution and in every replay.
type recordPanicError struct{ failure *event.Failure }

func (p *recordPanicError) Error() string { return p.failure.Message }

// Record returns a value that is computed once. f returns its stored form, or a failure; it must
// not call durable operations. If f panics, the panic is recorded, and Record panics now and in
// every replay: f is never called again.
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

// compute calls f and records its result, however it ended.
func (b *Branch) compute(e *event.Event, f func() ([]byte, *event.Failure)) (rec *event.Event) {
	r := b.run
	r.pure = "workflow.Record (" + e.Key + ")"
	returned := false
	defer func() {
		if !returned {
			text := "runtime.Goexit was called" // the Goexit continues after this
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
