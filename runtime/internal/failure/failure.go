// Package failure converts errors into their stored form and implements errors.Is and errors.As for
// stored errors.
//
// The stored form of an error contains the wire name of its type: the registered name, or the
// package path and the name of the type. The value of the error is stored as JSON. A sentinel must
// be registered, because only its name is stored.
package failure

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
)

// Marshaler is implemented by errors that define their stored form.
type Marshaler interface {
	MarshalFailure() *event.Failure
}

// Unmarshaler is implemented by pointer types that can be decoded from a failure that
// MarshalFailure has returned.
type Unmarshaler interface {
	UnmarshalFailure(f *event.Failure) error
}

var registry = struct {
	sync.RWMutex
	types     map[reflect.Type]string
	sentinels map[error]*sentinel
	known     []known // sorted by name; replaced and never modified
}{types: map[reflect.Type]string{}, sentinels: map[error]*sentinel{}}

// RegisterType gives an error type a wire name. Two types may have the same name, so that a copy of
// the type in a client package can represent the original.
func RegisterType(t reflect.Type, name string) {
	registry.Lock()
	defer registry.Unlock()
	registry.types[t] = name
}

// Encode returns the stored form of err. The caller may change the result, but not its causes,
// which may be shared. Encode never fails: an error that cannot be encoded keeps its message.
// Failures above the limits are cut; see [MaxText] and [MaxCauses].
func Encode(err error, code string) *event.Failure {
	var e encoder
	f := *bound(e.encode(err))
	if f.Code == "" {
		f.Code = code
	}
	return &f
}

// encoder encodes a tree of errors. An error that occurs several times is encoded at its first
// occurrence, which Is and As find.
type encoder struct {
	seen map[error]bool // errors that were encoded; nil until an error with several causes is found
	n    int            // number of encoded errors
	data int            // total length of the encoded values in bytes
}

// encode returns the stored form of err. It returns nil if err was encoded before, or if the
// maximum number of errors is reached.
func (e *encoder) encode(err error) *event.Failure {
	if e.seen != nil && hashable(err) {
		if e.seen[err] {
			return nil
		}
		e.seen[err] = true
	}
	if e.n++; e.n > maxWalk {
		return nil
	}
	if f := marshal(err); f != nil {
		return f
	}
	f := &event.Failure{Message: message(err)}
	var whole bool
	f.Type, whole = identify(err)
	if whole && e.data <= maxData { // the value of an error may contain the values of its causes
		f.Data = value(err)
		e.data += len(f.Data)
	}
	all := causes(err)
	if len(all) > 1 && e.seen == nil {
		e.seen = map[error]bool{}
	}
	for _, c := range all {
		if c == nil {
			continue
		}
		if c := e.encode(c); c != nil {
			f.Causes = append(f.Causes, c)
		}
	}
	addMatched(f, err)
	return f
}

// hashable reports whether an error can be the key of a map.
func hashable(err error) bool {
	return reflect.TypeOf(err).Comparable() && reflect.ValueOf(err).Comparable()
}

// marshal returns the result of MarshalFailure. It returns nil if the error has no such method or
// is a nil pointer.
func marshal(err error) (f *event.Failure) {
	defer func() {
		if recover() != nil {
			f = nil
		}
	}()
	if m, ok := err.(Marshaler); ok {
		f = m.MarshalFailure()
	}
	return f
}

// causes returns the errors that err wraps. It recovers panics of Unwrap, for example for a nil
// receiver.
func causes(err error) (all []error) {
	defer func() {
		if recover() != nil {
			all = nil
		}
	}()
	switch u := err.(type) { //nolint:errorlint // the chain itself is taken apart here
	case interface{ Unwrap() error }:
		return []error{u.Unwrap()}
	case interface{ Unwrap() []error }:
		return u.Unwrap()
	}
	return nil
}

// message returns the text of err. It recovers panics of Error, for example for a nil receiver.
func message(err error) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprintf("%T: its Error method panicked: %v", err, r)
		}
	}()
	return err.Error()
}

