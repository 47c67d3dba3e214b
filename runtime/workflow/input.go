package workflow

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/store"
)

// decodeInput reads the result of encodeInput. all is false if the stored data has fields that the
// current type does not have.
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
		if !ok && strings.EqualFold(name, d.param) { // matched like the fields of an object of several parameters
			value, ok = object[name], true
		}
	}
	all, err = decodeAll(what, value, into)
	return all && (len(object) == 0 || ok && len(object) == 1), err
}

// decodeAll is like decode, and reports whether the type of into has a place for everything that is
// stored. Types with their own decoding method are assumed to have one.
func decodeAll(what string, data []byte, into any) (all bool, err error) {
	v := reflect.ValueOf(into).Elem()
	switch v.Kind() {
	case reflect.Bool, reflect.String, reflect.Int, reflect.Int64, reflect.Float64:
		return true, decode(what, data, into) // these kinds contain no names
	}
	if len(data) == 0 || readAll(data, into) {
		return true, nil
	}
	v.SetZero()
	return false, decode(what, data, into)
}

// readAll reports whether data could be decoded and the type has a place for every field.
func readAll(data []byte, into any) (ok bool) {
	defer func() { _ = recover() }() // decode reports the error
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	return d.Decode(into) == nil
}

// firsts returns the first runs of the chains of loaded runs, with their first frames. A run that
// does not continue another one is its own first run. The others are read in one request.
func (c *Client) firsts(ctx context.Context, loaded []store.Loaded) ([]store.Loaded, error) {
	firsts := slices.Clone(loaded)
	var which []int
	var loads []store.Load
	for n := range loaded {
		if r := &loaded[n].Record; loaded[n].Err == nil && r.Chain != r.Run {
			which, loads = append(which, n), append(loads, store.Load{Run: r.Chain, Limit: 1})
		}
	}
	found, err := c.loadAll(ctx, loads)
	for k := range found {
		firsts[which[k]] = found[k]
	}
	return firsts, err
}

// startedWith reports whether a run was started with this input. l contains the first frame of the
// run.
func startedWith(l *store.Loaded, input []byte) (bool, error) {
	if l.Err != nil {
		return false, l.Err
	}
	f, err := event.DecodeFrame(slices.Concat(l.Frames...))
	if err != nil {
		return false, &EventError{Run: l.Record.Run, Frame: 1, Err: err}
	}
	return equalJSON(f.Events[0].Payload, input), nil
}

// equalJSON compares two encoded values, each of which may be empty. White space, escapes and the
// order of members do not matter; numbers are compared as written.
func equalJSON(a, b []byte) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var values [2]any
	for n, data := range [][]byte{a, b} {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if d.Decode(&values[n]) != nil {
			return false
		}
	}
	return reflect.DeepEqual(values[0], values[1])
}

// refuseRenamed blocks the run, and does not return, if a field name of its input was changed. in
// is the decoded input.
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

// decodeArgs implements [engine.DecodeArgs].
func decodeArgs(run RunID, step string, args []byte, into any) error {
	return decodeFitting(run, "input of step ", step, "//flow:step", args, into)
}

// decodeFields implements [engine.DecodeFields].
func decodeFields(run RunID, what string, data []byte, into any) error {
	return decodeFitting(run, what, "", "", data, into)
}

// decodeFitting decodes a stored value. It returns a *[replay.RenamedError] if a field name was
// changed.
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
