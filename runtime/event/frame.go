package event

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"slices"
	"time"
)

// WireVersion is the version of the wire format that this release writes. It
// grows only when an older release could not read the result without harm; new
// optional fields do not change it.
const WireVersion = 1

// ErrCorrupt is matched by every error about bytes that are not a frame or were
// damaged.
var ErrCorrupt = errors.New("corrupt frame")

// VersionError says that a frame was written by a newer release.
type VersionError struct {
	Got, Known int
	// Type is that of an event of the frame which this release does not have; 0: it does not have the version of the frame.
	Type int
}

// Error says what this release does not know, and the fix.
func (e *VersionError) Error() string {
	if e.Type != 0 {
		return fmt.Sprintf("it has type %d, which this release does not have: use a newer release of flowgen", e.Type)
	}
	return fmt.Sprintf("frame has wire version %d, this release reads up to %d: use a newer release of flowgen", e.Got, e.Known)
}

// Frame is the unit of a log: the events of one commit.
type Frame struct {
	CommitID CommitID // its random name
	Prev     CommitID // the frame before it; zero for the first
	Epoch    uint64   // of the claim under which it was written; 0 for the first
	Token    Token    // of the same claim
	Time     time.Time
	// Events are dense: the first one continues where the frame before ended.
	Events []Event
}

// First returns the sequence number of the first event.
func (f *Frame) First() uint64 { return f.Events[0].Seq }

// Last returns the sequence number of the last event.
func (f *Frame) Last() uint64 { return f.Events[len(f.Events)-1].Seq }

