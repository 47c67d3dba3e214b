package directive

import (
	"go/ast"
	"regexp"
	"slices"
	"strings"
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
		if kind = Nearest(kind, names); kind == "" {
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

// Nearest returns the candidate that is most similar to word, or "" if none is similar enough. At
// most two letters, and at most a third of the letters, may differ.
func Nearest(word string, candidates []string) string {
	best, bestDistance := "", 3
	for _, c := range candidates {
		limit := min(2, max(1, len(c)/3))
		if d := distance(strings.ToLower(word), strings.ToLower(c)); d <= limit && d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance returns the edit distance between a and b. It is the number of insertions, deletions and
// replacements of single letters and of swaps of neighboring letters.
func distance(a, b string) int {
	x, y := []rune(a), []rune(b)
	var before []int
	row := make([]int, len(y)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(x); i++ {
		next := make([]int, len(y)+1)
		next[0] = i
		for j := 1; j <= len(y); j++ {
			cost := 1
			if x[i-1] == y[j-1] {
				cost = 0
			}
			next[j] = min(next[j-1]+1, row[j]+1, row[j-1]+cost)
			if i > 1 && j > 1 && x[i-1] == y[j-2] && x[i-2] == y[j-1] {
				next[j] = min(next[j], before[j-2]+1)
			}
		}
		before, row = row, next
	}
	return row[len(y)]
}