// identify returns the wire name of an error and reports whether the value of the error is stored.
func identify(err error) (name string, whole bool) {
	t := reflect.TypeOf(err)
	registry.RLock()
	defer registry.RUnlock()
	if hashable(err) {
		if s := registry.sentinels[err]; s != nil {
			return s.names[0], false
		}
	}
	if name, registered := registry.types[t]; registered {
		return name, true
	}
	name = defaultName(t)
	return name, name != "" && transparent(t)
}

// value returns an error as JSON. It returns nil if the error cannot be encoded.
func value(err error) (data []byte) {
	defer func() {
		if recover() != nil { // a user's MarshalJSON may panic
			data = nil
		}
	}()
	data, failed := json.Marshal(err)
	if failed != nil || string(data) == "null" { // the value of a nil pointer is not stored
		return nil
	}
	return data
}

// defaultName returns the wire name of an unregistered type. It is empty for a type without a name.
func defaultName(t reflect.Type) string {
	star := ""
	if t.Kind() == reflect.Pointer {
		t, star = t.Elem(), "*"
	}
	if t.Name() == "" {
		return ""
	}
	return t.PkgPath() + "." + star + t.Name()
}

// transparent reports whether JSON keeps the whole value of an unregistered error type: a struct of
// exported fields, or a basic type.
func transparent(t reflect.Type) bool {
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Struct:
		for f := range t.Fields() {
			if !f.IsExported() || f.Type.Kind() == reflect.Interface {
				return false
			}
		}
		return true
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64, reflect.Uint, reflect.Uint8,
		reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64, reflect.String:
		return true
	}
	return false
}

// As finds the first stored error of the type to which target points, and sets target to it, like
// errors.As.
func As(f *event.Failure, target any) bool {
	v := reflect.ValueOf(target)
	if f == nil || v.Kind() != reflect.Pointer || v.IsNil() {
		return false
	}
	t := v.Elem().Type()
	if t.Kind() == reflect.Interface || !t.Implements(reflect.TypeFor[error]()) {
		return false
	}
	registry.RLock()
	name, registered := registry.types[t]
	registry.RUnlock()
	if !registered {
		name = defaultName(t)
	}
	return name != "" && find(f, func(f *event.Failure) bool { return f.Type == name && decode(f, t, v.Elem()) })
}

// decode decodes a stored error into into. If a method of the user panics, decode reports that the
// error does not match.
func decode(f *event.Failure, t reflect.Type, into reflect.Value) (ok bool) {
	defer func() {
		if recover() != nil {
			ok = false
		}
	}()
	p := reflect.New(t)
	if t.Kind() == reflect.Pointer {
		p.Elem().Set(reflect.New(t.Elem()))
		if u, ok := reflect.TypeAssert[Unmarshaler](p.Elem()); ok {
			if u.UnmarshalFailure(f) != nil {
				return false
			}
			into.Set(p.Elem())
			return true
		}
	}
	if f.Data == nil || json.Unmarshal(f.Data, p.Interface()) != nil {
		return false
	}
	into.Set(p.Elem())
	return true
}

func find(f *event.Failure, match func(*event.Failure) bool) bool {
	if match(f) {
		return true
	}
	for _, c := range f.Causes {
		if find(c, match) {
			return true
		}
	}
	return false
}

// StoredError is an error value for a stored error. It has the original message and matches other
// errors by its stored names.
type StoredError struct{ F *event.Failure }

// Error returns the stored message.
func (e *StoredError) Error() string { return e.F.Message }

// Is reports whether the stored error matches a registered sentinel.
func (e *StoredError) Is(target error) bool { return Is(e.F, target) }

// As sets target if the stored error has the wire name of target's type.
func (e *StoredError) As(target any) bool { return As(e.F, target) }

// MarshalFailure returns the stored form unchanged.
func (e *StoredError) MarshalFailure() *event.Failure { return e.F }

// CodeOf returns the code of the first stored error in err's chain, or "".
func CodeOf(err error) string {
	var m Marshaler
	if errors.As(err, &m) {
		return m.MarshalFailure().Code
	}
	return ""
}