const (
	frameMagic = 0xF6
	minEvent   = 2             // bytes of an event with its length
	maxSeq     = math.MaxInt64 // stores keep sequence numbers in signed integers
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A frame is: magic, version, CommitID, Prev, Token, then as varints epoch, time,
// first seq and number of events, then each event with its length before it,
// and a CRC-32C of all of that.
//
// Every version begins with its magic and its version and ends with the CRC, so
// that a damaged version byte is not taken for a newer release.
const frameFixed = 2 + 16 + 16 + 8

// AppendFrame appends the wire form of f to b. It fails if f has no events, if
// they are not dense, or if [DecodeFrame] would refuse one of them: a type that
// is not known, a Ref that an event of its type cannot have, a number out of
// range. Times are kept to the millisecond, between the years 1 and 9999; what
// lies beyond becomes the end of that range.
func AppendFrame(b []byte, f *Frame) ([]byte, error) {
	if len(f.Events) == 0 {
		return nil, errors.New("encode frame: no events")
	}
	b = slices.Grow(b, f.guess())
	start := len(b)
	b = append(b, frameMagic, WireVersion)
	b = append(b, f.CommitID[:]...)
	b = append(b, f.Prev[:]...)
	b = append(b, f.Token[:]...)
	base := millis(f.Time)
	b = binary.AppendUvarint(b, f.Epoch)
	b = binary.AppendVarint(b, base)
	b = binary.AppendUvarint(b, f.Events[0].Seq)
	b = binary.AppendUvarint(b, uint64(len(f.Events)))
	for i := range f.Events {
		e := &f.Events[i]
		if want := f.Events[0].Seq + uint64(i); e.Seq != want || e.Seq == 0 || e.Seq > maxSeq {
			return nil, fmt.Errorf("encode frame: event %d has seq %d, want %d", i, e.Seq, want)
		}
		if err := e.check(); err != nil {
			return nil, fmt.Errorf("encode frame: event %d: %w", e.Seq, err)
		}
		at := len(b)
		b = putSize(appendEvent(append(b, 0), e, base), at)
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// guess returns about how many bytes the frame takes.
func (f *Frame) guess() int {
	n := frameFixed + 32
	for i := range f.Events {
		e := &f.Events[i]
		n += 48 + len(e.Name) + len(e.Key) + len(e.Payload) + len(e.By)
	}
	return n
}

// DecodeFrame reads what [AppendFrame] wrote. The events share memory with b,
// which must not change afterwards. Damaged input gives an error that matches
// [ErrCorrupt], a frame of a newer release a [*VersionError].
func DecodeFrame(b []byte) (*Frame, error) {
	body, err := unseal(b, frameMagic, frameFixed+4)
	if err != nil {
		return nil, fmt.Errorf("decode frame of %d bytes: %w", len(b), err)
	}
	f := &Frame{}
	copy(f.CommitID[:], body[2:18])
	copy(f.Prev[:], body[18:34])
	copy(f.Token[:], body[34:42])
	r := reader{b: body[frameFixed:]}
	f.Epoch = r.uvarint()
	base := r.varint()
	first, count := r.uvarint(), r.uvarint()
	if r.bad || base < minMillis || base > maxMillis ||
		first == 0 || first > maxSeq || count == 0 || count > uint64(len(r.b))/minEvent || count > maxSeq-first+1 {
		return nil, fmt.Errorf("decode frame: bad header: %w", ErrCorrupt)
	}
	f.Time = time.UnixMilli(base).UTC()
	f.Events = make([]Event, count)
	for i := range f.Events {
		e := &f.Events[i]
		e.Seq = first + uint64(i)
		if err := decodeEvent(e, r.bytes(), base); err != nil {
			return nil, fmt.Errorf("decode frame: event %d: %w", e.Seq, err)
		}
	}
	if r.bad || len(r.b) != 0 {
		return nil, fmt.Errorf("decode frame: %d bytes too many: %w", len(r.b), ErrCorrupt)
	}
	return f, nil
}

const (
	itemMagic = 0xF7
	itemBase  = 0 // items have no times
)

// sent reports whether events of this type come from other runs or from outside,
// through the inbox.
func (t Type) sent() bool {
	switch t {
	case MessageReceived, CancelRequested, SendCompleted, SendFailed, ChildStarted, ChildCompleted, ChildFailed, ChildCanceled,
		InputReceived, RunPaused, RunResumed, RunReleased, RunStepped, HookReceived, AskReceived, StreamWritten, StreamClosed, ResourceWait:
		return true
	}
	return false
}

// itemFields returns the fields of an event that an item keeps.
func itemFields(e *Event) Event {
	kept := Event{Type: e.Type, Name: e.Name, Payload: e.Payload, Reason: e.Reason, By: e.By}
	switch e.Type.Entity() {
	case EntityNone:
		if e.Type == StreamWritten || e.Type == StreamClosed { // by a step
			kept.Key, kept.Attempt = e.Key, e.Attempt
		}
		if e.Type == ResourceWait {
			kept.Key, kept.Next, kept.Uses, kept.From = e.Key, e.Next, e.Uses, e.From
		}
	case EntityAsk:
	case EntityHook:
		kept.Token, kept.Key, kept.Failure = e.Token, e.Key, e.Failure
	default: // an answer
		kept.Key, kept.Failure, kept.Next, kept.Outcome = e.Key, e.Failure, e.Next, e.Outcome
	}
	return kept
}

// AppendItem appends the wire form of what a sender wants to be recorded in
// somebody's log: the Type, Name, Payload, Reason and By of an event. The rest is
// the business of the log's owner. An answer to something that the receiver has
// sent itself names that by its Key, and may have a Failure, a Next and an Outcome; what is meant
// for a hook names that by its Token, and may have a Key and a Failure; what a step of the receiver's does to a stream
// has the Key and the Attempt of the step; a wait for limits has its Key, Next, Uses and From.
func AppendItem(b []byte, e *Event) ([]byte, error) {
	if !e.Type.sent() {
		return nil, fmt.Errorf("encode item: %s is not sent to runs", e.Type)
	}
	start := len(b)
	b = append(b, itemMagic, WireVersion)
	kept := itemFields(e)
	kept.Time = time.UnixMilli(itemBase)
	b = appendEvent(b, &kept, itemBase)
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b[start:], castagnoli)), nil
}

// DecodeItem reads what [AppendItem] wrote. The payload shares memory with b,
// which must not change afterwards. Damaged input gives an error that
// matches [ErrCorrupt], an item of a newer release a [*VersionError].
func DecodeItem(b []byte) (*Event, error) {
	body, err := unseal(b, itemMagic, 2+1)
	if err != nil {
		return nil, fmt.Errorf("decode item of %d bytes: %w", len(b), err)
	}
	e := &Event{}
	if err := decodeFields(e, body[2:], itemBase); err != nil {
		return nil, fmt.Errorf("decode item: %w", err)
	}
	if !e.Type.sent() {
		return nil, fmt.Errorf("decode item: %s is not sent to runs: %w", e.Type, ErrCorrupt)
	}
	kept := itemFields(e)
	return &kept, nil
}

// unseal checks what frames and items have in common (the magic, the version
// and the CRC) and returns b without the CRC. It is at least minBody long.
func unseal(b []byte, magic byte, minBody int) ([]byte, error) {
	if len(b) < minBody+4 || b[0] != magic {
		return nil, fmt.Errorf("it does not begin as one: %w", ErrCorrupt)
	}
	body, sum := b[:len(b)-4], binary.LittleEndian.Uint32(b[len(b)-4:])
	if crc32.Checksum(body, castagnoli) != sum {
		return nil, fmt.Errorf("its checksum differs: %w", ErrCorrupt)
	}
	switch v := int(b[1]); {
	case v == 0:
		return nil, fmt.Errorf("it has wire version 0: %w", ErrCorrupt)
	case v > WireVersion:
		return nil, &VersionError{Got: v, Known: WireVersion}
	}
	return body, nil
}
