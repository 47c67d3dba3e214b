package workflow

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"

	"github.com/flowgen/flowgen/runtime/internal/replay"
)

// decodeInput reads what input gave. all is false if something that is stored has no
// place in today's type.
func (d *definition) decodeInput(data []byte, into any) (all bool, err error) {
	what := d.inputName()
	if d.param == "" {
		return decodeAll(what, data, into)
	}
	var object map[string]json.RawMessage
	if err := decode(what, data, &object); err != nil {
		return false, err
	}
	value, ok := object[d.param]
	for name := range object {
		if !ok && strings.EqualFold(name, d.param) { // as the fields of an object of several parameters
			value, ok = object[name], true
		}
	}
	all, err = decodeAll(what, value, into)
	return all && (len(object) == 0 || ok && len(object) == 1), err
}

// decodeAll is decode, and reports whether all that is stored has a place in the type
// of into. What a type reads by a method of its own has one.
func decodeAll(what string, data []byte, into any) (all bool, err error) {
	v := reflect.ValueOf(into).Elem()
	switch v.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64, reflect.Float64:
		return true, decode(what, data, into) // nothing in them has a name
	}
	if len(data) == 0 || readAll(data, into) {
		return true, nil
	}
	v.SetZero()
	return false, decode(what, data, into)
}

// readAll reports whether data could be read, and every field of it has a place.
func readAll(data []byte, into any) (ok bool) {
	defer func() { _ = recover() }() // decode says what it was
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// refuseRenamed blocks the run if a name of its input was changed: it does not return
// then. in is the decoded input.
func (d *definition) refuseRenamed(ctx Context, stored []byte, in any) {
	today, err := d.encodeInput(in)
	if err != nil {
		return
	}
	if r := replay.FindRenaming(stored, today); r != nil {
		b := ctx.branch()
		b.Block(&replay.RenamedError{Run: b.Run().ID(), What: d.inputName(), Directive: "//flow:workflow", Renaming: *r})
	}
}

// decodeArgs is [engine.DecodeArgs].
func decodeArgs(run RunID, step string, args []byte, into any) error {
	return decodeFitting(run, "input of step ", step, "//flow:step", args, into)
}

// decodeFields is [engine.DecodeFields].
func decodeFields(run RunID, what string, data []byte, into any) error {
	return decodeFitting(run, what, "", "", data, into)
}

// decodeFitting reads a stored value. An error that a name was changed is a
// *[replay.RenamedError].
func decodeFitting(run RunID, kind, name, directive string, data []byte, into any) error {
	all, err := decodeAll(kind, data, into)
	if all || err != nil {
		return about(err, name)
	}
	today, err := marshal(kind, into)
	if err != nil {
		return about(err, name)
	}
	if r := replay.FindRenaming(data, today); r != nil {
		return &replay.RenamedError{Run: run, What: kind + name, Directive: directive, Renaming: *r}
	}
	return nil
}
