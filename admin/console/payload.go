package console

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
)

// The bounds of what is shown of a payload. All of it can be saved.
const (
	maxNodes = 300
	maxDepth = 12
	maxText  = 2000
)

// payloadView is JSON as people read it.
type payloadView struct {
	Size int
	Tree *valueView
	Text string // its beginning, as it is stored
	Cut  bool   // there is more than is shown
}

// valueView is one value of JSON.
type valueView struct {
	Name   string // of a field, or the number of an element
	Text   string // of a value without parts; of others what they are
	Kind   string // string, number, word, object, array
	Parts  []*valueView
	Opened bool
}

// payloadOf returns JSON for people; nil: there is none.
func payloadOf(b []byte) *payloadView {
	if len(b) == 0 {
		return nil
	}
	p := &payloadView{Size: len(b), Text: cutLines(b)}
	p.Cut = len(b) > maxText
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber() // as it is, however large
	r := &valueReader{d: d, left: maxNodes}
	p.Tree = r.value("", 0)
	if r.left <= 0 || r.deep {
		p.Cut = true
	}
	return p
}

func cutLines(b []byte) string {
	more := ""
	if len(b) > maxText {
		b, more = b[:maxText], "…"
	}
	return visible(strings.ToValidUTF8(string(b), "")) + more
}

// valueReader reads as much of a value as is shown.
type valueReader struct {
	d    *json.Decoder
	left int
	deep bool
}

// value reads one; nil: neither it nor the rest is shown.
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
		_, _ = r.d.Token() // its end; an error stops what follows as well
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
