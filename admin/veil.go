package admin

import (
	"reflect"
	"regexp"

	"github.com/flowgen/flowgen/runtime/event"
)

// veil takes the tokens of hooks out of what a principal gets who may not resume hooks: a token is all that one needs for that. They
// stand in the workflow ids of the runs that hold them, in texts of errors, and in the differences between code and log. Whatever a
// service returns to a principal goes through here; what workflows have put into payloads themselves does not.
func veil[T any](p Principal, v *T) {
	if !p.Role.Allows(RoleOperator) {
		veilValue(reflect.ValueOf(v).Elem())
	}
}

// veilValue veils all strings of a value, in copies of what it points to: others may have that, too.
func veilValue(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		if v.CanSet() {
			v.SetString(veiled(v.String()))
		}
	case reflect.Pointer:
		if v.IsNil() || !v.CanSet() {
			return
		}
		own := reflect.New(v.Type().Elem())
		own.Elem().Set(v.Elem())
		veilValue(own.Elem())
		v.Set(own)
	case reflect.Slice:
		if v.IsNil() || !v.CanSet() || v.Type().Elem().Kind() == reflect.Uint8 { // payloads
			return
		}
		own := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(own, v)
		for i := range own.Len() {
			veilValue(own.Index(i))
		}
		v.Set(own)
	case reflect.Struct:
		for i := range v.NumField() {
			veilValue(v.Field(i))
		}
		if f, ok := v.Addr().Interface().(*Failure); ok && hasToken(string(f.Data)) {
			f.Data = nil
		}
	}
}

// veiledRun stands for the workflow id of a run that holds a token.
var veiledRun = event.ShownID(event.HookRunID(""))

// tokens are how tokens stand in texts, and what stands there instead.
var tokens = []struct {
	is      *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`"hook:(?:[^"\\]|\\.)*"`), `"` + veiledRun + `"`},
	{regexp.MustCompile(`\bhook:[^\s",;)]+`), veiledRun},
	{regexp.MustCompile(`\btoken "(?:[^"\\]|\\.)*"`), `token "***"`},
	{regexp.MustCompile(`(?m)^([-+] token ).*$`), "$1***"},
	{regexp.MustCompile(`\b(` + event.PrefixRun + `_[0-9A-Za-z]+)\.[A-Za-z0-9_-]{22}`), "$1.***"},
	{regexp.MustCompile(`"(?i:token)": *"(?:[^"\\]|\\.)*"`), `"token":"***"`},
}

func veiled(text string) string {
	if text = event.ShownID(text); text == veiledRun { // its token has any bytes
		return text
	}
	for _, t := range tokens {
		text = t.is.ReplaceAllString(text, t.instead)
	}
	return text
}

func hasToken(text string) bool { return text != "" && veiled(text) != text }
