// Package failure converts errors into their stored form and implements errors.Is and errors.As for
// stored errors.
//
// An error type is stored under a wire name: the one it was registered with, or the path of its
// package and its name. Its value is stored as JSON. A sentinel must be registered, because only
// its name is stored.
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

// Unmarshaler is implemented by pointer types that can be decoded from the result of their
// MarshalFailure.
type Unmarshaler interface {
	UnmarshalFailure(f *event.Failure) error
}

var registry = struct {
	sync.RWMutex
	types     map[reflect.Type]string
	sentinels map[error]*sentinel
	known     []known // sorted by name; never changed in place
}{types: map[reflect.Type]string{}, sentinels: map[error]*sentinel{}}

// RegisterType gives an error type a wire name. Two types may have the same name: a copy in a
// client package represents the original.
func RegisterType(t reflect.Type, name string) {
	registry.Lock()
	defer registry.Unlock()
	registry.types[t] = name
}

// Encode returns the stored form of err, which the caller may change; its causes may be shared. It
// never fails: an error that cannot be encoded keeps its message. Failures above the limits are
// cut; see [MaxText] and [MaxCauses].
func Encode(err error, code string) *event.Failure {
	var e encoder
	f := *bound(e.encode(err))
	if f.Code == "" {
		f.Code = code
	}
	return &f
}

// encoder walks a tree of errors. An error that occurs at several places is encoded at the first
// one, where Is and As find it.
type encoder struct {
	seen map[error]bool // used from the first error with several causes on
	n    int            // number of errors so far
	data int            // bytes of their values
}

// encode returns nil for an error that was encoded before, and above the maximum number of errors.
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

// marshal returns the result of MarshalFailure; nil if the error has no such method or is a nil
// pointer.
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

// causes calls Unwrap and recovers its panics, such as one for a nil receiver.
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

// message calls Error and recovers its panics, such as one for a nil receiver.
func message(err error) (s string) {
	defer func() {
		if r := recover(); r != nil {
			s = fmt.Sprintf("%T: its Error method panicked: %v", err, r)
		}
	}()
	return err.Error()
}

// identify returns the wire name of an error, and whether its value is stored.
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

// value returns an error as JSON, or nil if it cannot be encoded.
func value(err error) (data []byte) {
	defer func() {
		if recover() != nil { // a user's MarshalJSON
			data = nil
		}
	}()
	data, failed := json.Marshal(err)
	if failed != nil || string(data) == "null" { // a nil pointer, which is not worth decoding
		return nil
	}
	return data
}

// defaultName returns the wire name of an unregistered type; empty for types without a name.
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

// As finds the first stored error of the type that target points to, and sets
// target to it, as errors.As does.
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

// decode decodes a stored error into into. A panic of the user's UnmarshalJSON means that the error
// does not match.
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

// StoredError is a stored error as an error value. It has the original message and matches errors
// by its stored names.
type StoredError struct{ F *event.Failure }

// Error returns the stored message.
func (e *StoredError) Error() string { return e.F.Message }

// Is matches registered sentinels.
func (e *StoredError) Is(target error) bool { return Is(e.F, target) }

// As matches error types by their wire names.
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
