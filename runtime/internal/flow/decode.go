package flow

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// Decode decodes a stored value. It returns an error if an UnmarshalJSON method panics, or if a
// string cannot represent the stored text.
func Decode(what string, data []byte, into any) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = &PayloadError{What: what, Err: fmt.Errorf("decoding panicked: %v", r)}
		}
	}()
	if len(data) == 0 {
		return nil
	}
	if err = event.CheckOpen(data); err == nil {
		err = unmarshal(data, into)
	}
	if err == nil {
		err = checkRead(data)
	}
	if err != nil {
		return &PayloadError{What: what, Err: err}
	}
	return nil
}

// decodeAll is like Decode. all is false if the stored data has fields that the type of into does
// not have. For types with their own decoding method it is true.
func decodeAll(what string, data []byte, into any) (all bool, err error) {
	v := reflect.ValueOf(into).Elem()
	switch v.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64, reflect.Float64:
		return true, Decode(what, data, into) // values of these kinds have no fields
	}
	if len(data) == 0 || readAll(data, into) {
		return true, nil
	}
	v.SetZero()
	return false, Decode(what, data, into)
}

// readAll reports whether data could be decoded and the type of into has all fields of data.
func readAll(data []byte, into any) bool {
	defer func() { _ = recover() }() // after a panic, Decode reports the error
	if strict.decode(data, into) {
		return true
	}
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// DecodePayload decodes a stored value. Errors name the value by kind and name.
func DecodePayload(kind, name string, data []byte, into any) error {
	return about(Decode(kind, data, into), name)
}

// DecodeArgs decodes the stored arguments of a step that is executed for another run. That run may
// belong to a program of another version. The error for a changed name is a *[replay.RenamedError].
func DecodeArgs(run event.RunID, step string, args []byte, into any) error {
	return DecodeFitting(run, "input of step ", step, "//flow:step", args, into)
}

// DecodeFitting decodes a stored value. It returns a *[replay.RenamedError], which contains the
// directive, if a field of the value was renamed. Errors name the value by kind and name.
func DecodeFitting(run event.RunID, kind, name, directive string, data []byte, into any) error {
	all, err := decodeAll(kind, data, into)
	if all || err != nil {
		return about(err, name)
	}
	today, err := Marshal(kind, into)
	if err != nil {
		return about(err, name)
	}
	if r := replay.FindRenaming(data, today); r != nil {
		return &replay.RenamedError{Run: run, What: kind + name, Directive: directive, Renaming: *r}
	}
	return nil
}

// checkRead returns an error for stored text that package json would change when decoding it. Such
// text contains bytes that are not UTF-8, or halves of surrogate pairs, which encoders in other
// languages can produce.
func checkRead(data []byte) error {
	if !utf8.Valid(data) {
		at := 0
		for r, n := utf8.DecodeRune(data); r != utf8.RuneError || n > 1; r, n = utf8.DecodeRune(data[at:]) {
			at += n
		}
		return fmt.Errorf("byte %d is not UTF-8", at)
	}
	if at := loneSurrogate(data); at >= 0 {
		return fmt.Errorf("byte %d begins half of a surrogate pair, which no string can hold", at)
	}
	return nil
}

// loneSurrogate returns the position of an escaped half of a surrogate pair in JSON, or -1 if there
// is none.
func loneSurrogate(data []byte) int {
	for at := 0; ; {
		i := bytes.IndexByte(data[at:], '\\')
		if i < 0 || at+i+1 == len(data) {
			return -1
		}
		at += i
		switch r := escaped(data[at:]); {
		case data[at+1] != 'u':
			at += 2
		case 0xd800 <= r && r < 0xdc00 && 0xdc00 <= escaped(data[at+6:]) && escaped(data[at+6:]) < 0xe000:
			at += 12
		case 0xd800 <= r && r < 0xe000:
			return at
		default:
			at += 6
		}
		if at >= len(data) {
			return -1
		}
	}
}

// escaped returns the code unit of the escape \uXXXX at the start of b, or -1 if there is none.
func escaped(b []byte) int64 {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return -1
	}
	n, err := strconv.ParseUint(string(b[2:6]), 16, 16)
	if err != nil {
		return -1
	}
	return int64(n)
}

// ValidJSON returns an error if data is not JSON, or would be changed by decoding.
func ValidJSON(data []byte) error {
	if !json.Valid(data) {
		return errors.New("it is not JSON")
	}
	return checkRead(data)
}

// unmarshal is like [json.Unmarshal]. It neither changes data nor passes it to methods of user code,
// which could change or keep it. For most types it reuses the memory of an earlier decoder.
func unmarshal(data []byte, into any) error {
	switch t := reflect.TypeOf(into); {
	case lenient.decode(data, into):
		return nil
	case t == nil || t.Kind() != reflect.Pointer || !plain(t.Elem()):
		data = slices.Clone(data)
	}
	return json.Unmarshal(data, into)
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
		for f := range t.Fields() {
			if !allPlain(f.Type, seen) {
				return false
			}
		}
	case reflect.Interface, reflect.Func, reflect.Chan, reflect.UnsafePointer: // an interface may hold a value of any type
		return false
	}
	return true
}
