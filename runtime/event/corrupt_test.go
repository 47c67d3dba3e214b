package event_test

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
)

func decodeAny(b []byte) error {
	if _, err := event.DecodeFrame(b); err == nil {
		return nil
	}
	_, err := event.DecodeItem(b)
	return err
}

func TestDecode_FindsDamageAtEveryByte(t *testing.T) {
	records := map[string][]byte{
		"frame": readGolden(t, "log_completed")[1],
		"long":  readGolden(t, "event_everything")[0],
		"item":  readGolden(t, "item_message")[0],
	}
	for name, record := range records {
		for i := range record {
			for _, flip := range []byte{0x01, 0x80, 0xFF} {
				damaged := slices.Clone(record)
				damaged[i] ^= flip
				if err := decodeAny(damaged); !errors.Is(err, event.ErrCorrupt) {
					t.Errorf("%s with byte %d turned to %#x: %v, want ErrCorrupt", name, i, damaged[i], err)
				}
			}
		}
	}
}

func TestDecode_FindsEveryCut(t *testing.T) {
	decoders := map[string]func([]byte) error{
		"event_everything": func(b []byte) error { _, err := event.DecodeFrame(b); return err },
		"item_message":     func(b []byte) error { _, err := event.DecodeItem(b); return err },
	}
	for name, decode := range decoders {
		record := readGolden(t, name)[0]
		for n := range record {
			if err := decode(record[:n]); !errors.Is(err, event.ErrCorrupt) {
				t.Errorf("the first %d bytes of %s: %v, want ErrCorrupt", n, name, err)
			}
			if n < 4 {
				continue
			}
			// The checksum of this shortened record is correct. If an item is cut at the end of a
			// field, the result is a valid record.
			err := decode(seal(slices.Clone(record[:n])))
			if err != nil && !errors.Is(err, event.ErrCorrupt) {
				t.Errorf("the first %d bytes of %s, sealed: %v, want ErrCorrupt", n, name, err)
			}
			if err == nil && name != "item_message" {
				t.Errorf("the first %d bytes of %s, sealed, read as a frame", n, name)
			}
		}
		if err := decode(append(slices.Clone(record), 0)); !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("%s with a byte more: %v, want ErrCorrupt", name, err)
		}
		if err := decode(nil); !errors.Is(err, event.ErrCorrupt) {
			t.Errorf("nothing: %v, want ErrCorrupt", err)
		}
	}
}

func TestFrame_HoldsTheEndOfARunTogetherWithItsCause(t *testing.T) {
	whole := encode(t, &event.Frame{Time: start, Events: []event.Event{
		{Seq: 5, Type: event.StepCompleted, Ref: 3, Since: start},
		{Seq: 6, Type: event.RunCompleted},
	}})
	got := decode(t, whole)
	if len(got.Events) != 2 || got.Events[0].Type != event.StepCompleted || got.Events[1].Type != event.RunCompleted {
		t.Fatalf("frame reads as %+v", got.Events)
	}
	for n := range whole {
		for _, part := range [][]byte{whole[:n], whole[n+1:], seal(append(slices.Clone(whole[:n]), 0, 0, 0, 0))} {
			if f, err := event.DecodeFrame(part); err == nil && len(f.Events) != 2 {
				t.Errorf("a part of the frame reads as %+v: one event without the other", f.Events)
			}
		}
	}
}

