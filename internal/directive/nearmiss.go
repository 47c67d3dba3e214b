package directive

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
)

// nearMiss is flow and a word with whatever stands between them, cases aside.
var nearMiss = regexp.MustCompile(`^ *(?i:flow) *: *([[:alpha:]]+)(.*)$`)

// NearMiss reports whether c was meant as a directive but is spelt so that it
// is a plain comment ("// flow:step", "//Flow:step", "/*flow:step*/"), and what
// to write instead. Prose such as "// flow: step by step" is left alone: only
// known words followed by nothing or by options count.
func NearMiss(c *ast.Comment) (Problem, bool) {
	if Is(c) {
		return Problem{}, false
	}
	text, isLine := strings.CutPrefix(c.Text, "//")
	if !isLine {
		text = strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
		text = strings.TrimSpace(text)
	}
	m := nearMiss.FindStringSubmatch(text)
	if m == nil {
		return Problem{}, false
	}
	kind, rest := strings.ToLower(m[1]), strings.TrimSpace(m[2])
	if !slices.Contains(kinds, Kind(kind)) {
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = string(k)
		}
		if kind = Nearest(kind, names); kind == "" {
			return Problem{}, false
		}
	}
	if !looksLikeOptions(rest) {
		return Problem{}, false
	}
	return Problem{c.Pos(), "this comment is not a directive as it is written", "write " + prefix + kind + " without spaces, in lower case, in a // comment"}, true
}

// looksLikeOptions reports whether every word of s could be an option.
func looksLikeOptions(s string) bool {
	for word := range strings.FieldsSeq(s) {
		name, _, hasValue := strings.Cut(word, "=")
		if o, ok := options[name]; !hasValue && (!ok || !o.flag) {
			return false
		}
	}
	return true
}
