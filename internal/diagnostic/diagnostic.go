// Package diagnostic represents the mistakes that the generator reports. A diagnostic consists of a
// position, a problem and a fix.
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

// Diagnostic is one mistake in the user's source. Line is zero if the line is not known. File is
// empty if the file is not known.
type Diagnostic struct {
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Column int    `json:"column,omitempty"`
	What   string `json:"what"` // the problem, starting with a name or a lower-case word
	Fix    string `json:"fix"`  // the fix in the imperative; empty if What implies the fix
}

// New returns a diagnostic at position p with a problem and its fix.
func New(p token.Position, what, fix string) Diagnostic {
	return Diagnostic{File: p.Filename, Line: p.Line, Column: p.Column, What: what, Fix: fix}
}

// String returns "file:line:col: what: fix" on one line. It omits unknown parts. The result is
// [Printable].
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

// Printable returns s with escapes for all characters that a terminal or the log of a CI system
// would interpret. It keeps tabs. Diagnostics contain texts from users, which may contain any
// characters.
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

// Sorted returns a new slice with ds sorted by file, line, column and text, without duplicates.
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

// Relative returns a new slice in which file names are relative to dir if possible. They contain
// forward slashes.
func Relative(dir string, ds []Diagnostic) []Diagnostic {
	relative := slices.Clone(ds)
	for i, d := range relative {
		relative[i].File = RelativePath(dir, d.File)
	}
	return relative
}

// RelativePath returns path relative to dir, with forward slashes. If path has no relative form, it
// returns path unchanged.
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
