package event_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"hash/crc32"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/flowgen/flowgen/runtime/event"
)

func encode(t rapid.TB, f *event.Frame) []byte {
	t.Helper()
	b, err := event.AppendFrame(nil, f)
	if err != nil {
		t.Fatalf("encode: %v", err)
	}
	return b
}

// seal replaces the last four bytes of b with the checksum of the preceding bytes.
func seal(b []byte) []byte {
	n := len(b) - 4
	return binary.LittleEndian.AppendUint32(b[:n:n], crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli)))
}

// The functions below implement the format a second time, from its description. With them the tests
// produce records that the encoder never produces.

func rawFrame(first, count uint64, events ...[]byte) []byte {
	b := append([]byte{0xF6, 1}, make([]byte, 40)...)
	b = binary.AppendUvarint(b, 1)
	b = binary.AppendVarint(b, start.UnixMilli())
	b = binary.AppendUvarint(b, first)
	b = binary.AppendUvarint(b, count)
	for _, e := range events {
		b = append(binary.AppendUvarint(b, uint64(len(e))), e...)
	}
	return seal(append(b, 0, 0, 0, 0))
}

func rawItem(e []byte) []byte {
	return seal(append(append([]byte{0xF7, 1}, e...), 0, 0, 0, 0))
}

func rawEvent(t event.Type, fields ...[]byte) []byte {
	b := []byte{byte(t)}
	for _, f := range fields {
		b = append(b, f...)
	}
	return b
}

func rawInt(field uint64, v int64) []byte {
	return binary.AppendVarint(binary.AppendUvarint(nil, field<<1), v)
}

func rawBytes(field uint64, v string) []byte {
	b := binary.AppendUvarint(nil, field<<1|1)
	return append(binary.AppendUvarint(b, uint64(len(v))), v...)
}

