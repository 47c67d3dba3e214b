// Package failure converts errors into their stored form and implements errors.Is and errors.As for
// stored errors.
//
// The stored form of an error contains the wire name of its type: the registered name, or the
// package path and the name of the type. The value of the error is stored as JSON. A sentinel must
// be registered, because only its name is stored.
package failure

import (
	"encoding/json"
	"fmt"
	"reflect"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
)

// form converts the errors of a type to a stored form of their own and back.
type form struct {
	marshal   func(err error) *event.Failure
	unmarshal func(into any, f *event.Failure) error // nil: the value is decoded as JSON
}

var registry = struct {
	sync.RWMutex
	types     map[reflect.Type]string
	forms     map[reflect.Type]form
	sentinels map[error]*sentinel
	known     []known // sorted by name; replaced and never modified
}{types: map[reflect.Type]string{}, forms: map[reflect.Type]form{}, sentinels: map[error]*sentinel{}}

// RegisterType gives an error type a wire name. Two types may have the same name, so that a copy of
// the type in a client package can represent the original.
func RegisterType(t reflect.Type, name string) {
	registry.Lock()
	defer registry.Unlock()
	registry.types[t] = name
}

// RegisterForm defines the stored form of the errors of type *T. Unmarshal sets its first parameter
// from a failure that marshal has returned; if it is nil, As decodes the data of the failure as
// JSON. As finds only types that are also registered by [RegisterType].
func RegisterForm[T any, E interface {
	*T
	error
}](marshal func(E) *event.Failure, unmarshal func(E, *event.Failure) error) {
	f := form{marshal: func(err error) *event.Failure { return marshal(err.(E)) }} //nolint:errorlint // the type is the key of the form
	if unmarshal != nil {
		f.unmarshal = func(into any, f *event.Failure) error { return unmarshal(into.(E), f) }
	}
	registry.Lock()
	defer registry.Unlock()
	registry.forms[reflect.TypeFor[E]()] = f
}

// formOf returns the registered form of a type, or a zero form.
func formOf(t reflect.Type) form {
	registry.RLock()
	defer registry.RUnlock()
	return registry.forms[t]
}

func init() {
	RegisterForm(func(e *StoredError) *event.Failure { return e.F }, nil)
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

// marshal returns the stored form of an error whose type has a registered form. It returns nil for
// other types and for a nil pointer.
func marshal(err error) (f *event.Failure) {
	guard(func() {
		if r := formOf(reflect.TypeOf(err)); r.marshal != nil {
			f = r.marshal(err)
		}
	})
	return f
}

// guard calls f, which calls methods of user code, and recovers its panics.
func guard(f func()) {
	defer func() { _ = recover() }()
	f()
}

// causes returns the errors that err wraps. It recovers panics of Unwrap, for example for a nil
// receiver.
func causes(err error) (all []error) {
	guard(func() {
		switch u := err.(type) { //nolint:errorlint // the chain itself is taken apart here
		case interface{ Unwrap() error }:
			all = []error{u.Unwrap()}
		case interface{ Unwrap() []error }:
			all = u.Unwrap()
		}
	})
	return all
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
	guard(func() { data, _ = json.Marshal(err) })
	if string(data) == "null" { // the value of a nil pointer is not stored
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
		if r := formOf(t); r.unmarshal != nil {
			if r.unmarshal(p.Elem().Interface(), f) != nil {
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

// CodeOf returns the code of the first error in err's tree whose type has a registered form, or "".
func CodeOf(err error) string {
	if f := firstStored(err); f != nil {
		return f.Code
	}
	return ""
}

func firstStored(err error) *event.Failure {
	if err == nil {
		return nil
	}
	if f := marshal(err); f != nil {
		return f
	}
	for _, cause := range causes(err) {
		if f := firstStored(cause); f != nil {
			return f
		}
	}
	return nil
}
