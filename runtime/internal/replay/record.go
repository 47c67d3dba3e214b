package replay

import (
	"fmt"
	"runtime/debug"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/failure"
)

// typeRecordPanic is the wire name of the failure that is recorded if the function of a Record
// panics.
const typeRecordPanic = "flowgen.RecordPanic"

// recordPanicError is the value with which Record panics if its function has panicked. It is
// decoded from its stored form, so it is the same in the first execution and in every replay.
type recordPanicError struct{ failure *event.Failure }

func (p *recordPanicError) Error() string { return p.failure.Message }

// Record returns a value that is computed once. f returns the stored form of the value, or a
// failure. f must not call durable operations. If f panics, the panic is recorded. Record then
// panics in this execution and in every replay, and f is not called again.
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

// replayed returns the recorded value or failure. It panics if the function has panicked.
func replayed(rec *event.Event) ([]byte, *event.Failure) {
	if rec.Failure != nil && rec.Failure.Type == typeRecordPanic {
		panic(&recordPanicError{rec.Failure})
	}
	return slices.Clone(rec.Payload), rec.Failure
}

// compute calls f and records its result, even if f panics or calls runtime.Goexit.
func (b *Branch) compute(e *event.Event, f func() ([]byte, *event.Failure)) (rec *event.Event) {
	r := b.run
	r.pure = "workflow.Record (" + e.Key + ")"
	returned := false
	defer func() {
		if !returned {
			text := "runtime.Goexit was called" // the Goexit continues after this deferred call
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