func TestAppendFrame_AppendsToWhatIsThere(t *testing.T) {
	f := framed(exampleLogs()["completed"], 3)[1]
	got, err := event.AppendFrame([]byte("before"), f)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(append([]byte("before"), encode(t, f)...), got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeFrame_PassesOverUnknownFields(t *testing.T) {
	known := rawEvent(event.StepStarted, rawInt(2, 1), rawInt(3, 1), rawInt(8, 2), rawBytes(16, "w"))
	extended := rawEvent(event.StepStarted, rawBytes(30, "new"), rawInt(2, 1), rawInt(99, -5), rawInt(3, 1),
		rawInt(8, 2), rawBytes(math.MaxInt64, ""), rawBytes(16, "w"), rawInt(1<<33+9, 7))
	want := decode(t, rawFrame(2, 1, known))
	if diff := cmp.Diff(want, decode(t, rawFrame(2, 1, extended))); diff != "" {
		t.Errorf("unknown fields change the event (-without +with):\n%s", diff)
	}
	if e := want.Events[0]; e.Attempt != 2 || e.By != "w" || e.Ref != 1 {
		t.Errorf("event reads as %+v", e)
	}
}

func TestDecodeFrame_PassesOverUnknownFieldsOfPartsToo(t *testing.T) {
	failure := rawBytes(7, string(rawBytes(1, "oops"))+string(rawInt(40, 1))+string(rawBytes(41, "x")))
	spec := rawBytes(17, string(rawBytes(1, "orders.fulfil"))+string(rawBytes(50, "x"))+string(rawInt(10, 2))+
		string(rawBytes(4, string(rawBytes(1, "k"))+string(rawBytes(2, "v"))+string(rawInt(3, 1)))))
	got := decode(t, rawFrame(1, 1, rawEvent(event.RunCreated, failure, spec))).Events[0]
	want := event.Event{
		Seq: 1, Type: event.RunCreated, Time: start, Failure: &event.Failure{Message: "oops"},
		Spec: &event.Spec{Workflow: "orders.fulfil", Depth: 2, Tags: map[string]string{"k": "v"}},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDecodeFrame_TakesEmptyFieldsForAbsent(t *testing.T) {
	b := rawFrame(1, 1, rawEvent(event.RunCompleted, rawBytes(4, ""), rawBytes(6, ""), rawBytes(18, "")))
	want := event.Event{Seq: 1, Type: event.RunCompleted, Time: start}
	if diff := cmp.Diff(want, decode(t, b).Events[0]); diff != "" {
		t.Error(diff)
	}
}

func decode(t *testing.T, b []byte) *event.Frame {
	t.Helper()
	f, err := event.DecodeFrame(b)
	if err != nil {
		t.Fatalf("decode: %v", err)
	}
	return f
}

func TestDecodeFrame_SharesNoRoomBehindThePayload(t *testing.T) {
	f := &event.Frame{Time: start, Events: []event.Event{
		{Seq: 1, Type: event.RunCompleted, Payload: json.RawMessage(`1`)},
		{Seq: 2, Type: event.RunCompleted, Payload: json.RawMessage(`2`)},
	}}
	b := encode(t, f)
	got := decode(t, b)
	_ = append(got.Events[0].Payload, "overwrites"...)
	if diff := cmp.Diff(encode(t, f), b); diff != "" {
		t.Errorf("appending to a payload changed the frame:\n%s", diff)
	}
}

func TestAppendFrame_KeepsTimesToTheMillisecond(t *testing.T) {
	zone := time.FixedZone("east", 5*3600)
	due := at(time.Hour).Add(999_999).In(zone)
	f := &event.Frame{Time: start.Add(1).In(zone), Events: []event.Event{
		{Seq: 9, Type: event.WaitCreated, Due: due},
		{Seq: 10, Type: event.WaitCreated, Time: at(-time.Millisecond).In(zone), Due: at(-time.Millisecond)},
		{Seq: 11, Type: event.WaitCreated, Time: at(time.Millisecond), Due: start},
	}}
	got := decode(t, encode(t, f))
	want := &event.Frame{Time: start, Events: []event.Event{
		{Seq: 9, Type: event.WaitCreated, Time: start, Ref: 9, Since: start, Due: at(time.Hour)},
		{Seq: 10, Type: event.WaitCreated, Time: at(-time.Millisecond), Ref: 10, Since: at(-time.Millisecond), Due: at(-time.Millisecond)},
		{Seq: 11, Type: event.WaitCreated, Time: at(time.Millisecond), Ref: 11, Since: at(time.Millisecond), Due: start},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, e := range got.Events {
		if e.Time.Location() != time.UTC || e.Due.Location() != time.UTC {
			t.Errorf("event %d has times in %v and %v, want UTC", e.Seq, e.Time.Location(), e.Due.Location())
		}
	}
}

func TestAppendFrame_KeepsTimesBeyondTheFormatAtItsEnds(t *testing.T) {
	first := time.Date(1, 1, 1, 0, 0, 0, 1e6, time.UTC)
	last := time.Date(9999, 12, 31, 23, 59, 59, 999e6, time.UTC)
	tests := map[string]struct{ frame, due, want time.Time }{
		"for ever":              {start, time.Unix(math.MaxInt64, 0), last},
		"292 million years":     {start, time.UnixMilli(math.MaxInt64), last},
		"year 10000":            {start, last.Add(time.Millisecond), last},
		"last":                  {start, last, last},
		"before the year 1":     {start, time.Unix(math.MinInt64/2, 0), first},
		"first":                 {start, first, first},
		"second of zero":        {start, time.Time{}.Add(1), first},
		"1970":                  {start, time.Unix(0, 0), time.Unix(0, 0)},
		"zero frame":            {time.Time{}, last, last},
		"frame at the end":      {last.AddDate(3, 0, 0), start, start},
		"frame before the year": {time.Unix(math.MinInt64/2, 0), first, first},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &event.Frame{Time: tt.frame, Events: []event.Event{{Seq: 1, Type: event.WaitCreated, Due: tt.due}}}
			if got := decode(t, encode(t, f)).Events[0].Due; !got.Equal(tt.want) {
				t.Errorf("due %v became %v, want %v", tt.due, got, tt.want)
			}
		})
	}
}

func TestAppendFrame_CutsCausesThatAreTooDeep(t *testing.T) {
	root := &event.Failure{Message: "0"}
	for f, i := root, 1; i < 200; i++ {
		f.Causes = []*event.Failure{nil, {Message: "deeper"}}
		f = f.Causes[1]
	}
	got := decode(t, encode(t, &event.Frame{Time: start, Events: []event.Event{{Seq: 1, Type: event.RunFailed, Failure: root}}}))
	depth := 0
	for f := got.Events[0].Failure; len(f.Causes) > 0; f = f.Causes[0] {
		if len(f.Causes) != 1 {
			t.Fatalf("failure has %d causes at depth %d, want 1: a nil cause says nothing", len(f.Causes), depth)
		}
		depth++
	}
	if depth != 128 {
		t.Errorf("causes are kept to depth %d, want 128", depth)
	}
}

func TestAppendFrame_RefusesWhatCouldNotBeReadBack(t *testing.T) {
	one := func(e event.Event) []event.Event { return []event.Event{e} }
	tests := map[string][]event.Event{
		"no events":            nil,
		"number 0":             one(event.Event{Seq: 0, Type: event.RunStarted}),
		"a gap":                {{Seq: 4, Type: event.RunStarted}, {Seq: 6, Type: event.RunStarted}},
		"a repeated number":    {{Seq: 4, Type: event.RunStarted}, {Seq: 4, Type: event.RunStarted}},
		"number out of range":  one(event.Event{Seq: math.MaxInt64 + 1, Type: event.RunStarted}),
		"numbers that wrap":    {{Seq: math.MaxUint64, Type: event.RunStarted}, {Seq: 0, Type: event.RunStarted}},
		"no type":              one(event.Event{Seq: 1}),
		"an unknown type":      one(event.Event{Seq: 1, Type: 200}),
		"a negative attempt":   one(event.Event{Seq: 2, Type: event.StepStarted, Ref: 1, Attempt: -1}),
		"a huge attempt":       one(event.Event{Seq: 2, Type: event.StepStarted, Ref: 1, Attempt: math.MaxInt32 + 1}),
		"a negative depth":     one(event.Event{Seq: 1, Type: event.RunCreated, Spec: &event.Spec{Depth: -1}}),
		"no reference":         one(event.Event{Seq: 2, Type: event.StepStarted}),
		"a reference to self":  one(event.Event{Seq: 2, Type: event.StepStarted, Ref: 2}),
		"a later reference":    one(event.Event{Seq: 2, Type: event.WaitCompleted, Ref: 3}),
		"creation of another":  one(event.Event{Seq: 2, Type: event.HookCreated, Ref: 1}),
		"a run's reference":    one(event.Event{Seq: 2, Type: event.RunStarted, Ref: 1}),
		"a fact's reference":   one(event.Event{Seq: 2, Type: event.MessageReceived, Ref: 2}),
		"a second bad event":   {{Seq: 1, Type: event.RunCreated}, {Seq: 2, Type: event.StepFailed}},
		"a later unknown type": {{Seq: 1, Type: event.RunCreated}, {Seq: 2, Type: 99}},
	}
	for name, events := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := event.AppendFrame(nil, &event.Frame{Time: start, Events: events})
			if err == nil || b != nil {
				t.Fatalf("encoded to %x, %v; want an error", b, err)
			}
			if !strings.HasPrefix(err.Error(), "encode frame: ") {
				t.Errorf("error %q does not say what failed", err)
			}
		})
	}
}

// answers contains the types of items by which a receiver of a request replies.
var answers = map[event.Type]bool{
	event.SendCompleted: true, event.SendFailed: true,
	event.ChildStarted: true, event.ChildCompleted: true, event.ChildFailed: true, event.ChildCanceled: true,
	event.RunPaused: true, event.RunResumed: true, event.RunReleased: true, event.InputReceived: true, event.RunStepped: true, event.ResourceWait: true,
}

func TestAppendItem_RefusesWhatIsNotSent(t *testing.T) {
	for _, typ := range event.Types() {
		_, err := event.AppendItem(nil, &event.Event{Type: typ})
		sent := typ == event.MessageReceived || typ == event.CancelRequested || typ == event.HookReceived || typ == event.AskReceived ||
			typ == event.StreamWritten || typ == event.StreamClosed || answers[typ]
		if (err == nil) != sent {
			t.Errorf("%s: %v, want an error: %t", typ, err, !sent)
		}
		if _, err := event.DecodeItem(rawItem(rawEvent(typ))); (err == nil) != sent {
			t.Errorf("decode %s: %v, want an error: %t", typ, err, !sent)
		} else if err != nil && !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("decode %s: %v, want ErrCorrupt", typ, err)
		}
	}
}

func TestDecodeItem_LeavesOutWhatIsTheOwnersBusiness(t *testing.T) {
	b := rawItem(rawEvent(event.MessageReceived, rawInt(1, 5), rawBytes(4, "topic"), rawBytes(5, "key"), rawInt(8, 3),
		rawBytes(11+1, "item"), rawBytes(6, `1`), rawInt(77, 1)))
	got, err := event.DecodeItem(b)
	if err != nil {
		t.Fatal(err)
	}
	want := &event.Event{Type: event.MessageReceived, Name: "topic", Payload: json.RawMessage(`1`)}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
