// Package diagnostic holds what the generator says about a mistake: where it
// is, what is wrong, and how to mend it.
package diagnostic

import (
	"cmp"
	"fmt"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Diagnostic is one mistake in a user's source. The zero Line means that no
// position is known, the empty File that not even a file is.
type Diagnostic struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"` // what is wrong, starting with a name or a lower-case word
	Fix    string `json:"fix"`  // how to mend it, an imperative; empty when What says it all
}

// New returns a diagnostic at p.
func New(p token.Position, what, fix string) Diagnostic {
	return Diagnostic{File: p.Filename, Line: p.Line, Column: p.Column, What: what, Fix: fix}
}

// String returns "file:line:col: what: fix" on one line, leaving out what is not
// known. It is [Printable].
func (d Diagnostic) String() string {
	var parts []string
	switch {
	case d.File != "" && d.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d:%d", d.File, d.Line, d.Column))
	case d.File != "":
		parts = append(parts, d.File)
	}
	parts = append(parts, d.What)
	if d.Fix != "" {
		parts = append(parts, d.Fix)
	}
	return Printable(lineBreak.ReplaceAllString(strings.Join(parts, ": "), " "))
}

var lineBreak = regexp.MustCompile(`[ \t]*[\r\n]+[ \t]*`)

// Printable returns s with an escape for every character that a terminal or the
// log of a CI system would interpret rather than show; tabs stay. What users
// write, and so what is said about it, may hold anything.
func Printable(s string) string {
	var b strings.Builder
	for i, r := range s {
		switch {
		case r == utf8.RuneError && !strings.HasPrefix(s[i:], string(utf8.RuneError)):
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t' || unicode.IsPrint(r):
			b.WriteRune(r)
		default:
			quoted := strconv.QuoteRune(r)
			b.WriteString(quoted[1 : len(quoted)-1])
		}
	}
	return b.String()
}

// Sorted returns ds by file, line, column and text, each once, in a new slice.
func Sorted(ds []Diagnostic) []Diagnostic {
	sorted := slices.Clone(ds)
	slices.SortFunc(sorted, func(a, b Diagnostic) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File),
			cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.What, b.What),
			cmp.Compare(a.Fix, b.Fix),
		)
	})
	return slices.Compact(sorted)
}

// Relative returns ds with file names relative to dir, with forward slashes,
// where that is possible, in a new slice.
func Relative(dir string, ds []Diagnostic) []Diagnostic {
	relative := slices.Clone(ds)
	for i, d := range relative {
		relative[i].File = RelativePath(dir, d.File)
	}
	return relative
}

// RelativePath returns path relative to dir with forward slashes, or path
// itself where it has no relative form.
func RelativePath(dir, path string) string {
	if path == "" || !filepath.IsAbs(path) {
		return path
	}
	rel, err := filepath.Rel(dir, path)
	if err != nil {
		return path
	}
	return filepath.ToSlash(rel)
}
