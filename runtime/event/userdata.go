package event

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"strconv"
	"strings"
	"sync"
)

// SecretAttribute is the prefix of the keys of attributes whose values are user data. The values of
// other attributes can be read and searched in a store that keeps user data sealed.
const SecretAttribute = "secret."

// Part identifies a field of an event that contains user data.
type Part struct {
	Type Type
	Seq  uint64 // number of the event; 0 for an item
	// Name is the name of the field: "payload", "reason", "meta", "message", "data", "stack" or
	// "secret.KEY" of an attribute. The number of a cause precedes the fields of the cause, for example
	// "0.message". "spec." precedes the attributes in a Spec.
	Name string
}

// String returns the path of the field, for example "step_completed/7/payload".
func (p Part) String() string {
	b := make([]byte, 0, 40)
	b = append(b, p.Type.String()...)
	if p.Seq != 0 {
		b = append(b, '/')
		b = strconv.AppendUint(b, p.Seq, 10)
	}
	return string(append(append(b, '/'), p.Name...))
}

// ConvertFunc appends to b the bytes that replace the content of a field. The content is not empty
// and must not be changed.
type ConvertFunc func(b []byte, p Part, content []byte) ([]byte, error)

// ConvertFrame returns the frame b with all user data replaced by the results of f. All other bytes,
// also those of fields that a newer release has added, keep their values, except for the version: it
// is [SealedVersion] if a result is sealed, and otherwise [WireVersion]. ConvertFrame returns b itself
// if f appends each content unchanged. Errors match [ErrCorrupt], or are a [*VersionError] or an error
// of f.
func ConvertFrame(b []byte, f ConvertFunc) ([]byte, error) {
	body, err := unseal(b, frameMagic, frameFixed+4)
	if err != nil {
		return nil, err
	}
	r := reader{b: body[frameFixed:]}
	r.uvarint() // epoch
	r.varint()  // time
	first, count := r.uvarint(), r.uvarint()
	if r.bad || count > uint64(len(r.b))/minEvent {
		return nil, ErrCorrupt
	}
	c := converter{f: f, scratch: scratches.Get().(*[]byte)}
	defer scratches.Put(c.scratch)
	out := append((*c.scratch)[:0], body[:len(body)-len(r.b)]...)
	for i := range count {
		of := r.bytes()
		if len(of) == 0 {
			return nil, ErrCorrupt
		}
		c.at = Part{Type: Type(of[0]), Seq: first + i}
		at := len(out)
		if out, err = c.event(append(out, 0), of); err != nil {
			return nil, err
		}
		out = putSize(out, at)
	}
	if r.bad || len(r.b) != 0 {
		return nil, ErrCorrupt
	}
	return c.result(b, out), nil
}

// ConvertItem is like ConvertFrame for an encoded item.
func ConvertItem(b []byte, f ConvertFunc) ([]byte, error) {
	body, err := unseal(b, itemMagic, 2+1)
	if err != nil {
		return nil, err
	}
	c := converter{f: f, at: Part{Type: Type(body[2])}, scratch: scratches.Get().(*[]byte)}
	defer scratches.Put(c.scratch)
	out, err := c.event(append((*c.scratch)[:0], body[:2]...), body[2:])
	if err != nil {
		return nil, err
	}
	return c.result(b, out), nil
}

// converter copies encoded events and replaces user data.
type converter struct {
	f       ConvertFunc
	at      Part
	changed bool
	sealed  bool // user data of the result are sealed
	scratch *[]byte
}

