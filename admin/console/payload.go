package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// Limits of the part of a payload that a page shows. The whole payload can be downloaded.
const (
	maxNodes = 300
	maxDepth = 12
	maxText  = 2000
)

// payloadView is formatted JSON.
type payloadView struct {
	Size int
	Tree *valueView
	Text string // beginning of the stored text
	Cut  bool   // whether the payload is longer than Text
	// Sealed is the mark of a sealed payload, which has no other fields except its size.
	Sealed string
}

// valueView is one JSON value.
type valueView struct {
	Name   string // name of a field, or index of an element
	Text   string // a scalar value, or a summary of an object or array
	Kind   string // string, number, word, object or array
	Parts  []*valueView
	Opened bool
}

// payloadOf formats JSON. It returns nil for an empty payload.
func payloadOf(b []byte) *payloadView {
	if len(b) == 0 {
		return nil
	}
	if m := markOf(string(b)); m != nil {
		return &payloadView{Size: int(m.Size), Sealed: string(b)}
	}
	p := &payloadView{Size: len(b), Text: cutLines(b)}
	p.Cut = len(b) > maxText
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // keeps all digits of numbers
	r := &valueReader{d: d, left: maxNodes}
	p.Tree = r.value("", 0)
	if r.left <= 0 || r.deep {
		p.Cut = true
	}
	return p
}

func cutLines(b []byte) string {
	if bytes.Contains(b, []byte(markOpens)) {
		return visible(string(b))
	}
	more := ""
	if len(b) > maxText {
		b, more = b[:maxText], "…"
	}
	return visible(strings.ToValidUTF8(string(b), "")) + more
}

// valueReader reads the part of a value that a page shows.
type valueReader struct {
	d    *json.Decoder
	left int
	deep bool
}

// value reads one value. It returns nil if a limit is reached, so that the rest of the payload is
// not shown.
func (r *valueReader) value(name string, depth int) *valueView {
	if r.left <= 0 {
		return nil
	}
	r.left--
	token, err := r.d.Token()
	if err != nil {
		r.left = 0
		return nil
	}
	v := &valueView{Name: cut(80, name), Opened: depth < 2}
	switch t := token.(type) {
	case json.Delim:
		v.Kind = map[json.Delim]string{'{': "object", '[': "array"}[t]
		if depth >= maxDepth {
			r.deep, r.left = true, 0
			v.Text = "…"
			return v
		}
		r.parts(v, t == '{', depth)
	case string:
		v.Kind, v.Text = "string", quoted(t)
	case json.Number:
		v.Kind, v.Text = "number", cut(100, t.String())
	default:
		v.Kind, v.Text = "word", fmt.Sprint(t)
		if t == nil {
			v.Text = "null"
		}
	}
	return v
}

func (r *valueReader) parts(v *valueView, named bool, depth int) {
	for i := 0; r.d.More() && r.left > 0; i++ {
		name := fmt.Sprint(i)
		if named {
			token, err := r.d.Token()
			if err != nil {
				r.left = 0
				return
			}
			name, _ = token.(string)
		}
		if part := r.value(name, depth+1); part != nil {
			v.Parts = append(v.Parts, part)
		}
	}
	if r.left > 0 {
		_, _ = r.d.Token() // the closing delimiter; after an error, the following reads fail as well
	}
	v.Text = plural(len(v.Parts), "element", "elements")
	if named {
		v.Text = plural(len(v.Parts), "field", "fields")
	}
}

func quoted(s string) string {
	if len(s) > maxText {
		return `"` + cutLines([]byte(s)) + `"`
	}
	return `"` + visible(s) + `"`
}
