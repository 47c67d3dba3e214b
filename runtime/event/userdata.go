package event

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"slices"
	"strconv"
	"strings"
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

// ConvertFunc returns the bytes that replace the content of a field. The content is not empty and
// must not be changed.
type ConvertFunc func(p Part, content []byte) ([]byte, error)

// ConvertFrame returns the frame b with all user data replaced by the results of f. All other bytes,
// also those of fields that a newer release has added, keep their values, except for the version: it
// is [SealedVersion] if a result is sealed, and otherwise [WireVersion]. ConvertFrame returns b itself
// if f returns each content unchanged. Errors match [ErrCorrupt], or are a [*VersionError] or an error
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
	c := converter{f: f}
	out := slices.Clone(body[:len(body)-len(r.b)])
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
	c := converter{f: f, at: Part{Type: Type(body[2])}}
	out, err := c.event(slices.Clone(body[:2]), body[2:])
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
}

// result sets the version of out and appends the checksum, or returns before if nothing was replaced.
func (c *converter) result(before, out []byte) []byte {
	if !c.changed {
		return before
	}
	if out[1] = WireVersion; c.sealed {
		out[1] = SealedVersion
	}
	return binary.LittleEndian.AppendUint32(out, crc32.Checksum(out, castagnoli))
}

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
	return c.fields(append(out, b[0]), b[1:], func(out []byte, r *reader) ([]byte, bool, error) {
		switch r.field {
		case fieldPayload:
			if c.at.Type.plainPayload() {
				return out, false, nil
			}
			return c.replace(out, r, "payload")
		case fieldReason:
			return c.replace(out, r, "reason")
		case fieldMeta:
			return c.replace(out, r, "meta")
		case fieldFailure:
			return c.nested(out, r, func(out, b []byte) ([]byte, error) { return c.failure(out, b, "", 0) })
		case fieldAttrs:
			return c.attribute(out, r, "")
		case fieldSpec:
			return c.nested(out, r, c.spec)
		}
		return out, false, nil
	})
}

// fields appends the fields of b to out. replace appends a replaced field and returns true, or
// returns false for a field to copy.
func (c *converter) fields(out, b []byte, replace func(out []byte, r *reader) ([]byte, bool, error)) ([]byte, error) {
	r := reader{b: b}
	for {
		start := r.b
		if !r.next() {
			break
		}
		if len(r.val) > 0 {
			next, done, err := replace(out, &r)
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

// replace appends the field with the content that f returns.
func (c *converter) replace(out []byte, r *reader, name string) ([]byte, bool, error) {
	p := c.at
	p.Name = name
	content, err := c.f(p, r.val)
	if err != nil {
		return nil, false, err
	}
	c.sealed = c.sealed || IsSealed(content)
	if bytes.Equal(content, r.val) {
		return out, false, nil
	}
	c.changed = true
	return appendBytes(out, int(r.field), content), true, nil
}

// nested appends a field that contains fields.
func (c *converter) nested(out []byte, r *reader, fields func(out, b []byte) ([]byte, error)) ([]byte, bool, error) {
	out = binary.AppendUvarint(out, r.field<<1|kindBytes)
	at := len(out)
	out, err := fields(append(out, 0), r.val)
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
	return c.fields(out, b, func(out []byte, r *reader) ([]byte, bool, error) {
		switch r.field {
		case 1:
			return c.replace(out, r, path+"message")
		case 4:
			return c.replace(out, r, path+"data")
		case 5:
			return c.replace(out, r, path+"stack")
		case 6:
			of := path + strconv.Itoa(causes) + "."
			causes++
			return c.nested(out, r, func(out, b []byte) ([]byte, error) { return c.failure(out, b, of, depth+1) })
		}
		return out, false, nil
	})
}

func (c *converter) spec(out, b []byte) ([]byte, error) {
	return c.fields(out, b, func(out []byte, r *reader) ([]byte, bool, error) {
		if r.field != 13 {
			return out, false, nil
		}
		return c.attribute(out, r, "spec.")
	})
}

// attribute appends an attribute, whose value is user data if its key begins with SecretAttribute.
func (c *converter) attribute(out []byte, r *reader, path string) ([]byte, bool, error) {
	key := ""
	for p := (reader{b: r.val}); p.next(); {
		if p.field == 1 {
			key = string(p.val)
		}
	}
	if !strings.HasPrefix(key, SecretAttribute) {
		return out, false, nil
	}
	return c.nested(out, r, func(out, b []byte) ([]byte, error) {
		return c.fields(out, b, func(out []byte, r *reader) ([]byte, bool, error) {
			if r.field != 2 {
				return out, false, nil
			}
			return c.replace(out, r, path+key)
		})
	})
}
