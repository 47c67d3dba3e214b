package workflowtest

import (
	"context"
	"encoding/json"
	"reflect"
	"sync"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/attempt"
)

// StepContext returns a context with which a test can call the implementation of a step as a plain
// function. The functions of package step accept the context. It is the context of one attempt and
// ends with the test. With [Heartbeats] the test keeps the details of heartbeats for a later
// attempt. With [Streams] it keeps the chunks that the step writes to streams.
func StepContext(t testing.TB, opts ...StepOption) context.Context {
	a := &stepOptions{attempt.Attempt{
		Run: event.NewRunID(Epoch, 0), Step: "test.step", Key: "test.step", Number: 1,
		Heart:   attempt.HeartFunc(func(context.Context, []byte) error { return nil }),
		Streams: chunkWriter{&Chunks{}},
	}}
	for _, opt := range opts {
		opt(a)
	}
	return attempt.With(t.Context(), &a.Attempt)
}

// A StepOption configures the attempt of StepContext.
type StepOption func(*stepOptions)

type stepOptions struct{ attempt.Attempt }

// Attempt sets the number of the attempt. The default is 1.
func Attempt(n int) StepOption { return func(a *stepOptions) { a.Number = n } }

// StepName sets the stored name of the step, which is also its key. The default is "test.step".
func StepName(name string) StepOption {
	return func(a *stepOptions) { a.Step, a.Key = name, name }
}

// WorkflowID sets the workflow ID of the run. By default the run has none.
func WorkflowID(id string) StepOption { return func(a *stepOptions) { a.WorkflowID = id } }

// Tags sets the tags of the run. By default the run has none.
func Tags(tags map[string]string) StepOption { return func(a *stepOptions) { a.Tags = tags } }

// Attributes sets the attributes of the run, see [workflow.WithAttribute]. By default the run has
// none.
func Attributes(all map[string]string) StepOption {
	return func(a *stepOptions) { a.Spec = &event.Spec{Attributes: all} }
}

// LastHeartbeat sets the details of the last heartbeat of an earlier attempt. It panics if they
// cannot be encoded as JSON.
func LastHeartbeat(details any) StepOption {
	data, err := json.Marshal(details)
	if err != nil {
		panic("workflowtest: LastHeartbeat: " + err.Error())
	}
	return func(a *stepOptions) { a.Last = data }
}

// Beats keeps the details of heartbeats. The zero value is ready for use.
type Beats struct {
	mu   sync.Mutex
	last [][]byte
}

// Heartbeats makes the attempt store its heartbeats in b. The attempt can read the last heartbeat
// that an earlier attempt has stored in b.
func Heartbeats(b *Beats) StepOption {
	return func(a *stepOptions) {
		b.mu.Lock()
		defer b.mu.Unlock()
		if len(b.last) > 0 {
			a.Last = b.last[len(b.last)-1]
		}
		a.Heart = attempt.HeartFunc(func(_ context.Context, details []byte) error {
			b.mu.Lock()
			defer b.mu.Unlock()
			b.last = append(b.last, details)
			return nil
		})
	}
}

// Count returns the number of heartbeats.
func (b *Beats) Count() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.last)
}

// Last decodes the details of the last heartbeat into a pointer. It returns false if there was no
// heartbeat.
func (b *Beats) Last(into any) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.last) > 0 && json.Unmarshal(b.last[len(b.last)-1], into) == nil
}

func isNil(f any) bool {
	v := reflect.ValueOf(f)
	return !v.IsValid() || v.Kind() == reflect.Func && v.IsNil()
}
