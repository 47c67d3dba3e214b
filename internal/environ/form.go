package environ

import (
	"errors"
	"math"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/caarlos0/env/v11"
)

// A form is the form of the values of a variable.
type form struct {
	want   string                            // description, such as "a duration"
	normal func(text string) (string, error) // converts a value to the form of the parser; nil: it has that form
}

var (
	numberForm   = form{want: "a whole number of at least 1"}
	sizeForm     = form{want: "a number of bytes of at least 1, optionally with a unit of kB, MB, GB, KiB, MiB or GiB, such as 2MiB", normal: bytesOf}
	durationForm = form{want: "a duration above zero, such as 10s or 1m30s"}
	boolForm     = form{want: "true or false"}
	listForm     = form{want: "names separated by commas, such as default,mail"}
	mapForm      = form{want: "distinct names with whole numbers of at least 0, separated by commas, such as gpu=2,mail=10"}
	urlForm      = form{want: "a URL"}
	textForm     = form{want: "text"}
)

// formOf returns the form of a field of type t with the tags form and secret.
func formOf(t reflect.Type, tag, secret string) form {
	switch {
	case secret == "url":
		return urlForm
	case tag == "size":
		return sizeForm
	}
	switch t {
	case reflect.TypeFor[int]():
		return numberForm
	case reflect.TypeFor[time.Duration]():
		return durationForm
	case reflect.TypeFor[bool]():
		return boolForm
	case reflect.TypeFor[[]string]():
		return listForm
	case reflect.TypeFor[map[string]int]():
		return mapForm
	case reflect.TypeFor[string]():
		return textForm
	}
	panic("environ: no form for type " + t.String())
}

// parsers parses the types of fields with other rules than those of package env.
var parsers = map[reflect.Type]env.ParserFunc{
	reflect.TypeFor[int](): func(text string) (any, error) { return number(text, 1) },
	reflect.TypeFor[time.Duration](): func(text string) (any, error) {
		d, err := time.ParseDuration(text)
		if err == nil && d <= 0 {
			err = errRange
		}
		return d, err
	},
	reflect.TypeFor[[]string](): func(text string) (any, error) {
		all := items(text)
		if len(all) == 0 {
			return nil, errRange
		}
		return all, nil
	},
	reflect.TypeFor[map[string]int](): func(text string) (any, error) {
		all := map[string]int{}
		for _, item := range items(text) {
			name, value, _ := strings.Cut(item, "=")
			name = strings.TrimSpace(name)
			n, err := number(strings.TrimSpace(value), 0)
			if _, double := all[name]; err != nil || double || name == "" {
				return nil, errors.Join(err, errRange)
			}
			all[name] = n
		}
		if len(all) == 0 {
			return nil, errRange
		}
		return all, nil
	},
}

// errRange is the cause of an error about a value that can be parsed but is not allowed.
var errRange = errors.New("the value is out of range")

func number(text string, least int) (int, error) {
	n, err := strconv.Atoi(text)
	if err == nil && n < least {
		err = errRange
	}
	return n, err
}

// items returns the items of a list that is separated by commas, without empty ones.
func items(text string) (all []string) {
	for item := range strings.SplitSeq(text, ",") {
		if item = strings.TrimSpace(item); item != "" {
			all = append(all, item)
		}
	}
	return all
}

// units contains the units of sizes. A unit that ends another one is behind it.
var units = []struct {
	name string
	size int
}{{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"kB", 1e3}, {"MB", 1e6}, {"GB", 1e9}}

// bytesOf returns a size as a number of bytes.
func bytesOf(text string) (string, error) {
	for _, u := range units {
		if digits, ok := strings.CutSuffix(text, u.name); ok {
			n, err := number(strings.TrimSpace(digits), 1)
			if err != nil || n > math.MaxInt/u.size {
				return "", errors.Join(err, errRange)
			}
			return strconv.Itoa(n * u.size), nil
		}
	}
	return text, nil
}
