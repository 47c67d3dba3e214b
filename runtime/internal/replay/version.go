package replay

import (
	"fmt"
	"strconv"

	"github.com/flowgen/flowgen/runtime/event"
)

// VersionError is the error of a run that follows a version of a change which the code does not
// support. The run is blocked and not failed, as after a [MismatchError].
type VersionError struct {
	Run      event.RunID
	Change   string
	Recorded int // the version that the run follows; 0 if the run is older than the change
	Min, Max int // versions that the code supports
}

// Error names the change, the versions and how to fix the error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("run %s does not fit this code: it follows version %d of change %q, and the code knows versions %d to %d: "+
		"support that version in this worker's code, or let the run end on a worker that supports it; it continues there by itself",
		e.Run, e.Recorded, e.Change, e.Min, e.Max)
}

// Version returns the version of a change that the run follows. If the log contains a version, it
// returns that version. If the log ends here, it records and returns latest. If earlier code has
// passed this position without calling Version, it returns 0. The first call in a run decides for
// the whole run.
func (b *Branch) Version(change string, oldest, latest int) int {
	b.enter()
	r := b.run
	v, known := r.versions[change]
	if !known {
		v = r.decideVersion(change, latest)
		if r.versions == nil {
			r.versions = map[string]int{}
		}
		r.versions[change] = v
	}
	if v < oldest || v > latest {
		r.err = &VersionError{Run: r.id, Change: change, Recorded: v, Min: oldest, Max: latest}
		r.abortOnError()
	}
	return v
}

func (r *Run) decideVersion(change string, latest int) int {
	r.halt()
	asked := event.Event{Type: event.VersionRecorded, Name: change, Payload: []byte(strconv.Itoa(latest))}
	if len(r.feed) > 0 && (r.feed[0].Type != event.VersionRecorded || r.feed[0].Name != change) {
		return 0
	}
	rec := r.command(&asked, nil)
	v, err := strconv.Atoi(string(rec.Payload))
	if err != nil {
		r.err = fmt.Errorf("replay run %s: event %d (%s) holds no number: %w", r.id, rec.Seq, rec.Type, event.ErrCorrupt)
		r.abortOnError()
	}
	return v
}

// Continues reports whether code that may continue as new at this position does so. If the log
// continues here, the log decides; otherwise wanted does. So changed code may decide to continue
// earlier or later than before, even while workers with the old and the new code execute the same
// run.
func (b *Branch) Continues(wanted bool) bool {
	b.enter()
	b.run.halt()
	if len(b.run.feed) > 0 {
		return b.run.feed[0].Type == event.RunContinued
	}
	return wanted
}

// Apart reports whether a call of a step is executed in a separate run. A call that is in the log
// keeps its recorded form. A new call has the wanted form. So code that adds or removes the queue
// or the limits of a step matches the logs of existing runs. Therefore a step that uses only limits
// without a bound needs no separate run, although workers may read the first configuration of such
// a limit at different heartbeats.
func (b *Branch) Apart(step string, wanted bool) bool {
	b.enter()
	b.run.halt()
	if len(b.run.feed) == 0 {
		return wanted
	}
	switch next := &b.run.feed[0]; {
	case next.Type == event.StepCreated && next.Name == step:
		return false
	case next.Type == event.ChildCreated && next.Name == event.StepRun(step):
		return true
	}
	return wanted
}
