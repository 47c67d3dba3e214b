package replay

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
)

// aChunk returns an encode function for WriteStream. calls counts the calls of the function.
func aChunk(calls *int) func() ([]byte, *event.Failure) {
	return func() ([]byte, *event.Failure) {
		*calls++
		return []byte("body"), nil
	}
}

// unstored returns a log as a store keeps it, without the published chunks.
func unstored(log []event.Event) []event.Event {
	log = slices.Clone(log)
	for i := range log {
		if log[i].Type == event.StreamWritten {
			log[i].Payload = nil
		}
	}
	return log
}

func TestWriteStream_EncodesAChunkOnceAndLeavesNothingInTheLog(t *testing.T) {
	calls := 0
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		b.WriteStream("out", aChunk(&calls))
		b.CloseStream("out")
		b.CloseStream("out") // the stream is closed, so this call does nothing
		return done("1")
	}
	h := begin(t, code)
	written := h.log[2 : len(h.log)-1]
	if len(written) != 2 || string(written[0].Payload) != "body" || written[0].Name != "out" || written[1].Type != event.StreamClosed || calls != 1 {
		t.Fatalf("the log holds %+v after %d calls", written, calls)
	}
	again := load(t, code)
	if err := again.run.Replay(unstored(h.log)); err != nil || calls != 1 {
		t.Errorf("replay: %v, the chunk was encoded %d times, want 1", err, calls)
	}
	if out := again.run.Take(); len(out) > 0 {
		t.Errorf("the replay adds %+v", out)
	}
}

func TestWriteStream_AnotherStreamThanRecordedIsAMismatch(t *testing.T) {
	calls := 0
	to := func(name string) Program {
		return func(b *Branch, s *Scope, _ []byte) Ending {
			b.WriteStream(name, aChunk(&calls))
			return done("1")
		}
	}
	h := begin(t, to("out"))
	err := load(t, to("other")).run.Replay(unstored(h.log))
	var mismatch *MismatchError
	if !errors.As(err, &mismatch) || mismatch.Recorded.Name != "out" || mismatch.Asked.Name != "other" {
		t.Errorf("got %v, want a mismatch of the two streams", err)
	}
}

func TestWriteStream_AFailureEndsTheRunAndNothingStopsThat(t *testing.T) {
	var reached []string
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		defer func() {
			reached = append(reached, "deferred")
			if recover() != nil {
				reached = append(reached, "recovered")
			}
			b.CloseStream("out") // the code does not reach this call
			reached = append(reached, "closed")
		}()
		b.WriteStream("out", func() ([]byte, *event.Failure) {
			return nil, &event.Failure{Code: event.CodePayload, Message: "too large"}
		})
		reached = append(reached, "behind")
		return done("1")
	}
	h := begin(t, code)
	last := h.log[len(h.log)-1]
	if last.Type != event.RunFailed || last.Failure.Code != event.CodePayload {
		t.Errorf("the run ends with %s (%+v)", last.Type, last.Failure)
	}
	if diff := cmp.Diff([]string{"deferred"}, reached); diff != "" {
		t.Errorf("the code reached (-want +got):\n%s", diff)
	}
	again := load(t, code)
	if err := again.run.Replay(h.log); err != nil || !again.run.Ended() {
		t.Errorf("replay: %v, ended %t", err, again.run.Ended())
	}
}

func TestWriteStream_WhatIsClosedFromOutsideIsClosed(t *testing.T) {
	for name, closed := range map[string]event.Event{
		"by a step":        {Type: event.StreamClosed, Name: "out", Key: "flow/p.s#1", Attempt: 1},
		"by a former run":  {Type: event.StreamClosed, Name: "out"},
		"by a remote step": {Type: event.StreamClosed, Name: "out", Key: "flow/p.s#1", Attempt: 1, Item: "item"},
	} {
		calls := 0
		h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
			_, _ = b.Receive(s, "go", time.Time{})
			b.WriteStream("out", aChunk(&calls))
			return done("1")
		})
		h.apply(event.Event{Type: event.StreamWritten, Name: "out", Key: "flow/p.s#1", Attempt: 1, Item: "i"}) // the code does not observe this event
		h.apply(closed)
		h.send("go", "1")
		last := h.log[len(h.log)-1]
		if last.Type != event.RunFailed || !strings.Contains(last.Failure.Message, "stream out, which is closed") || calls != 0 {
			t.Errorf("%s: the run ends with %s (%+v)", name, last.Type, last.Failure)
		}
	}
}
