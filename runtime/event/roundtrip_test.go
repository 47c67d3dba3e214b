package event_test

import (
	"encoding/json"
	"math"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

// anyTime draws a nonzero time that the format can represent.
var anyTime = rapid.Custom(func(t *rapid.T) time.Time {
	const first, last = -62_135_596_799_999, 253_402_300_799_999
	near := rapid.Int64Range(start.UnixMilli()-3, start.UnixMilli()+3)
	return time.UnixMilli(rapid.OneOf(near, rapid.Int64Range(first, last)).Draw(t, "ms")).UTC()
})

// anyBytes draws bytes as they are stored: nil rather than empty.
var anyBytes = rapid.Custom(func(t *rapid.T) json.RawMessage {
	b := rapid.SliceOfN(rapid.Byte(), 0, 300).Draw(t, "bytes")
	if len(b) == 0 {
		return nil
	}
	return b
})

var anyString = rapid.Map(anyBytes, func(b json.RawMessage) string { return string(b) })

func drawMap(t *rapid.T, label string) map[string]string {
	m := rapid.MapOfN(rapid.String(), anyString, 0, 5).Draw(t, label)
	if len(m) == 0 {
		return nil
	}
	return m
}

func drawFailure(t *rapid.T, depth int) *event.Failure {
	f := &event.Failure{
		Message: anyString.Draw(t, "message"), Code: anyString.Draw(t, "code"), Type: anyString.Draw(t, "type"),
		Data: anyBytes.Draw(t, "data"), Stack: anyString.Draw(t, "stack"),
	}
	for range rapid.IntRange(0, max(0, 2-depth)).Draw(t, "causes") {
		f.Causes = append(f.Causes, drawFailure(t, depth+1))
	}
	return f
}

func drawSpec(t *rapid.T) *event.Spec {
	return &event.Spec{
		Workflow: anyString.Draw(t, "workflow"), Queue: anyString.Draw(t, "queue"), WorkflowID: anyString.Draw(t, "workflow id"),
		Tags: drawMap(t, "tags"), Timeout: time.Duration(rapid.Int64().Draw(t, "timeout")),
		Retention: time.Duration(rapid.Int64().Draw(t, "retention")),
		Parent:    event.RunID(anyString.Draw(t, "parent")), ParentKey: anyString.Draw(t, "parent key"),
		Root: event.RunID(anyString.Draw(t, "root")), Depth: int(rapid.Int32Min(0).Draw(t, "depth")),
		RerunOf: event.RunID(anyString.Draw(t, "resumed")), ContinuedOf: event.RunID(anyString.Draw(t, "continued")),
		Attributes: drawMap(t, "attributes"), Hold: time.Duration(rapid.Int64().Draw(t, "hold")), Debug: rapid.Bool().Draw(t, "debug"),
		Kept: int(rapid.Int32Min(0).Draw(t, "kept")), Seed: event.RunID(anyString.Draw(t, "seed")),
	}
}

// drawEvent draws event number seq with arbitrary fields, in the form that a decoder returns.
func drawEvent(t *rapid.T, seq uint64) event.Event {
	e := event.Event{
		Seq: seq, Type: rapid.SampledFrom(event.Types()).Draw(t, "type"), Time: anyTime.Draw(t, "time"),
		Name: anyString.Draw(t, "name"), Key: anyString.Draw(t, "key"), Payload: anyBytes.Draw(t, "payload"),
		Attempt: int(rapid.Int32Min(0).Draw(t, "attempt")), Wait: event.WaitKind(rapid.Byte().Draw(t, "wait")),
		Outcome: event.Outcome(rapid.Byte().Draw(t, "outcome")), Item: event.ItemID(anyString.Draw(t, "item")),
		Reason: anyString.Draw(t, "reason"), Token: anyString.Draw(t, "token"), Meta: anyBytes.Draw(t, "meta"),
		Next: event.RunID(anyString.Draw(t, "next")), By: anyString.Draw(t, "by"),
	}
	if rapid.Bool().Draw(t, "has due") {
		e.Due = anyTime.Draw(t, "due")
	}
	if rapid.Bool().Draw(t, "has failure") {
		e.Failure = drawFailure(t, 0)
	}
	if rapid.Bool().Draw(t, "has spec") {
		e.Spec = drawSpec(t)
	}
	for i := range rapid.IntRange(0, 2).Draw(t, "unread") {
		e.Unread = append(e.Unread, event.ItemID(strconv.Itoa(i)+anyString.Draw(t, "unread id")))
	}
	switch {
	case e.Type.Entity() == event.EntityRun || e.Type.Entity() == event.EntityNone:
	case e.Type.Creates():
		e.Ref, e.Since = seq, e.Time
	case seq == 1: // the first event cannot refer to an earlier entity
		e.Type = event.RunStarted
	default:
		e.Ref, e.Since = rapid.Uint64Range(1, seq-1).Draw(t, "ref"), anyTime.Draw(t, "since")
	}
	return e
}

func drawFrame(t *rapid.T) *event.Frame {
	f := &event.Frame{Epoch: rapid.Uint64().Draw(t, "epoch"), Time: anyTime.Draw(t, "frame time")}
	copy(f.CommitID[:], anyBytes.Draw(t, "cid"))
	copy(f.Prev[:], anyBytes.Draw(t, "prev"))
	copy(f.Token[:], anyBytes.Draw(t, "token"))
	n := rapid.IntRange(1, 4).Draw(t, "events")
	first := rapid.OneOf(rapid.Uint64Range(1, 300), rapid.Uint64Range(1, math.MaxInt64-4)).Draw(t, "first")
	for i := range n {
		f.Events = append(f.Events, drawEvent(t, first+uint64(i)))
	}
	return f
}

func TestFrame_ComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := drawFrame(t)
		b := encode(t, want)
		got, err := event.DecodeFrame(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("frame changed on its way (-in +out):\n%s", diff)
		}
		if got.First() != want.Events[0].Seq || got.Last() != want.Events[0].Seq+uint64(len(want.Events))-1 {
			t.Fatalf("frame is of events %d to %d", got.First(), got.Last())
		}
		if diff := cmp.Diff(b, encode(t, got)); diff != "" {
			t.Fatalf("equal frames have different bytes:\n%s", diff)
		}
	})
}

func TestItem_ComesBackAsItWas(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sent := drawEvent(t, 5)
		sent.Type = rapid.SampledFrom([]event.Type{
			event.MessageReceived, event.CancelRequested, event.ChildFailed, event.SendCompleted, event.HookReceived, event.AskReceived, event.StreamWritten,
		}).Draw(t, "kind")
		b, err := event.AppendItem(nil, &sent)
		if err != nil {
			t.Fatal(err)
		}
		got, err := event.DecodeItem(b)
		if err != nil {
			t.Fatal(err)
		}
		want := &event.Event{
			Type: sent.Type, Name: sent.Name, Payload: sent.Payload, Reason: sent.Reason, By: sent.By,
		}
		if sent.Type == event.HookReceived {
			want.Token, want.Key, want.Failure = sent.Token, sent.Key, sent.Failure
		}
		if answers[sent.Type] {
			want.Key, want.Failure, want.Next, want.Outcome = sent.Key, sent.Failure, sent.Next, sent.Outcome
		}
		if sent.Type == event.StreamWritten {
			want.Key, want.Attempt = sent.Key, sent.Attempt
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("item changed on its way (-in +out):\n%s", diff)
		}
	})
}
