package manifest

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
)

// The algorithms of the hashes. A hash with another algorithm is recomputed and never compared.
const (
	ShapeAlgorithm = "s2"
	CodeAlgorithm  = "c2"
)

// digest returns the first bytes of a hash of text as hexadecimal digits.
func digest(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:8])
}

// Fingerprint returns a hash of the JSON form of v, as a manifest contains it.
func Fingerprint(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic("manifest: cannot encode part of a manifest: " + err.Error()) // All types of a manifest can be encoded, so this cannot happen.
	}
	return ShapeAlgorithm + ":" + digest(string(data))
}

// shapeOf returns a hash of the operations with their names, keys and arguments. It ignores
// conditions and variables.
func shapeOf(ops []*Op) string {
	var b strings.Builder
	writeShape(&b, ops)
	return ShapeAlgorithm + ":" + digest(b.String())
}

// carries reports whether a block contains operations. Control flow does not count.
func carries(ops []*Op) bool {
	found := false
	Walk(ops, func(o *Op) {
		switch o.Op {
		case "if", "loop", "switch", "case", "let", "do", "return", "leave", "defer":
		default:
			found = true
		}
	})
	return found
}

func writeShape(b *strings.Builder, ops []*Op) {
	for _, o := range ops {
		if !carries([]*Op{o}) {
			continue
		}
		quoted := func(s string) { b.WriteString(digest(s)) }
		for _, s := range append([]string{o.Op, o.Name, o.Key, o.Queue}, o.Args...) {
			quoted(s)
		}
		for _, block := range [][]*Op{o.Body, o.Else} {
			b.WriteByte('(')
			writeShape(b, block)
			b.WriteByte(')')
		}
		for _, way := range o.Ways {
			b.WriteByte('[')
			writeShape(b, way)
			b.WriteByte(']')
		}
	}
}

// codeOf returns a hash of everything that influences operations. That includes the ops with their
// conditions, variables and limits, and the bodies of the functions that they name.
func codeOf(ops []*Op) string {
	data, err := json.Marshal(ops)
	if err != nil {
		panic("manifest: cannot encode operations: " + err.Error())
	}
	return CodeAlgorithm + ":" + digest(string(data))
}
