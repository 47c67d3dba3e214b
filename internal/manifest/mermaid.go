package manifest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Mermaid returns the workflows of a manifest as Mermaid flow charts.
func Mermaid(m *Manifest) []byte {
	var d drawing
	for _, name := range slices.Sorted(maps.Keys(m.Workflows)) {
		d.linef("---\ntitle: %s\n---\nflowchart TD", name)
		d.nodes = 0
		start := d.node("([%s])", m.Workflows[name].Go)
		end := d.block(m.Workflows[name].Ops, []edge{{from: start}})
		stop := d.node("([%s])", "end")
		d.join(end, stop)
		d.linef("")
	}
	return []byte(d.text.String())
}

// edge is the beginning of an arrow whose target is drawn later.
type edge struct{ from, label string }

type drawing struct {
	text  strings.Builder
	nodes int
}

func (d *drawing) linef(format string, args ...any) { fmt.Fprintf(&d.text, format+"\n", args...) }

// node adds a node with a shape and a label, and returns its name.
func (d *drawing) node(form, label string) string {
	d.nodes++
	name := fmt.Sprint("n", d.nodes)
	d.linef("\t%s"+form, name, `"`+mermaidEscaper.Replace(label)+`"`)
	return name
}

var mermaidEscaper = strings.NewReplacer(`"`, "#quot;", "<", "#lt;", ">", "#gt;", "\n", " ")

func (d *drawing) join(from []edge, to string) {
	for _, e := range from {
		if e.label == "" {
			d.linef("\t%s --> %s", e.from, to)
		} else {
			d.linef("\t%s -- %s --> %s", e.from, `"`+mermaidEscaper.Replace(e.label)+`"`, to)
		}
	}
}

// block draws ops in sequence. It returns the arrows that leave the last op.
func (d *drawing) block(ops []*Op, in []edge) []edge {
	for _, o := range ops {
		switch {
		case o.Op == "let" || o.Op == "do" || o.Op == "version":
		case o.Op == "return" || o.Op == "leave":
			return nil
		case o.Op == "if" && !carries([]*Op{o}):
		case o.Op == "if":
			cond := d.node("{%s}", o.Text)
			d.join(in, cond)
			in = append(d.block(o.Body, []edge{{cond, "yes"}}), d.block(o.Else, []edge{{cond, "no"}})...)
		case o.Op == "switch":
			cond := d.node("{%s}", o.Text)
			d.join(in, cond)
			in = []edge{{cond, "other"}}
			for _, c := range o.Body {
				in = append(in, d.block(c.Body, []edge{{cond, c.Text}})...)
			}
		case o.Op == "guard":
			cond := d.node("{%s}", "version of "+o.Name)
			d.join(in, cond)
			in = nil
			for v, way := range o.Ways {
				in = append(in, d.block(way, []edge{{cond, fmt.Sprint(v)}})...)
			}
		case o.Op == "loop" || o.Op == "map" || o.Op == "go":
			head := d.node("[[%s]]", strings.TrimSpace(o.Op+" "+o.Text))
			d.join(in, head)
			if back := d.block(o.Body, []edge{{head, "each"}}); o.Op != "go" {
				d.join(back, head)
			}
			in = []edge{{from: head}}
		default:
			n := d.node("[%s]", strings.TrimSpace(o.Op+" "+o.Name))
			d.join(in, n)
			for _, b := range o.Blocks() {
				d.block(b, []edge{{n, "when it matters"}})
			}
			in = []edge{{from: n}}
		}
	}
	return in
}
