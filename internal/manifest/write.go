package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Encode returns the content of the file. It is sorted and contains a line for each item, so that a
// change of an item changes only one line.
func (m *Manifest) Encode() []byte {
	w := &writer{}
	w.linef(0, "{")
	w.linef(1, `"format": %d,`, m.Format)
	w.linef(1, `"package": %s,`, quote(m.Package))
	section(w, "workflows", m.Workflows, w.workflow)
	w.text(",\n")
	section(w, "steps", m.Steps, func(s *Step) { w.value(s) })
	w.text(",\n")
	section(w, "declared", m.Declared, func(d *Declaration) { w.value(d) })
	w.text(",\n")
	section(w, "errors", m.Errors, func(ref string) { w.value(ref) })
	w.text(",\n")
	section(w, "types", m.Types, func(schema json.RawMessage) { w.value(schema) })
	w.text("\n}\n")
	return w.Bytes()
}

// Decode parses the content of a manifest file.
func Decode(data []byte) (*Manifest, error) {
	var m Manifest
	if err := json.Unmarshal(data, &m); err != nil {
		return nil, fmt.Errorf("read manifest: %w", err)
	}
	if m.Format < 1 || m.Format > Format {
		return nil, fmt.Errorf("read manifest: it has format %d, this release reads up to %d", m.Format, Format)
	}
	return &m, nil
}

// Current reports whether all hashes were computed with the algorithms of this release.
func (m *Manifest) Current() bool {
	for _, w := range m.Workflows {
		if !strings.HasPrefix(w.Shape, ShapeAlgorithm+":") || !strings.HasPrefix(w.Code, CodeAlgorithm+":") {
			return false
		}
	}
	return m.Format == Format
}

type writer struct{ bytes.Buffer }

func (w *writer) text(s string) { w.WriteString(s) }

func (w *writer) linef(depth int, format string, args ...any) {
	w.WriteString(strings.Repeat("\t", depth))
	fmt.Fprintf(w, format, args...)
	w.WriteByte('\n')
}

func (w *writer) value(v any) { w.WriteString(compact(v)) }

// section writes a JSON object with a line for each member.
func section[T any](w *writer, name string, items map[string]T, write func(T)) {
	if len(items) == 0 {
		fmt.Fprintf(w, "\t%s: {}", quote(name))
		return
	}
	fmt.Fprintf(w, "\t%s: {\n", quote(name))
	for i, key := range slices.Sorted(maps.Keys(items)) {
		if i > 0 {
			w.text(",\n")
		}
		fmt.Fprintf(w, "\t\t%s: ", quote(key))
		write(items[key])
	}
	w.text("\n\t}")
}

func (w *writer) workflow(f *Workflow) {
	head := *f
	head.Ops = nil
	text := compact(head)
	w.text(strings.TrimSuffix(text, "null}"))
	w.ops(3, f.Ops)
	w.text("}")
}

// ops writes a JSON array. Each op is on a separate line, and its inner blocks are on further
// lines.
func (w *writer) ops(depth int, ops []*Op) {
	indent := strings.Repeat("\t", depth)
	w.text("[")
	for i, o := range ops {
		if i > 0 {
			w.text(",")
		}
		w.text("\n" + indent)
		flat := *o
		flat.Body, flat.Else, flat.Ways = nil, nil, nil
		w.text(strings.TrimSuffix(compact(flat), "}"))
		for _, block := range []struct {
			name string
			ops  []*Op
		}{{"body", o.Body}, {"else", o.Else}} {
			if len(block.ops) > 0 {
				fmt.Fprintf(w, ", %q: ", block.name)
				w.ops(depth+1, block.ops)
			}
		}
		if len(o.Ways) > 0 {
			w.text(`, "ways": [`)
			for j, way := range o.Ways {
				if j > 0 {
					w.text(", ")
				}
				w.ops(depth+1, way)
			}
			w.text("]")
		}
		w.text("}")
	}
	w.text("]")
}

func quote(s string) string { return compact(s) }

// compact returns v as JSON on one line, with spaces after colons and commas.
func compact(v any) string {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic("manifest: cannot encode part of a manifest: " + err.Error())
	}
	return spaced(strings.TrimSuffix(b.String(), "\n"))
}

// spaced adds a space after each colon and comma that is outside of a string.
func spaced(s string) string {
	var b strings.Builder
	inString, escaped := false, false
	for i := range len(s) {
		c := s[i]
		b.WriteByte(c)
		switch {
		case escaped:
			escaped = false
		case inString && c == '\\':
			escaped = true
		case c == '"':
			inString = !inString
		case !inString && (c == ':' || c == ','):
			b.WriteByte(' ')
		}
	}
	return b.String()
}
