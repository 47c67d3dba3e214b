package replay

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
)

// mostIgnored is how many operations a branch may begin under ended scopes without waiting in
// between. Each of them returns the error of its scope at once, so code that ignores the error
// would never return control: no other event could take effect, not even a termination.
const mostIgnored = 100_000

// heed counts an operation under an ended scope, and fails the run if the code ignores the end of
// the scope for too long.
//
// The log records that, so that a replay ends at the same operation. If the log continues there,
// the code of another build began fewer operations, and this code continues as well.
func (b *Branch) heed(s *Scope) {
	if s == nil || s.err == nil {
		return
	}
	if b.ignored++; b.ignored < mostIgnored {
		return
	}
	r := b.run
	asked := event.Event{Type: event.CancelRequested, Key: b.path, Failure: &event.Failure{Code: event.CodeEndIgnored}}
	if len(r.feed) > 0 {
		if rec := &r.feed[0]; !r.isCommand(rec) || !sameOperation(rec, &asked) {
			return
		}
	} else {
		asked.Failure.Message = fmt.Sprintf("branch %s has begun %d operations since its context ended (%v), and waited for nothing: "+
			"return once an operation returns the error of the context, or use workflow.Detached for what must be done all the same", b.path, b.ignored, s.Err())
	}
	rec := r.command(&asked, nil)
	b.Fail(rec.Failure)
}
