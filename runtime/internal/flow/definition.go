package flow

import (
	"encoding/json"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/permits"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// Definition is the representation of a workflow.Definition.
type Definition struct{ s *DefinitionSpec }

// NewDefinition returns the definition that s describes.
func NewDefinition(s *DefinitionSpec) Definition {
	s.inputName, s.outputName = "input of workflow "+s.Name, "result of workflow "+s.Name
	if s.Pin {
		pinned.Store(true)
	}
	return Definition{s}
}

// Spec returns the description of the workflow. It panics for the zero Definition.
func (d Definition) Spec() *DefinitionSpec {
	if d.s == nil {
		panic("workflow: zero Definition: annotate a function with //flow:workflow, run go generate, and use the variable that it declares")
	}
	return d.s
}

// pinned is set if the program declares a workflow whose runs are pinned.
var pinned atomic.Bool

// DeclaresPinned reports whether the program declares a workflow whose runs are pinned to builds.
func DeclaresPinned() bool { return pinned.Load() }

// Nothing is the type of an input or result that has no stored form.
type Nothing struct{}

// DefinitionSpec contains the values of the directive of a workflow. shim.WorkflowPolicy documents
// the fields that both types have.
type DefinitionSpec struct {
	Name               string
	Param              string // name under which the input is stored; empty if the input itself is the stored object
	Queue              string
	Timeout, Retention time.Duration
	Children           int
	Schedule           string
	Singleton          func(input any) string
	Active             store.ActivePolicy
	Collect            *Collect
	Priority           func(input any) int
	StartWithin        time.Duration
	Rerun              Retry
	Fair               func(input any) (key string, share int)
	Uses               func(input any) []permits.Use
	Pin                bool

	// In and Out are the types of the input and the result. They are nil if they are unknown, and the
	// type Nothing if there is no input or result.
	In, Out reflect.Type

	inputName, outputName string // descriptions of the input and the result for error texts
}

// Collect determines which starts of a workflow share a run, and how long they may join it.
type Collect struct {
	Key func(input any) string // key of the starts that share a run
	// All is set if the code takes the inputs of all starts that share the run. Otherwise the code
	// takes the input of the last start.
	All bool
	// The run begins when no start has joined it for Quiet, when it has waited for Most, or when
	// Full starts have joined it. A zero value disables the condition.
	Quiet, Most time.Duration
	Full        int
}

// InputName returns the description of the input for error texts.
func (d *DefinitionSpec) InputName() string { return d.inputName }

// EncodeInput returns the stored form of an input: a JSON object whose members are named like the
// parameters.
func (d *DefinitionSpec) EncodeInput(in any) ([]byte, error) {
	data, err := Marshal(d.inputName, in)
	if err != nil || d.Param == "" {
		return data, err
	}
	name, _ := json.Marshal(d.Param) // Marshal cannot fail for a string
	wrapped := make([]byte, 0, len(data)+len(name)+3)
	return append(append(append(append(append(wrapped, '{'), name...), ':'), data...), '}'), nil
}

// DecodeInput decodes the result of EncodeInput. all is false if the stored data has fields that
// the type of into does not have.
func (d *DefinitionSpec) DecodeInput(data []byte, into any) (all bool, err error) {
	what := d.inputName
	if d.Param == "" {
		return decodeAll(what, data, into)
	}
	var object map[string]json.RawMessage
	if err := Decode(what, data, &object); err != nil {
		return false, err
	}
	value, ok := object[d.Param]
	for name := range object {
		if !ok && strings.EqualFold(name, d.Param) { // the case of letters does not matter, as for the fields of an object
			value, ok = object[name], true
		}
	}
	all, err = decodeAll(what, value, into)
	return all && (len(object) == 0 || ok && len(object) == 1), err
}

// refuseRenamed blocks the run, and does not return, if a field of its input was renamed. in is the
// decoded input.
func (d *DefinitionSpec) refuseRenamed(ctx Context, stored []byte, in any) {
	today, err := d.EncodeInput(in)
	if err != nil {
		return
	}
	if r := replay.FindRenaming(stored, today); r != nil {
		b := ctx.Branch()
		b.Block(&replay.RenamedError{Run: b.Run().ID(), What: d.inputName, Directive: "//flow:workflow", Renaming: *r})
	}
}

// Code is the code of a workflow. Its input and result are in their stored form.
type Code func(ctx Context, input []byte) (result []byte, err error)

// CodeOf returns the code of a workflow that f implements. In is the type of its stored input. A
// result of type None has no stored form.
func CodeOf[None, In, Out any](d *DefinitionSpec, f func(Context, In) (Out, error)) Code {
	return func(ctx Context, input []byte) ([]byte, error) {
		var in In
		all, err := d.DecodeInput(input, &in)
		if err != nil {
			return nil, err
		}
		if !all {
			d.refuseRenamed(ctx, input, in)
		}
		out, err := f(ctx, in)
		if err != nil {
			return nil, err
		}
		if _, none := any(out).(None); none {
			return nil, nil
		}
		return ctx.Encode(d.outputName, out)
	}
}

// Continuation is the error that ContinueAsNew returns.
type Continuation struct {
	Workflow string
	Input    []byte
	Queue    string // empty: the queue of the run
}

// Error returns a text that contains the fix.
func (c *Continuation) Error() string {
	return "workflow: " + c.Workflow + " was to continue as new: return this error from the code of that workflow itself"
}
