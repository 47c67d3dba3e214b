package flow

import (
	"bytes"
	"encoding"
	"encoding/json"
	"reflect"
	"slices"
	"sync"
)

// unmarshal is like [json.Unmarshal]. It neither changes data nor passes it to methods of user code,
// which could change or keep it. For most types it reuses the memory of an earlier decoder.
func unmarshal(data []byte, into any) error {
	if lenient.decode(data, into) {
		return nil
	}
	return json.Unmarshal(slices.Clone(data), into)
}

// unmarshalAll reports whether data could be decoded and the type of into has all fields of data.
func unmarshalAll(data []byte, into any) bool {
	if strict.decode(data, into) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// lenient and strict keep decoders. The strict ones refuse fields that the type does not have.
var (
	lenient = decoders{sync.Pool{New: func() any { return newDecoder() }}}
	strict  = decoders{sync.Pool{New: func() any {
		d := newDecoder()
		d.DisallowUnknownFields()
		return d
	}}}
)

// decoders keeps decoders for reuse. A decoder of package json decodes from a buffer, which it
// reuses for the next value. Package json copies strings and bytes out of the buffer. Only methods
// of user code, such as UnmarshalJSON, could keep a part of it, so types with such methods are not
// decoded by a reused decoder.
type decoders struct{ pool sync.Pool }

type decoder struct {
	*json.Decoder
	data bytes.Reader
}

func newDecoder() *decoder {
	d := &decoder{}
	d.Decoder = json.NewDecoder(&d.data)
	return d
}

// mostPooled bounds the size of values for which decoders are reused, because a decoder keeps its
// buffer.
const mostPooled = 4 << 10

// decode decodes data into a zero value. It reports false for types and data for which it does not
// reuse a decoder, and for data that is not one value without space after it. The caller must then
// decode data in another way, which also returns the error.
func (p *decoders) decode(data []byte, into any) bool {
	t := reflect.TypeOf(into)
	if len(data) > mostPooled || t == nil || t.Kind() != reflect.Pointer || !plain(t.Elem()) {
		return false
	}
	d := p.pool.Get().(*decoder)
	d.data.Reset(data)
	before := d.InputOffset()
	if d.Decode(into) != nil || d.InputOffset()-before != int64(len(data)) {
		reflect.ValueOf(into).Elem().SetZero()
		return false // the decoder has kept the error or the rest of data, so it is not reused
	}
	d.data.Reset(nil)
	p.pool.Put(d)
	return true
}

// known contains the results of plain.
var known sync.Map // map[reflect.Type]bool

// plain reports whether package json decodes values of this type without calling methods.
func plain(t reflect.Type) bool {
	if is, ok := known.Load(t); ok {
		return is.(bool)
	}
	is := allPlain(t, map[reflect.Type]bool{})
	known.Store(t, is)
	return is
}

var (
	unmarshaler     = reflect.TypeFor[json.Unmarshaler]()
	textUnmarshaler = reflect.TypeFor[encoding.TextUnmarshaler]()
)

// allPlain is plain without results of earlier calls. seen contains the types that are already being
// examined.
func allPlain(t reflect.Type, seen map[reflect.Type]bool) bool {
	if seen[t] {
		return true
	}
	seen[t] = true
	if p := reflect.PointerTo(t); p.Implements(unmarshaler) || p.Implements(textUnmarshaler) {
		return false
	}
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Array:
		return allPlain(t.Elem(), seen)
	case reflect.Map:
		return allPlain(t.Key(), seen) && allPlain(t.Elem(), seen)
	case reflect.Struct:
		for i := range t.NumField() {
			if !allPlain(t.Field(i).Type, seen) {
				return false
			}
		}
		return true
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer: // an interface may hold a value of any type
		return false
	}
	return true
}
