package event

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"time"
)

// The encoding of an event is its type, followed by fields. Each field is a tag (number << 1 |
// kind) and a value. A value of kind 0 is a varint. A value of kind 1 is bytes, preceded by their
// length. Zero fields are omitted. The reader skips unknown fields, so a release may add fields
// that older releases do not need. Times are in milliseconds relative to the time of the frame, and
// Ref is relative to Seq.
const (
	fieldTime    = 1
	fieldRef     = 2
	fieldSince   = 3
	fieldName    = 4
	fieldKey     = 5
	fieldPayload = 6
	fieldFailure = 7
	fieldAttempt = 8
	fieldDue     = 9
	fieldWait    = 10
	fieldOutcome = 11
	fieldItem    = 12
	fieldReason  = 13
	fieldToken   = 14
	fieldNext    = 15
	fieldBy      = 16
	fieldSpec    = 17
	fieldUnread  = 18
	fieldClose   = 19
	fieldAck     = 20
	fieldActive  = 21
	fieldFinish  = 22
	fieldBuild   = 23
	fieldUses    = 24
	fieldFrom    = 25
	fieldMeta    = 26
	fieldAttrs   = 27
)

const (
	kindVarint = 0
	kindBytes  = 1
)

// maxNesting is the maximum length of the chain of causes in a stored failure.
const maxNesting = 128

// The limits of times, in milliseconds since 1970: the zero time and the end of the year 9999.
const (
	minMillis = -62_135_596_800_000
	maxMillis = 253_402_300_799_999
)

// millis returns t in milliseconds since 1970, clamped to the limits. For times in the far future,
// [time.Time.UnixMilli] would overflow and return times in the past.
func millis(t time.Time) int64 {
	switch s := t.Unix(); {
	case t.IsZero():
		return minMillis
	case s < minMillis/1000:
		return minMillis + 1 // minMillis is reserved for the zero time
	case s > maxMillis/1000:
		return maxMillis
	}
	return max(t.UnixMilli(), minMillis+1)
}

func appendInt(b []byte, field int, v int64) []byte {
	if v == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(field)<<1|kindVarint)
	return binary.AppendVarint(b, v)
}

func appendBytes[T ~string | ~[]byte](b []byte, field int, v T) []byte {
	if len(v) == 0 {
		return b
	}
	b = binary.AppendUvarint(b, uint64(field)<<1|kindBytes)
	b = binary.AppendUvarint(b, uint64(len(v)))
	return append(b, v...)
}

// appendSized appends the output of write, preceded by its length.
func appendSized(b []byte, write func([]byte) []byte) []byte {
	start := len(b)
	return putSize(write(append(b, 0)), start)
}

// putSize writes the length of the bytes after index start of b into the byte at start. It inserts
// more bytes if the length needs them. Most bodies are shorter than 128 bytes, whose length needs
// one byte.
func putSize(b []byte, start int) []byte {
	size := len(b) - start - 1
	if size < 0x80 {
		b[start] = byte(size)
		return b
	}
	var head [binary.MaxVarintLen64]byte
	n := binary.PutUvarint(head[:], uint64(size))
	return slices.Replace(b, start, start+1, head[:n]...)
}

func appendNested(b []byte, field int, write func([]byte) []byte) []byte {
	b = binary.AppendUvarint(b, uint64(field)<<1|kindBytes)
	return appendSized(b, write)
}

// appendTime appends t relative to base. It adds one to nonnegative values, because the value 0
// means that the field is absent.
func appendTime(b []byte, field int, t time.Time, base int64) []byte {
	if t.IsZero() {
		return b
	}
	d := millis(t) - base
	if d >= 0 {
		d++
	}
	return appendInt(b, field, d)
}

