package worker

import (
	"context"
	"encoding/json"
	"runtime/pprof"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/flow"
)

// slow is a value whose method blocks.
type slow struct{ entered, free chan struct{} }

func (s *slow) UnmarshalJSON([]byte) error {
	close(s.entered)
	<-s.free
	return nil
}

// TestREC11_ConversionsOfLargeValuesAreNoBlockedCode proves that code which encodes or decodes a large
// value is not reported as blocked, and that code is which is blocked in a method of a value.
func TestREC11_ConversionsOfLargeValuesAreNoBlockedCode(t *testing.T) {
	text := strings.Repeat("large ", 1<<20)
	data, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	for name, convert := range map[string]func(){
		"encode": func() { _, _ = flow.Marshal("it", text) },
		"decode": func() { var s string; _ = flow.Decode("it", data, &s) },
	} {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		go pprof.Do(ctx, pprof.Labels("converts", name), func(ctx context.Context) {
			defer close(done)
			for ctx.Err() == nil {
				convert()
			}
		})
		for !converting(stackOf("converts", name)) {
			if t.Context().Err() != nil {
				t.Fatalf("%s: never found", name)
			}
		}
		cancel()
		<-done
	}
	s := slow{make(chan struct{}), make(chan struct{})}
	done := make(chan struct{})
	go pprof.Do(t.Context(), pprof.Labels("converts", "method"), func(context.Context) {
		defer close(done)
		_ = flow.Decode("it", []byte("{}"), &s)
	})
	<-s.entered
	if stack := stackOf("converts", "method"); converting(stack) {
		t.Errorf("the method of a value is not blocked code:\n%s", stack)
	}
	close(s.free)
	<-done
}
