package event

import "encoding/binary"

// reader takes apart bytes that may be anything. Once something does not fit it
// sets bad and returns zero values from then on.
type reader struct {
	b   []byte
	bad bool

	field int    // of the field that next has read
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
	r.field, r.num, r.val = int(tag>>1), 0, nil
	if tag&1 == kindVarint {
		r.num = r.varint()
	} else {
		r.val = r.bytes()
	}
	return !r.bad
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
