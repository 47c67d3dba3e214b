package payload

import (
	"go/token"
	"go/types"
)

// encoding is a pair of methods with which a type encodes itself.
type encoding struct{ marshal, unmarshal string }

var encodings = []encoding{{"MarshalJSON", "UnmarshalJSON"}, {"MarshalText", "UnmarshalText"}}

// custom checks a type with its own encoding and reports whether t is such a type. The result is
// true even if the methods are invalid.
func (c *checker) custom(at place, t types.Type) bool {
	if _, isPointer := t.Underlying().(*types.Pointer); isPointer || types.IsInterface(t) {
		return false
	}
	pointer := types.NewPointer(t)
	reads, writes := "", ""
	for _, e := range encodings {
		if writes == "" && hasMethod(pointer, e.marshal) {
			writes = e.marshal
		}
		if reads == "" && hasMethod(pointer, e.unmarshal) {
			reads = e.unmarshal
		}
	}
	if writes == "" && reads == "" {
		return false
	}
	c.judge(at, t, writes, reads)
	return true
}

func (c *checker) judge(at place, t types.Type, writes, reads string) {
	for _, e := range encodings {
		switch {
		case writes == e.marshal && reads == "":
			c.fault(at, t, "has "+e.marshal+" but no "+e.unmarshal+", so it cannot be read back", "add "+e.unmarshal)
			return
		case reads == e.unmarshal && writes == "":
			c.fault(at, t, "has "+e.unmarshal+" but no "+e.marshal+", so it is not written as it is read", "add "+e.marshal)
			return
		case writes == e.marshal && reads != e.unmarshal:
			c.fault(at, t, "is written by "+writes+" but read by "+reads, "add "+e.unmarshal)
			return
		}
	}
	if embedded := promotedFrom(t, writes); embedded != "" {
		c.fault(at, t, "is stored by "+writes+" of the embedded "+embedded+", so its other fields would be lost",
			"give the field a name, or give the type its own "+writes)
		return
	}
	if !at.addressable && !hasMethod(t, writes) {
		c.fault(at, t, "has "+writes+" on its pointer only, which is not called for a plain value",
			"use *"+types.TypeString(t, types.RelativeTo(c.from))+" here, or give "+writes+" a value receiver")
	}
}

// hasMethod reports whether encoding/json would call the named method of t. This is the case if the
// method set of t contains it with the signature of its interface.
func hasMethod(t types.Type, name string) bool {
	sel := types.NewMethodSet(t).Lookup(nil, name)
	if sel == nil {
		return false
	}
	sig, ok := sel.Type().(*types.Signature)
	return ok && types.Identical(types.NewSignatureType(nil, nil, nil, sig.Params(), sig.Results(), sig.Variadic()), signatures[name])
}

var signatures = map[string]*types.Signature{
	"MarshalJSON": marshals, "UnmarshalJSON": unmarshals, "MarshalText": marshals, "UnmarshalText": unmarshals,
}

var (
	marshals   = types.NewSignatureType(nil, nil, nil, nil, tuple(bytesType, errorType), false)
	unmarshals = types.NewSignatureType(nil, nil, nil, tuple(bytesType), tuple(errorType), false)

	bytesType = types.NewSlice(types.Typ[types.Byte])
	errorType = types.Universe.Lookup("error").Type()
)

func tuple(ts ...types.Type) *types.Tuple {
	vars := make([]*types.Var, len(ts))
	for i, t := range ts {
		vars[i] = types.NewParam(token.NoPos, nil, "", t)
	}
	return types.NewTuple(vars...)
}

// promotedFrom returns the embedded field from which t has the named method, or "". It ignores a
// type without other fields.
func promotedFrom(t types.Type, method string) string {
	s, ok := t.Underlying().(*types.Struct)
	if !ok || s.NumFields() < 2 {
		return ""
	}
	sel := types.NewMethodSet(types.NewPointer(t)).Lookup(nil, method)
	if sel == nil || len(sel.Index()) < 2 {
		return ""
	}
	return s.Field(sel.Index()[0]).Name()
}
