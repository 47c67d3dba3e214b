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

// WireVersion is the version of the wire format that this release writes. It increases only if an
// older release could not read the new format safely. New optional fields do not change it.
const WireVersion = 1

// SealedVersion is the version of frames and items with user data that a codec has sealed. A release
// without codecs, which would decode sealed data as JSON, refuses them.
const SealedVersion = 2

// ErrCorrupt matches all errors for bytes that are damaged or are not a frame or item.
var ErrCorrupt = errors.New("corrupt frame")

// VersionError reports that a frame was written by a newer release.
type VersionError struct {
	Got, Known int
	// Type is the unknown type of an event in the frame. It is 0 if the version of the frame is
	// unknown.
	Type int
}

// Error returns a text that contains the unknown version or type, and the fix.
func (e *VersionError) Error() string {
	if e.Type != 0 {
		return fmt.Sprintf("it has type %d, which this release does not have: use a newer release of flowgen", e.Type)
	}
	return fmt.Sprintf("frame has wire version %d, this release reads up to %d: use a newer release of flowgen", e.Got, e.Known)
}

// Frame is the unit of a log: the events of one commit.
type Frame struct {
	CommitID CommitID // random name of the frame
	Prev     CommitID // name of the previous frame; zero for the first
	Epoch    uint64   // epoch of the claim under which the frame was written; 0 for the first
	Token    Token    // token of that claim
	Time     time.Time
	// Events have consecutive sequence numbers that continue those of the previous frame.
	Events []Event
}

// First returns the sequence number of the first event.
func (f *Frame) First() uint64 { return f.Events[0].Seq }

// Last returns the sequence number of the last event.
func (f *Frame) Last() uint64 { return f.Events[len(f.Events)-1].Seq }

const (
	frameMagic = 0xF6
	minEvent   = 2             // size of the smallest event, including its length
	maxSeq     = math.MaxInt64 // stores keep sequence numbers in signed integers
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// A frame consists of the magic, version, CommitID, Prev and Token, then as varints the epoch, the
// time, the first sequence number and the number of events. Each event follows, preceded by its
// length. The frame ends with a CRC-32C of all preceding bytes.
//
// Every version of the format begins with the magic and the version and ends with the CRC.
// Therefore a damaged version byte is not mistaken for a newer release.
const frameFixed = 2 + 16 + 16 + 8

// AppendFrame appends the wire form of f to b. It fails if f has no events, if their numbers are
// not consecutive, or if [DecodeFrame] would refuse an event: an unknown type, a Ref that is not
// valid for the type, or a number out of range. Times are truncated to milliseconds and clamped to
// the years 1 to 9999.
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

// check returns an error for an event that decodeEvent would refuse, so that every written event
// can be decoded.
func (e *Event) check() error {
	if !e.Type.Known() {
		return fmt.Errorf("unknown type %d", uint8(e.Type))
	}
	if e.Attempt < 0 || e.Attempt > maxSmall {
		return fmt.Errorf("%s has attempt %d, want 0 to %d", e.Type, e.Attempt, maxSmall)
	}
	if e.Spec != nil && (e.Spec.Depth < 0 || e.Spec.Depth > maxSmall) {
		return fmt.Errorf("%s has depth %d, want 0 to %d", e.Type, e.Spec.Depth, maxSmall)
	}
	entity := e.Type.Entity()
	switch {
	case e.Type.Creates():
		if e.Ref != 0 && e.Ref != e.Seq {
			return fmt.Errorf("%s creates its entity, but refers to event %d", e.Type, e.Ref)
		}
	case entity == EntityRun || entity == EntityNone:
		if e.Ref != 0 {
			return fmt.Errorf("%s is about no entity of the log, but refers to event %d", e.Type, e.Ref)
		}
	case e.Ref == 0 || e.Ref >= e.Seq:
		return fmt.Errorf("%s refers to event %d, want the one that created its %s", e.Type, e.Ref, entity)
	}
	return nil
}

// guess returns the approximate number of bytes of the frame.
func (f *Frame) guess() int {
	n := frameFixed + 32
	for i := range f.Events {
		e := &f.Events[i]
		n += 48 + len(e.Name) + len(e.Key) + len(e.Payload) + len(e.By)
	}
	return n
}

// DecodeFrame decodes the output of [AppendFrame]. The events share memory with b, which must not
// change afterwards. For damaged input, the error matches [ErrCorrupt]. For a frame of a newer
// release, the error is a [*VersionError].
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
	itemBase  = 0 // base of times in items, which have no times
)

// sent reports whether events of this type arrive through the inbox, from other runs or from
// clients.
func (t Type) sent() bool {
	switch t {
	case MessageReceived, CancelRequested, SendCompleted, SendFailed, ChildStarted, ChildCompleted, ChildFailed, ChildCanceled,
		InputReceived, RunPaused, RunResumed, RunReleased, RunStepped, HookReceived, AskReceived, StreamWritten, StreamClosed, ResourceWait:
		return true
	}
	return false
}

// itemFields returns a copy of e with only the fields that an item contains.
func itemFields(e *Event) Event {
	kept := Event{Type: e.Type, Name: e.Name, Payload: e.Payload, Reason: e.Reason, By: e.By, Attributes: e.Attributes}
	switch e.Type.Entity() {
	case EntityNone:
		if e.Type == StreamWritten || e.Type == StreamClosed { // sent by a step
			kept.Key, kept.Attempt = e.Key, e.Attempt
		}
		if e.Type == ResourceWait {
			kept.Key, kept.Next, kept.Uses, kept.From = e.Key, e.Next, e.Uses, e.From
		}
	case EntityAsk:
	case EntityHook:
		kept.Token, kept.Key, kept.Failure = e.Token, e.Key, e.Failure
	default: // a reply to something that the receiver has sent
		kept.Key, kept.Failure, kept.Next, kept.Outcome = e.Key, e.Failure, e.Next, e.Outcome
	}
	return kept
}

// AppendItem appends the wire form of an event that a sender wants recorded in the log of a run. An
// item contains the Type, Name, Payload, Reason, By and Attributes of the event. The owner of the log sets the
// other fields. A reply to something that the receiver has sent also has the Key of the receiver's
// operation, and may have a Failure, a Next and an Outcome. An item for a hook has the Token of the
// hook, and may have a Key and a Failure. A stream operation of a step of the receiver has the Key
// and the Attempt of the step. A wait for limits has a Key, Next, Uses and From.
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

// DecodeItem decodes the output of [AppendItem]. The payload shares memory with b, which must not
// change afterwards. For damaged input, the error matches [ErrCorrupt]. For an item of a newer
// release, the error is a [*VersionError].
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

// unseal returns b without its checksum. It returns an error if the magic, the version or the
// checksum is wrong, or if the result has less than minBody bytes.
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
	case v > SealedVersion:
		return nil, &VersionError{Got: v, Known: SealedVersion}
	}
	return body, nil
}
