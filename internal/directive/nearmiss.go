package directive

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/spelling"
)

// nearMiss matches "flow", a colon and a word, in any case and with any spaces between them. The
// prefix of another tool may precede them, as in "@flow:step" and "go:flow:step".
var nearMiss = regexp.MustCompile(`^ *(?:[@+] *|(?i:go):)?(?i:flow(?:gen)?) *: *([[:alpha:]]+)(.*)$`)

// nearMissNoColon matches "flow" and a word with a separator other than a colon, or with none.
// Prose may have a similar form, so nothing else may precede "flow", and the kind must be spelled
// correctly.
var nearMissNoColon = regexp.MustCompile(`^(?:[@+]|go:)?flow(?:gen)?[-._]?([a-z]+)((?:[ \t].*)?)$`)

// NearMiss reports whether c was meant as a directive but has the form of a plain comment, such as
// "// flow:step", "//Flow:step", "/*flow:step*/", "//flowgen:step", "//flow-step" or "//
// +flow:step". The problem contains the correct form. NearMiss does not report prose such as "//
// flow: step by step". After a known word, it accepts only options or the end of the comment.
func NearMiss(c *ast.Comment) (Problem, bool) {
	if Is(c) {
		return Problem{}, false
	}
	text, isLine := strings.CutPrefix(c.Text, "//")
	if !isLine {
		text = strings.TrimSuffix(strings.TrimPrefix(c.Text, "/*"), "*/")
		text = strings.TrimSpace(text)
	}
	kind, rest, exact, ok := matchNearMiss(text, isLine)
	if !ok {
		return Problem{}, false
	}
	if !slices.Contains(kinds, Kind(kind)) {
		if exact {
			return Problem{}, false
		}
		names := make([]string, len(kinds))
		for i, k := range kinds {
			names[i] = string(k)
		}
		if kind = spelling.Nearest(kind, names); kind == "" {
			return Problem{}, false
		}
	}
	if !looksLikeOptions(rest) {
		return Problem{}, false
	}
	return Problem{c.Pos(), "this comment is not a directive as it is written", "write " + prefix + kind + " without spaces, in lower case, in a // comment"}, true
}

// matchNearMiss returns the word that may be a kind and the text after it. If exact is true, the
// caller must accept the word only if it is spelled correctly.
func matchNearMiss(text string, isLine bool) (kind, rest string, exact, ok bool) {
	m := nearMiss.FindStringSubmatch(text)
	if m == nil && isLine {
		m, exact = nearMissNoColon.FindStringSubmatch(text), true
	}
	if m == nil {
		return "", "", false, false
	}
	return strings.ToLower(m[1]), strings.TrimSpace(m[2]), exact, true
}

// looksLikeOptions reports whether every word of s has the form of an option.
func looksLikeOptions(s string) bool {
	for word := range strings.FieldsSeq(s) {
		name, _, hasValue := strings.Cut(word, "=")
		if o, ok := options[name]; !hasValue && (!ok || !o.flag) {
			return false
		}
	}
	return true
}
