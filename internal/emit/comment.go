package emit

import (
	"strings"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/directive"
	"github.com/flowgen/flowgen/internal/model"
)

// doc writes the doc comment of a generated declaration: the user's comment, followed by a sentence
// about the implementation. If the user's comment starts with the name of the implementation, doc
// replaces the name by the generated name, as Go conventions require.
func (e *emitter) doc(f *jen.File, fn *model.Function, receiver *model.Receiver) {
	text := strings.TrimRight(fn.Doc, "\n")
	link := "[" + fn.Impl + "]"
	if receiver != nil {
		link = "[" + receiver.Type.Name() + "." + fn.Impl + "]"
	}
	is := " is the durable counterpart of "
	switch fn.Directive.Kind {
	case directive.Workflow:
		is = " starts and awaits runs of "
	case directive.Machine:
		is = " starts and awaits runs of the machine "
	case directive.DAG:
		is = " starts and awaits runs of the graph "
	}
	if e.client != nil {
		link = fn.Impl + " in package " + e.model.Path
	}
	if text == "" {
		text = fn.GoName + is + link + "."
	} else {
		text += "\n\nIt" + is + link + "."
	}
	if rest, ok := strings.CutPrefix(text, fn.Impl); ok && (rest == "" || strings.ContainsRune(" \n,.:;'", rune(rest[0]))) {
		text = fn.GoName + rest
	}
	for line := range strings.SplitSeq(text, "\n") {
		switch {
		case line == "":
			f.Comment("//")
		case strings.HasPrefix(line, "\t"):
			f.Comment("//" + line)
		default:
			f.Comment("// " + line)
		}
	}
}
