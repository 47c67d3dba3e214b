package flow

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
)

// PayloadError is documented as workflow.PayloadError.
type PayloadError struct {
	What  string // description of the value, for example "input of step orders.charge"
	Size  int    // size in bytes; 0 if the value could not be encoded
	Limit int    // maximum size in bytes; 0 if the size is not the reason
	Err   error  // error of encoding or decoding; nil if the size is the reason
}

// Error returns a text that contains the description of the value. It contains the size and the
// limit if they are the reason.
func (e *PayloadError) Error() string {
	if e.Err != nil {
		return fmt.Sprintf("%s: %v", e.What, e.Err)
	}
	return fmt.Sprintf("%s has %d bytes, the limit is %d: store large data elsewhere and pass a reference, or raise ClientConfig.MaxPayload, or MaxSize of a codec that has blobs", e.What, e.Size, e.Limit)
}

// Unwrap returns the error of the encoder or decoder.
func (e *PayloadError) Unwrap() error { return e.Err }

func storePayload(e *PayloadError) *event.Failure {
	var cause *event.Failure
	if e.Err != nil {
		cause = &event.Failure{Message: e.Err.Error()}
	}
	return StoreError(wirePayloadError, event.CodePayload, e.Error(), storedPayloadError{e.What, e.Size, e.Limit}, cause)
}

type storedPayloadError struct {
	What  string `json:"what"`
	Size  int    `json:"size"`
	Limit int    `json:"limit"`
}

func loadPayload(e *PayloadError, f *event.Failure) error {
	var s storedPayloadError
	cause, err := LoadError(f, &s)
	*e = PayloadError{What: s.What, Size: s.Size, Limit: s.Limit}
	if cause != nil {
		e.Err = errors.New(cause.Message)
	}
	return err
}

// Limits are the limits of the size of a stored payload, in bytes.
type Limits struct {
	Max, Warn int // larger payloads are refused or logged
	Logger    *slog.Logger
}

// Encode returns the stored form of v. what describes v in errors. If quiet is set, it does not log
// large payloads.
func (l *Limits) Encode(what string, v any, quiet bool) ([]byte, error) {
	data, err := Marshal(what, v)
	if err != nil {
		return nil, err
	}
	return data, l.Check(what, len(data), quiet)
}

// Marshal encodes v as JSON. It returns an error if a MarshalJSON method panics or if a string is
// not UTF-8.
func Marshal(what string, v any) (data []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			data, err = nil, &PayloadError{What: what, Err: fmt.Errorf("encoding panicked: %v", r)}
		}
	}()
	if data, err = json.Marshal(v); err == nil {
		err = checkWritten(v, data)
	}
	if err != nil {
		return nil, &PayloadError{What: what, Err: err}
	}
	return data, nil
}

// EncodePayload returns the stored form of v, which may have any size. Errors name the value by kind
// and name.
func EncodePayload(kind, name string, v any) ([]byte, error) {
	data, err := Marshal(kind, v)
	return data, about(err, name)
}

// about appends name to the description in a *PayloadError. Callers use it to build the full
// description only if there is an error.
func about(err error, name string) error {
	if p, ok := errors.AsType[*PayloadError](err); ok {
		p.What += name
	}
	return err
}

// Check returns an error if a payload is larger than the limit.
func (l *Limits) Check(what string, size int, quiet bool) error {
	if size > l.Max {
		return &PayloadError{What: what, Size: size, Limit: l.Max}
	}
	if size > l.Warn && !quiet {
		l.Logger.Warn("large payload", "what", what, "bytes", size, "warn", l.Warn, "max", l.Max)
	}
	return nil
}

// Package json silently replaces each byte that is not UTF-8 by U+FFFD. The replacement changes
// strings and may merge two keys of a map. Therefore a value with such a string is refused when it
// is encoded, and stored text with such a byte is refused when it is decoded.

// notUTF8 is the escape that package json writes for a replaced byte. It writes U+FFFD in another
// form if the string itself contains it.
var notUTF8 = []byte(`\ufffd`)

// checkWritten returns an error if data, the stored form of v, differs from v because of invalid
// UTF-8. It accepts the output of a MarshalJSON method unchanged if the output is UTF-8.
func checkWritten(v any, data []byte) error {
	changed := bytes.Contains(data, notUTF8)
	if !changed && utf8.Valid(data) {
		return nil
	}
	path, text, found := search(reflect.ValueOf(v), "")
	switch {
	case found:
		return fmt.Errorf("%s is not UTF-8 (%.60q): pass bytes as []byte", cmp.Or(path, "it"), text)
	case utf8.Valid(data):
		return nil // a MarshalJSON method or a RawMessage has written the escape
	}
	return checkRead(data)
}

// search finds the first string in v, in the order in which package json encodes v, that is not
// UTF-8. It returns the path and the text of the string. It is called only for values that package
// json could encode.
func search(v reflect.Value, path string) (where, text string, found bool) {
	if !v.IsValid() {
		return "", "", false
	}
	if text, own := ownText(v); own {
		return path, text, !utf8.ValidString(text)
	}
	switch v.Kind() {
	case reflect.String:
		return path, v.String(), !utf8.ValidString(v.String())
	case reflect.Pointer, reflect.Interface:
		return search(v.Elem(), path)
	case reflect.Struct:
		return searchStruct(v, path)
	case reflect.Map:
		return searchMap(v, path)
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 && v.Kind() == reflect.Slice {
			return "", "", false
		}
		for i := range v.Len() {
			if where, text, found := search(v.Index(i), fmt.Sprintf("%s[%d]", path, i)); found {
				return where, text, true
			}
		}
	}
	return "", "", false
}

// ownText reports whether a value encodes itself, in which case package json does not encode its
// fields. text is the encoded text. For a MarshalJSON method it is empty.
func ownText(v reflect.Value) (text string, own bool) {
	if !v.CanInterface() || v.Kind() == reflect.Interface || v.Kind() == reflect.Pointer && v.IsNil() {
		return "", false
	}
	x := v.Interface()
	if v.CanAddr() {
		x = v.Addr().Interface()
	}
	switch x := x.(type) {
	case *json.RawMessage:
		return string(*x), true
	case json.RawMessage:
		return string(x), true
	case json.Marshaler:
		return "", true
	case encoding.TextMarshaler:
		b, err := x.MarshalText()
		return string(b), err == nil
	}
	return "", false
}

func searchStruct(v reflect.Value, path string) (where, text string, found bool) {
	for f, value := range v.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		in := path
		if name != "" || !f.Anonymous {
			in = strings.TrimPrefix(path+"."+cmp.Or(name, f.Name), ".")
		}
		if where, text, found := search(value, in); found {
			return where, text, true
		}
	}
	return "", "", false
}

func searchMap(v reflect.Value, path string) (where, text string, found bool) {
	for it := v.MapRange(); it.Next(); {
		key, of := it.Key(), ""
		if path != "" {
			of = " of " + path
		}
		if _, text, found := search(key, ""); found {
			return "a key" + of, text, true
		}
		if where, text, found := search(it.Value(), fmt.Sprintf("%s[%.60q]", path, fmt.Sprint(key))); found {
			return where, text, true
		}
	}
	return "", "", false
}
