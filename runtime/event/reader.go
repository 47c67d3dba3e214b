package event

import (
	"encoding/binary"
	"math"
	"time"
)

// reader decodes arbitrary bytes. After the first error it sets bad and returns zero values.
type reader struct {
	b   []byte
	bad bool

	field uint64 // number of the field read by next
	num   int64  // its value, if it is a varint
	val   []byte // its value, if it is bytes; shares memory with b
}

func (r *reader) fail() {
	r.bad, r.b = true, nil
}

func (r *reader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail()
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *reader) bytes() []byte {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.b)) {
		r.fail()
		return nil
	}
	if n == 0 {
		return nil // equivalent to an absent field
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// next reads one field and reports whether there was one.
func (r *reader) next() bool {
	if len(r.b) == 0 {
		return false
	}
	tag := r.uvarint()
	r.field, r.num, r.val = tag>>1, 0, nil
	if tag&1 == kindVarint {
		r.num = r.varint()
	} else {
		r.val = r.bytes()
	}
	return !r.bad
}

// maxSmall bounds numbers that are stored in an int, so that they have the same value where an int
// has 32 bits.
const maxSmall = math.MaxInt32

// small returns the value of the field if it is between 0 and limit.
func (r *reader) small(limit int64) int64 {
	if r.num < 0 || r.num > limit {
		r.fail()
		return 0
	}
	return r.num
}

// time returns the value of the field as a time relative to base, which is in milliseconds.
func (r *reader) time(base int64) time.Time {
	d := r.num
	if d > 0 {
		d--
	}
	if d <= minMillis-base || d > maxMillis-base { // base is within the limits: no overflow
		r.fail()
		return time.Time{}
	}
	return time.UnixMilli(base + d).UTC()
}

func (r *reader) addPair(m map[string]string) map[string]string {
	p := reader{b: r.val}
	var k, v string
	for p.next() {
		switch p.field {
		case 1:
			k = string(p.val)
		case 2:
			v = string(p.val)
		}
	}
	if p.bad {
		r.fail()
		return m
	}
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}