func TestDecodeFrame_RefusesWhatNoEncoderWrites(t *testing.T) {
	created := rawEvent(event.RunCreated)
	started := func(fields ...[]byte) []byte { return rawEvent(event.StepStarted, append(fields, rawInt(2, 1))...) }
	version0 := rawFrame(1, 1, created)
	version0[1] = 0
	baseTooLate := rawFrame(1, 1, created)
	baseTooLate = append(baseTooLate[:43:43], append([]byte{0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1}, baseTooLate[49:]...)...)
	tests := map[string][]byte{
		"an item":                   rawItem(rawEvent(event.MessageReceived)),
		"version 0":                 seal(version0),
		"no events":                 rawFrame(1, 0),
		"fewer events than said":    rawFrame(1, 2, created),
		"more events than said":     rawFrame(1, 1, created, created),
		"a huge count":              rawFrame(1, math.MaxUint64, created),
		"a count that fits in int":  rawFrame(1, math.MaxInt64, created),
		"a count of all bytes":      rawFrame(1, 3, created),
		"number 0":                  rawFrame(0, 1, created),
		"number out of range":       rawFrame(math.MaxInt64+1, 1, created),
		"numbers beyond the range":  rawFrame(math.MaxInt64, 2, created, created),
		"numbers that wrap":         rawFrame(math.MaxUint64, 2, created, created),
		"time of frame too late":    seal(baseTooLate),
		"an empty event":            rawFrame(1, 1, nil),
		"type 0":                    rawFrame(1, 1, rawEvent(0)),
		"a tag without value":       rawFrame(1, 1, rawEvent(event.RunCreated, []byte{4<<1 | 1})),
		"a length beyond the event": rawFrame(1, 1, rawEvent(event.RunCreated, []byte{4<<1 | 1, 2, 'x'})),
		"a length that wraps":       rawFrame(1, 1, rawEvent(event.RunCreated, []byte{4<<1 | 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})),
		"a number over 64 bits":     rawFrame(1, 1, rawEvent(event.RunCreated, []byte{8 << 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})),
		"a tag over 64 bits":        rawFrame(1, 1, rawEvent(event.RunCreated, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1, 0})),
		"an event that overlaps":    seal(append(rawFrame(1, 1)[:51:51], 200, 1, 0, 0, 0, 0)),
		"a negative attempt":        rawFrame(2, 1, started(rawInt(8, -1))),
		"attempt of 2^32+1":         rawFrame(2, 1, started(rawInt(8, 1<<32+1))),
		"wait 257":                  rawFrame(1, 1, rawEvent(event.WaitCreated, rawInt(10, 257))),
		"outcome -1":                rawFrame(2, 1, rawEvent(event.WaitCompleted, rawInt(2, 1), rawInt(11, -1))),
		"a time too late":           rawFrame(1, 1, rawEvent(event.RunCreated, rawInt(1, math.MaxInt64))),
		"a time too early":          rawFrame(1, 1, rawEvent(event.RunCreated, rawInt(1, math.MinInt64))),
		"a time that is zero":       rawFrame(1, 1, rawEvent(event.RunCreated, rawInt(1, -62_135_596_800_000-start.UnixMilli()))),
		"a due time too late":       rawFrame(1, 1, rawEvent(event.WaitCreated, rawInt(9, 253_402_300_800_002-start.UnixMilli()))),
		"a creation time too late":  rawFrame(2, 1, started(rawInt(3, math.MaxInt64))),
		"no reference":              rawFrame(2, 1, rawEvent(event.StepStarted)),
		"a reference to self":       rawFrame(2, 1, rawEvent(event.StepStarted, rawInt(2, 0))),
		"a reference forward":       rawFrame(2, 1, rawEvent(event.StepStarted, rawInt(2, -1))),
		"a reference before 1":      rawFrame(2, 1, rawEvent(event.StepStarted, rawInt(2, 3))),
		"a reference to 0":          rawFrame(2, 1, rawEvent(event.StepStarted, rawInt(2, 2))),
		"a reference that wraps":    rawFrame(2, 1, rawEvent(event.StepStarted, rawInt(2, math.MinInt64))),
		"creation with a reference": rawFrame(2, 1, rawEvent(event.StepCreated, rawInt(2, 1))),
		"a run with a reference":    rawFrame(2, 1, rawEvent(event.RunStarted, rawInt(2, 1))),
		"a fact with a reference":   rawFrame(2, 1, rawEvent(event.MessageReceived, rawInt(2, 1))),
		"a fact with a creation":    rawFrame(2, 1, rawEvent(event.MessageReceived, rawInt(3, 1))),
		"a broken failure":          rawFrame(1, 1, rawEvent(event.RunFailed, rawBytes(7, "\x03\x05x"))),
		"a broken cause":            rawFrame(1, 1, rawEvent(event.RunFailed, rawBytes(7, string(rawBytes(6, "\x03\x05x"))))),
		"a broken spec":             rawFrame(1, 1, rawEvent(event.RunCreated, rawBytes(17, "\x03\x05x"))),
		"a broken tag":              rawFrame(1, 1, rawEvent(event.RunCreated, rawBytes(17, string(rawBytes(4, "\x03\x05x"))))),
		"a negative depth":          rawFrame(1, 1, rawEvent(event.RunCreated, rawBytes(17, string(rawInt(10, -1))))),
	}
	for name, b := range tests {
		t.Run(name, func(t *testing.T) {
			f, err := event.DecodeFrame(b)
			if !errors.Is(err, event.ErrCorrupt) {
				t.Fatalf("decoded to %+v, %v; want ErrCorrupt", f, err)
			}
			if strings.Contains(err.Error(), "checksum") {
				t.Fatalf("the test's own frame is not sealed: %v", err)
			}
			if f != nil {
				t.Errorf("an error came with a frame: %+v", f)
			}
		})
	}
}