func appendEvent(b []byte, e *Event, base int64) []byte {
	b = append(b, byte(e.Type))
	if millis(e.Time) != base { // an event without this field has the time of the frame
		b = appendTime(b, fieldTime, e.Time, base)
	}
	if e.Ref != 0 && e.Ref != e.Seq {
		b = appendInt(b, fieldRef, int64(e.Seq-e.Ref))
		b = appendTime(b, fieldSince, e.Since, base)
	}
	b = appendBytes(b, fieldName, e.Name)
	b = appendBytes(b, fieldKey, e.Key)
	b = appendBytes(b, fieldPayload, e.Payload)
	if e.Failure != nil {
		b = appendNested(b, fieldFailure, func(b []byte) []byte { return appendFailure(b, e.Failure, 0) })
	}
	b = appendInt(b, fieldAttempt, int64(e.Attempt))
	b = appendTime(b, fieldDue, e.Due, base)
	b = appendInt(b, fieldWait, int64(e.Wait))
	b = appendInt(b, fieldOutcome, int64(e.Outcome))
	b = appendBytes(b, fieldItem, e.Item)
	b = appendBytes(b, fieldReason, e.Reason)
	b = appendBytes(b, fieldToken, e.Token)
	b = appendBytes(b, fieldMeta, e.Meta)
	b = appendBytes(b, fieldNext, e.Next)
	b = appendBytes(b, fieldBy, e.By)
	if e.Spec != nil {
		b = appendNested(b, fieldSpec, func(b []byte) []byte { return appendSpec(b, e.Spec) })
	}
	b = appendInt(b, fieldClose, int64(e.Close))
	if e.Ack {
		b = appendInt(b, fieldAck, 1)
	}
	b = appendInt(b, fieldActive, int64(e.Active))
	b = appendInt(b, fieldFinish, int64(e.Finished))
	b = appendBytes(b, fieldBuild, e.Build)
	b = appendUses(b, fieldUses, e.Uses)
	b = appendTime(b, fieldFrom, e.From, base)
	b = appendMap(b, fieldAttrs, e.Attributes)
	for _, id := range e.Unread {
		b = appendBytes(b, fieldUnread, id)
	}
	return b
}

func decodeEvent(e *Event, b []byte, base int64) error {
	if err := decodeFields(e, b, base); err != nil {
		return err
	}
	return e.settleRef()
}

// decodeFields decodes an event without validating its reference.
func decodeFields(e *Event, b []byte, base int64) error { //nolint:funlen // one case per field
	err := e.decodeType(b)
	if err != nil {
		return err
	}
	e.Time = time.UnixMilli(base).UTC()
	r := reader{b: b[1:]}
	for r.next() {
		switch r.field {
		case fieldTime:
			e.Time = r.time(base)
		case fieldRef:
			e.Ref = e.Seq - uint64(r.num)
		case fieldSince:
			e.Since = r.time(base)
		case fieldName:
			e.Name = string(r.val)
		case fieldKey:
			e.Key = string(r.val)
		case fieldPayload:
			e.Payload = r.val
		case fieldFailure:
			e.Failure, err = decodeFailure(r.val, 0)
		case fieldAttempt:
			e.Attempt = int(r.small(maxSmall))
		case fieldDue:
			e.Due = r.time(base)
		case fieldWait:
			e.Wait = WaitKind(r.small(math.MaxUint8))
		case fieldOutcome:
			e.Outcome = Outcome(r.small(math.MaxUint8))
		case fieldItem:
			e.Item = ItemID(r.val)
		case fieldReason:
			e.Reason = string(r.val)
		case fieldToken:
			e.Token = string(r.val)
		case fieldMeta:
			e.Meta = r.val
		case fieldNext:
			e.Next = RunID(r.val)
		case fieldBy:
			e.By = string(r.val)
		case fieldBuild:
			e.Build = string(r.val)
		case fieldUnread:
			if len(r.val) > 0 { // an empty field is equivalent to an absent field
				e.Unread = append(e.Unread, ItemID(r.val))
			}
		case fieldSpec:
			e.Spec, err = decodeSpec(r.val)
		case fieldAttrs:
			e.Attributes = r.addPair(e.Attributes)
		case fieldUses, fieldFrom:
			e.decodeWait(&r, base)
		default:
			e.decodeStart(&r)
		}
		if err != nil {
			return err
		}
	}
	if r.bad {
		return fmt.Errorf("%s is cut short, or a number is out of range: %w", e.Type, ErrCorrupt)
	}
	return nil
}

