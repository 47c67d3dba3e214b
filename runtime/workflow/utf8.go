package workflow

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Package json silently replaces a byte that is not UTF-8 with U+FFFD, which changes strings and
// may merge two keys of a map. Therefore a value with such a string is refused when it is encoded,
// and stored text with such a byte is refused when it is decoded.

// notUTF8 marks a replaced byte: package json writes it as an escape only if a string was not
// UTF-8.
var notUTF8 = []byte(`\ufffd`)

// checkWritten returns an error if data, the stored form of v, differs from v because of invalid
// UTF-8. The output of a MarshalJSON method is accepted unchanged if it is UTF-8.
func checkWritten(v any, data []byte) error {
	changed := bytes.Contains(data, notUTF8)
	if !changed && utf8.Valid(data) {
		return nil
	}
	path, text, found := search(reflect.ValueOf(v), "")
	switch {
	case found && path == "":
		return fmt.Errorf("it is not UTF-8 (%.60q): pass bytes as []byte", text)
	case found:
		return fmt.Errorf("%s is not UTF-8 (%.60q): pass bytes as []byte", path, text)
	case utf8.Valid(data):
		return nil // the escape comes from a user's MarshalJSON or RawMessage
	}
	return checkRead(data)
}

// checkRead returns an error for stored text that package json would change when decoding it: bytes
// that are not UTF-8, and halves of surrogate pairs, which encoders in other languages can produce.
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

// search finds the first string in v, as package json encodes v, that is not UTF-8, and returns its
// path. It is called only for values that package json could encode.
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

// ownText returns the text that a value encodes itself to, and whether it encodes itself, so that
// package json does not look into it. The output of MarshalJSON is not examined.
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
	for i := range v.NumField() {
		f := v.Type().Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() && !f.Anonymous {
			continue
		}
		in := path
		switch {
		case name == "" && f.Anonymous:
		case name == "":
			in = join(path, f.Name)
		default:
			in = join(path, name)
		}
		if where, text, found := search(v.Field(i), in); found {
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

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// validJSON returns an error if data is not JSON, or would be changed by decoding.
func validJSON(data []byte) error {
	if !json.Valid(data) {
		return errors.New("it is not JSON")
	}
	return checkRead(data)
}