func TestDecodeFrame_ReadsTheLastOfEachRange(t *testing.T) {
	tests := map[string][]byte{
		"number":  rawFrame(math.MaxInt64, 1, rawEvent(event.RunStarted)),
		"attempt": rawFrame(2, 1, rawEvent(event.StepStarted, rawInt(2, 1), rawInt(8, math.MaxInt32))),
		"wait":    rawFrame(1, 1, rawEvent(event.WaitCreated, rawInt(10, 255))),
		"due":     rawFrame(1, 1, rawEvent(event.WaitCreated, rawInt(9, 253_402_300_800_000-start.UnixMilli()))),
		"early":   rawFrame(1, 1, rawEvent(event.WaitCreated, rawInt(9, -62_135_596_799_999-start.UnixMilli()))),
		"causes":  rawFrame(1, 1, rawEvent(event.RunFailed, rawBytes(7, nested(64)))),
	}
	for name, b := range tests {
		f, err := event.DecodeFrame(b)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := decode(t, encode(t, f)); got.Last() != f.Last() {
			t.Errorf("%s: number %d became %d", name, f.Last(), got.Last())
		}
	}
}

// nested returns a failure with a chain of n causes.
func nested(n int) string {
	body := ""
	for range n {
		body = string(rawBytes(6, body))
	}
	return body
}

func TestDecodeFrame_RefusesDeepNesting(t *testing.T) {
	for _, n := range []int{129, 1000, 20_000} {
		_, err := event.DecodeFrame(rawFrame(1, 1, rawEvent(event.RunFailed, rawBytes(7, nested(n)))))
		if !errors.Is(err, event.ErrCorrupt) || !strings.Contains(fmt.Sprint(err), "nested") {
			t.Errorf("%d causes deep: %v, want ErrCorrupt that says so", n, err)
		}
	}
}

// TestDecodeFrame_SaysThatATypeIsOfANewerRelease proves that a type which this release does not
// have is not reported as damage if the checksum of its frame is correct. If it were, an operator
// would restore a backup and lose newer data.
func TestDecodeFrame_SaysThatATypeIsOfANewerRelease(t *testing.T) {
	f, err := event.DecodeFrame(rawFrame(1, 2, rawEvent(event.RunStarted), rawEvent(250)))
	newer, ok := errors.AsType[*event.VersionError](err)
	if !ok || newer.Type != 250 || errors.Is(err, event.ErrCorrupt) || f != nil || !strings.Contains(err.Error(), "use a newer release") {
		t.Errorf("got %+v, %v", f, err)
	}
}