// result returns a frame or item with the bytes of out, its version and its checksum, or before if
// nothing was replaced. If the buffer of out is used again, result copies out.
func (c *converter) result(before, out []byte) []byte {
	again := cap(out) <= mostScratch
	if again {
		*c.scratch = out
	}
	if !c.changed {
		return before
	}
	if out[1] = WireVersion; c.sealed {
		out[1] = SealedVersion
	}
	if again {
		out = append(make([]byte, 0, len(out)+crc32.Size), out...)
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

// scratches contains buffers for frames and items while their user data are replaced.
var scratches = sync.Pool{New: func() any { return new([]byte) }}

// mostScratch bounds the capacity of buffers that are used again, in bytes.
const mostScratch = 64 << 10

// plainPayload reports whether the payload of events of this type is no user data, but a number, the
// shape of accepted payloads, or the names of streams.
func (t Type) plainPayload() bool {
	switch t {
	case RunStarted, VersionRecorded, HookCreated, StepHookCreated, StepPending:
		return true
	}
	return false
}

// event appends the event b to out.
func (c *converter) event(out, b []byte) ([]byte, error) {
	return c.fields(append(out, b[0]), b[1:], func(out []byte, field uint64, val []byte) ([]byte, bool, error) {
		switch field {
		case fieldPayload:
			if c.at.Type.plainPayload() {
				return out, false, nil
			}
			return c.replace(out, field, val, "payload")
		case fieldReason:
			return c.replace(out, field, val, "reason")
		case fieldMeta:
			return c.replace(out, field, val, "meta")
		case fieldFailure:
			return nested(out, field, val, func(out, b []byte) ([]byte, error) { return c.failure(out, b, "", 0) })
		case fieldAttrs:
			return c.attribute(out, field, val, "")
		case fieldSpec:
			return nested(out, field, val, c.spec)
		}
		return out, false, nil
	})
}

// replaceFunc appends a replaced field to out and returns true, or returns false for a field to copy.
type replaceFunc func(out []byte, field uint64, val []byte) ([]byte, bool, error)

// fields appends the fields of b to out.
func (c *converter) fields(out, b []byte, replace replaceFunc) ([]byte, error) {
	r := reader{b: b}
	for {
		start := r.b
		if !r.next() {
			break
		}
		if len(r.val) > 0 {
			next, done, err := replace(out, r.field, r.val)
			if err != nil {
				return nil, err
			}
			if done {
				out = next
				continue
			}
		}
		out = append(out, start[:len(start)-len(r.b)]...)
	}
	if r.bad {
		return nil, ErrCorrupt
	}
	return out, nil
}

// replace appends the field with the content that f appends.
func (c *converter) replace(before []byte, field uint64, val []byte, name string) ([]byte, bool, error) {
	p := c.at
	p.Name = name
	out := binary.AppendUvarint(before, field<<1|kindBytes)
	at := len(out)
	out, err := c.f(append(out, 0), p, val)
	if err != nil {
		return nil, false, err
	}
	c.sealed = c.sealed || IsSealed(out[at+1:])
	if bytes.Equal(out[at+1:], val) {
		return before, false, nil
	}
	c.changed = true
	if len(out) == at+1 { // fields without a content are not encoded
		return before, true, nil
	}
	return putSize(out, at), true, nil
}

// nested appends a field that contains fields.
func nested(out []byte, field uint64, val []byte, fields func(out, b []byte) ([]byte, error)) ([]byte, bool, error) {
	out = binary.AppendUvarint(out, field<<1|kindBytes)
	at := len(out)
	out, err := fields(append(out, 0), val)
	if err != nil {
		return nil, false, err
	}
	return putSize(out, at), true, nil
}

func (c *converter) failure(out, b []byte, path string, depth int) ([]byte, error) {
	if depth > maxNesting {
		return nil, ErrCorrupt
	}
	causes := 0
	return c.fields(out, b, func(out []byte, field uint64, val []byte) ([]byte, bool, error) {
		switch field {
		case 1:
			return c.replace(out, field, val, path+"message")
		case 4:
			return c.replace(out, field, val, path+"data")
		case 5:
			return c.replace(out, field, val, path+"stack")
		case 6:
			of := path + strconv.Itoa(causes) + "."
			causes++
			return nested(out, field, val, func(out, b []byte) ([]byte, error) { return c.failure(out, b, of, depth+1) })
		}
		return out, false, nil
	})
}

func (c *converter) spec(out, b []byte) ([]byte, error) {
	return c.fields(out, b, func(out []byte, field uint64, val []byte) ([]byte, bool, error) {
		if field != 13 {
			return out, false, nil
		}
		return c.attribute(out, field, val, "spec.")
	})
}

// attribute appends an attribute, whose value is user data if its key begins with SecretAttribute.
func (c *converter) attribute(out []byte, field uint64, val []byte, path string) ([]byte, bool, error) {
	key := ""
	for p := (reader{b: val}); p.next(); {
		if p.field == 1 {
			key = string(p.val)
		}
	}
	if !strings.HasPrefix(key, SecretAttribute) {
		return out, false, nil
	}
	return nested(out, field, val, func(out, b []byte) ([]byte, error) {
		return c.fields(out, b, func(out []byte, field uint64, val []byte) ([]byte, bool, error) {
			if field != 2 {
				return out, false, nil
			}
			return c.replace(out, field, val, path+key)
		})
	})
}