// decodeType decodes the type at the start of an event. The checksum of the frame is correct.
// Therefore an unknown type was written by a newer release and is not damage.
func (e *Event) decodeType(b []byte) error {
	if len(b) == 0 {
		return fmt.Errorf("it is empty: %w", ErrCorrupt)
	}
	switch e.Type = Type(b[0]); {
	case e.Type == 0:
		return fmt.Errorf("it has no type: %w", ErrCorrupt)
	case !e.Type.Known():
		return &VersionError{Got: WireVersion, Known: SealedVersion, Type: int(e.Type)}
	}
	return nil
}

// decodeStart decodes a field of an event that starts a child.
func (e *Event) decodeStart(r *reader) {
	switch r.field {
	case fieldClose:
		e.Close = ParentClose(r.small(math.MaxUint8))
	case fieldAck:
		e.Ack = r.num != 0
	case fieldActive:
		e.Active = uint8(r.small(math.MaxUint8))
	case fieldFinish:
		e.Finished = uint8(r.small(math.MaxUint8))
	}
}

// decodeWait decodes a field of an event about a wait for limits.
func (e *Event) decodeWait(r *reader, base int64) {
	if r.field == fieldFrom {
		e.From = r.time(base)
		return
	}
	u, ok := decodeUse(r.val)
	r.bad = r.bad || !ok
	e.Uses = append(e.Uses, u)
}

// settleRef sets the Ref of an event that creates an entity. It returns an error if the Ref is
// invalid.
func (e *Event) settleRef() error {
	switch {
	case e.Type.Creates() && e.Type != RunCreated:
		if e.Ref != 0 {
			return fmt.Errorf("%s refers to event %d: %w", e.Type, e.Ref, ErrCorrupt)
		}
		e.Ref, e.Since = e.Seq, e.Time
	case e.Type.Entity() == EntityRun || e.Type.Entity() == EntityNone:
		if e.Ref != 0 || !e.Since.IsZero() {
			return fmt.Errorf("%s refers to event %d: %w", e.Type, e.Ref, ErrCorrupt)
		}
	case e.Ref == 0 || e.Ref >= e.Seq:
		return fmt.Errorf("%s refers to no earlier event: %w", e.Type, ErrCorrupt)
	}
	return nil
}

func appendFailure(b []byte, f *Failure, depth int) []byte {
	b = appendBytes(b, 1, f.Message)
	b = appendBytes(b, 2, f.Code)
	b = appendBytes(b, 3, f.Type)
	b = appendBytes(b, 4, f.Data)
	b = appendBytes(b, 5, f.Stack)
	if depth == maxNesting {
		return b // causes beyond maxNesting are dropped
	}
	for _, c := range f.Causes {
		if c == nil {
			continue // the error has no content
		}
		b = appendNested(b, 6, func(b []byte) []byte { return appendFailure(b, c, depth+1) })
	}
	for _, what := range f.Undone {
		b = appendBytes(b, 7, what)
	}
	for _, what := range f.NotUndone {
		b = appendBytes(b, 8, what)
	}
	return b
}

func decodeFailure(b []byte, depth int) (*Failure, error) {
	if depth > maxNesting {
		return nil, fmt.Errorf("failure is nested more than %d deep: %w", maxNesting, ErrCorrupt)
	}
	f := &Failure{}
	r := reader{b: b}
	for r.next() {
		switch r.field {
		case 1:
			f.Message = string(r.val)
		case 2:
			f.Code = string(r.val)
		case 3:
			f.Type = string(r.val)
		case 4:
			f.Data = r.val
		case 5:
			f.Stack = string(r.val)
		case 6:
			c, err := decodeFailure(r.val, depth+1)
			if err != nil {
				return nil, err
			}
			f.Causes = append(f.Causes, c)
		case 7:
			f.Undone = append(f.Undone, string(r.val))
		case 8:
			f.NotUndone = append(f.NotUndone, string(r.val))
		}
	}
	if r.bad {
		return nil, fmt.Errorf("failure is cut short: %w", ErrCorrupt)
	}
	return f, nil
}
