package event

import (
	"encoding/binary"
	"math"
	"time"
)

// reader decodes bytes that may be damaged. After the first error it sets bad, and its methods
// return zero values.
type reader struct {
	b   []byte
	bad bool

	field uint64 // number of the last field that next has read
	num   int64  // value of that field, if it is a varint
	val   []byte // value of that field, if it is bytes; shares memory with b
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
		return nil // an empty field is equivalent to an absent field
	}
	v := r.b[:n:n]
	r.b = r.b[n:]
	return v
}

// next reads one field. It reports whether there was a field.
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

// maxSmall is the maximum of numbers that are stored in an int. It fits into an int of 32 bits.
const maxSmall = math.MaxInt32

// small returns the value of the field. It sets bad if the value is not between 0 and limit.
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
	if d <= minMillis-base || d > maxMillis-base { // cannot overflow, because base is within the limits
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
