package replay

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// MismatchError is the error of code that does not match the log of its run. The run is blocked and
// not failed. It continues on a worker whose code matches.
type MismatchError struct {
	Run      event.RunID
	Seq      uint64       // sequence number of the recorded event
	Recorded event.Event  // the event in the log
	Asked    *event.Event // the operation that the code requested; nil if it requested none
	Position string       // file:line of the user's call; empty if there was no call
	Diff     string       // difference of the contents, if only the contents differ
	Blocked  []string     // waits of the branches with their positions, if nothing was requested
	Build    string       // build that recorded the event; empty if unknown
	Here     string       // build of the code that does not match; empty if unknown
	Renamed  *Renaming    // the renamed argument that explains the difference; nil if there is none
}

// untilMatching ends the text of the errors of code that does not match a log.
const untilMatching = "the run is blocked until a worker with matching code starts, and then continues by itself"

// maxBlocked bounds the number of branches that an error lists.
const maxBlocked = 10

// Error describes the difference, its position and how to fix it.
func (e *MismatchError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "run %s does not fit this code: event %d of its log is %s, but the code ", e.Run, e.Seq, describe(&e.Recorded))
	switch {
	case e.Asked == nil:
		b.WriteString("does not ask for it")
		for _, s := range e.Blocked[:min(len(e.Blocked), maxBlocked)] {
			b.WriteString("; " + s)
		}
		if more := len(e.Blocked) - maxBlocked; more > 0 {
			fmt.Fprintf(&b, "; and %d more", more)
		}
	case e.Diff != "":
		b.WriteString("asks for it with other data")
	default:
		b.WriteString("asks for " + describe(e.Asked))
	}
	if e.Position != "" {
		b.WriteString(" at " + e.Position)
	}
	if e.Diff != "" {
		b.WriteString(" (- recorded, + asked for):\n" + strings.TrimRight(e.Diff, "\n"))
	}
	if e.Renamed != nil {
		fmt.Fprintf(&b, "\nA name was changed while this run was under way: %s. %s; "+untilMatching+".", e.Renamed, e.Renamed.Fix(e.directive()))
		return b.String()
	}
	b.WriteString("\n" + e.why() + "; " + untilMatching + ".")
	return b.String()
}

// WithoutData returns the error without the user data in it.
func (e *MismatchError) WithoutData() *MismatchError {
	w := *e
	if w.Diff != "" {
		w.Diff = "the data are encrypted: a program with the keys shows the difference"
	}
	w.Recorded.Failure = codeOf(w.Recorded.Failure)
	if w.Asked != nil {
		asked := *w.Asked
		asked.Failure = codeOf(asked.Failure)
		w.Asked = &asked
	}
	return &w
}

func codeOf(f *event.Failure) *event.Failure {
	if f == nil {
		return nil
	}
	return &event.Failure{Code: f.Code, Message: f.Code}
}

// why describes the possible causes, the most likely first, and the fix.
func (e *MismatchError) why() string {
	const (
		changed = "Restore the old order of operations, for such runs only with workflow.Version, or use a new workflow name for the new code"
		unsound = "time.Now, the order of a map, a global variable, the environment, a goroutine or a channel: take workflow.Now, Rand or Record, sort the keys, and put any other such input into a step"
	)
	switch {
	case e.Build == "" || e.Here == "":
		return "Either the workflow's code was changed while this run was under way, or it depends on something that a replay does not repeat, such as " +
			unsound + ". If it was changed: " + changed
	case e.Build == e.Here:
		return "The same program has recorded this, so the workflow's code was not changed: it depends on something that a replay does not repeat, such as " + unsound +
			". If its code depends on a setting that was changed: " + changed
	}
	return "Another program has recorded this: most likely the workflow's code was changed while this run was under way. " + changed +
		". If it was not changed, it depends on something that a replay does not repeat, such as " + unsound
}

// directive returns the directive of the requested operation's function.
func (e *MismatchError) directive() string {
	if _, step := event.StepOfRun(e.Recorded.Name); e.Recorded.Type == event.ChildCreated && !step {
		return "//flow:workflow"
	}
	return "//flow:step"
}

func describe(e *event.Event) string {
	s := e.Type.String()
	switch {
	case e.Type == event.WaitCreated:
		s += " " + describeWait(e.Wait, e.Name)
	case e.Type == event.WaitCompleted:
		s += " " + e.Outcome.String()
	case e.Name != "":
		s += " " + e.Name
	}
	if e.Key != "" {
		s += fmt.Sprintf(" (key %s)", e.Key)
	}
	if e.Ref != 0 && e.Ref != e.Seq {
		s += fmt.Sprintf(" of event %d", e.Ref)
	}
	if e.Type.Terminal() && e.Failure != nil {
		s += fmt.Sprintf(" (%s)", e.Failure.Message)
	}
	return s
}

func describeWait(kind event.WaitKind, topic string) string {
	if topic == "" {
		return kind.String()
	}
	if kind == event.WaitHook {
		return fmt.Sprintf("%s of hook %s", kind, topic)
	}
	return fmt.Sprintf("%s of topic %s", kind, topic)
}

// Operations names the recorded operation and the requested one. It omits data that differs between
// runs with the same log and code: keys, ordinals and payloads.
func (e *MismatchError) Operations() string {
	asked := "nothing"
	switch {
	case e.Asked == nil:
	case e.Diff != "":
		asked = "the same with other data"
	default:
		asked = operation(e.Asked)
	}
	return "log: " + operation(&e.Recorded) + ", code: " + asked
}

// Sides describes the recorded operation and the requested one, with their keys. asked is empty if
// nothing was requested.
func (e *MismatchError) Sides() (recorded, asked string) {
	if e.Asked != nil {
		asked = describe(e.Asked)
	}
	return describe(&e.Recorded), asked
}

func operation(e *event.Event) string {
	bare := event.Event{Type: e.Type, Name: e.Name, Wait: e.Wait, Outcome: e.Outcome}
	return describe(&bare)
}

func (r *Run) mismatch(rec, asked *event.Event, diff string) error {
	e := &MismatchError{Run: r.id, Seq: rec.Seq, Recorded: *rec, Diff: diff, Build: r.state.Build}
	if diff != "" {
		e.Renamed, r.renamed = r.renamed, nil
	}
	if asked == nil {
		e.Blocked = r.Blocked()
		return e
	}
	a := *asked
	e.Asked = &a
	if r.current != nil { // without a running branch, the request follows from an event and not from a call of the user
		e.Position = r.current.position()
	}
	return e
}

// DiffJSON returns the difference of two JSON values. It returns "" if they are equivalent.
func DiffJSON(recorded, asked []byte) string {
	if bytes.Equal(recorded, asked) {
		return ""
	}
	var a, b any
	if unmarshal(recorded, &a) != nil || unmarshal(asked, &b) != nil {
		return fmt.Sprintf("- %s\n+ %s", recorded, asked)
	}
	// cmp uses non-breaking spaces in its output to discourage programs from parsing it.
	return strings.ReplaceAll(cmp.Diff(readable(a), readable(b)), "\u00a0", " ")
}

// decimal is a number that does not fit an int64. It prints exactly.
type decimal string

// readable replaces the numbers in a decoded JSON value by values that print exactly.
func readable(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		return decimal(v)
	case []any:
		for i := range v {
			v[i] = readable(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = readable(v[k])
		}
	}
	return v
}

func unmarshal(b []byte, v any) error {
	if len(b) == 0 {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	return d.Decode(v)
}
