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

// Package json writes a byte that is not UTF-8 as U+FFFD and says nothing, so that
// strings change, and two keys of a map become one. A value with such a string is
// refused where it is written, and stored text with such a byte where it is read.

// notUTF8 is the mark of a changed byte: only where a string was not UTF-8 does package
// json write it as an escape.
var notUTF8 = []byte(`\ufffd`)

// checkWritten refuses v if data, its stored form, does not say what v does. What a
// MarshalJSON has written is taken as it is, as long as it is UTF-8.
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
		return nil // somebody's own MarshalJSON or RawMessage has that escape
	}
	return checkRead(data)
}

// checkRead refuses stored text that package json would change when it reads it: bytes
// that are not UTF-8, and halves of surrogate pairs, which other languages can write.
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

// loneSurrogate returns where JSON escapes half of a surrogate pair; -1: nowhere.
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

// escaped returns the number of an escape \uXXXX with which b begins; -1: of none.
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

// search finds the first string in v that is not UTF-8, as package json sees v, and
// returns where it is. It is called for values that package json could write.
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

// ownText returns what a value says of itself, and whether it does: package json does
// not look into it then. What a MarshalJSON says is not looked at.
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

// validJSON refuses what is not JSON, or would not be read as it is.
func validJSON(data []byte) error {
	if !json.Valid(data) {
		return errors.New("it is not JSON")
	}
	return checkRead(data)
}
