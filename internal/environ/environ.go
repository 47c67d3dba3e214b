package environ

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"reflect"
	"strings"

	"github.com/caarlos0/env/v11"
)

// Setting is the value of a field and its source.
type Setting struct {
	Name   string // of the variable
	Value  string // in the form of the variable, without secrets; empty if there is no value
	Source Source
	File   string // path of the file, if that is the source
}

// Source is the source of a value.
type Source string

// The sources of values.
const (
	Default  Source = "default"
	Variable Source = "variable"
	File     Source = "file"
)

// Load sets the fields of the struct to which cfg points from the environment of the process. It
// does not change fields whose variable is not set. The error joins all *UnknownError and
// *ValueError.
func Load(cfg any) error {
	vars := env.ToMap(os.Environ())
	_, errs := read(cfg, vars)
	return errors.Join(append(unknown(vars), errs...)...)
}

// Read is like Load, but it does not report unknown variables, and returns the settings of all
// fields. If a field has no variable, its setting is the default.
func Read(cfg any) ([]Setting, []error) { return read(cfg, env.ToMap(os.Environ())) }

// SetDefaults sets each field that has a default and whose value is zero or negative.
func SetDefaults(cfg any) {
	values := map[string]string{}
	for _, f := range fieldsOf(cfg) {
		if v := reflect.ValueOf(cfg).Elem().FieldByIndex(f.index); f.def != "" && (v.IsZero() || v.CanInt() && v.Int() < 0) {
			values[f.name] = f.def
		}
	}
	if errs := set(cfg, values); len(errs) > 0 {
		panic(fmt.Sprintf("environ: the defaults of %T: %v", cfg, errors.Join(errs...)))
	}
}

// field is a field of a config struct.
type field struct {
	index  []int
	goName string
	name   string // of the variable
	def    string
	secret string
	form   form
}

func fieldsOf(cfg any) (all []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeOf(cfg).Elem()) {
		if name := f.Tag.Get("env"); name != "" {
			all = append(all, field{
				index: f.Index, goName: f.Name, name: name, def: f.Tag.Get("default"), secret: f.Tag.Get("secret"),
				form: formOf(f.Type, f.Tag.Get("form"), f.Tag.Get("secret")),
			})
		}
	}
	return all
}

func read(cfg any, vars map[string]string) (settings []Setting, errs []error) {
	values := map[string]string{}
	for _, f := range fieldsOf(cfg) {
		value, s, err := f.read(vars)
		if err != nil {
			errs = append(errs, err)
		}
		if err == nil && value != "" {
			values[f.name] = value
		}
		settings = append(settings, s)
	}
	return settings, append(errs, set(cfg, values)...)
}

// read returns the value of a field in the environment, or "" if it is not set.
func (f *field) read(vars map[string]string) (value string, s Setting, err error) {
	value, s = f.trim(vars[f.name]), Setting{Name: f.name, Value: f.def, Source: Default}
	if f.secret != "" {
		s.File = strings.TrimSpace(vars[f.name+fileSuffix])
	}
	if s.File != "" {
		if value != "" {
			return "", s, &ValueError{Name: f.name, What: "and " + f.name + fileSuffix + " are set", Want: "one of them"}
		}
		s.Source = File
		if value, err = readSecret(s.File); err != nil {
			return "", s, &ValueError{Name: f.name + fileSuffix, Value: s.File, What: fmt.Sprintf("is %q, which cannot be used (%v)", s.File, err), Want: "the path of a file that contains the value", Err: err}
		}
		value = f.trim(value)
	}
	if value == "" {
		return "", s, nil
	}
	if s.Source == Default {
		s.Source = Variable
	}
	s.Value = value
	switch f.secret {
	case "yes":
		s.Value = Hidden
	case "url":
		s.Value = HidePassword(value)
	}
	return value, s, nil
}

// trim removes the white space around a value. It does not change passwords and tokens.
func (f *field) trim(value string) string {
	if f.secret == "yes" {
		return value
	}
	return strings.TrimSpace(value)
}

// readSecret returns the content of a file without the line break at its end.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	value := strings.TrimRight(string(b), "\r\n")
	if value == "" {
		return "", errors.New("the file is empty")
	}
	return value, nil
}

// set sets the fields of a struct to values by the names of their variables.
func set(cfg any, values map[string]string) (errs []error) {
	normal, byField := map[string]string{}, map[string]field{}
	for _, f := range fieldsOf(cfg) {
		byField[f.goName] = f
		value, ok := values[f.name]
		if ok && f.form.normal != nil {
			var err error
			if value, err = f.form.normal(value); err != nil {
				errs = append(errs, f.invalid(values[f.name], err))
				continue
			}
		}
		normal[f.name] = value
	}
	// Parse into a new struct, because env.Parse follows the pointers in the struct.
	parsed := reflect.New(reflect.TypeOf(cfg).Elem())
	err := env.ParseWithOptions(parsed.Interface(), env.Options{Environment: normal, FuncMap: parsers})
	if err == nil {
		for _, f := range byField {
			if normal[f.name] != "" {
				reflect.ValueOf(cfg).Elem().FieldByIndex(f.index).Set(parsed.Elem().FieldByIndex(f.index))
			}
		}
		return errs
	}
	all, ok := errors.AsType[env.AggregateError](err)
	if !ok {
		return append(errs, err)
	}
	for _, err := range all.Errors {
		wrong, ok := errors.AsType[env.ParseError](err)
		if f, known := byField[wrong.Name]; ok && known {
			err = f.invalid(values[f.name], wrong.Err)
		}
		errs = append(errs, err)
	}
	return errs
}

// invalid returns the error about a value that does not have the form of the field.
func (f *field) invalid(value string, cause error) error {
	if f.secret != "" {
		return &ValueError{Name: f.name, What: "is invalid", Want: f.form.want}
	}
	return &ValueError{Name: f.name, Value: value, What: fmt.Sprintf("is %q", value), Want: f.form.want, Err: cause}
}

// Hidden replaces a secret.
const Hidden = "******"

// HidePassword returns a URL without its passwords. If text has no form in which the password can
// be found, the result contains no part of it.
func HidePassword(text string) string {
	u, err := url.Parse(text)
	if err != nil || u.User == nil && strings.Contains(text, "@") {
		return Hidden
	}
	query, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return Hidden
	}
	for name := range query {
		if strings.Contains(strings.ToLower(name), "password") {
			query.Set(name, "xxxxx")
			u.RawQuery = query.Encode()
		}
	}
	return u.Redacted()
}
