package emit

import (
	"strings"

	"github.com/dave/jennifer/jen"
	"github.com/flowgen/flowgen/internal/model"
)

// doc writes the user's doc comment over the generated declaration. Where it
// starts with the name of the implementation, the generated name takes its
// place, as Go wants it.
func (e *emitter) doc(f *jen.File, fn *model.Function) {
	text := strings.TrimRight(fn.Doc, "\n")
	if text == "" {
		text = fn.GoName + " is the durable counterpart of " + fn.Impl + "."
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
