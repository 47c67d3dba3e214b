package generator

import (
	"fmt"
	"strings"

	"github.com/flowgen/flowgen/internal/diagnostic"
)

// maxDiffLines is the maximum number of lines that diff prints of each side.
const maxDiffLines = 20

// diff returns the lines from the first to the last difference as a unified diff with one hunk. It
// truncates long hunks.
func diff(file, before, after string) string {
	a, b := lines(before), lines(after)
	start := 0
	for start < len(a) && start < len(b) && a[start] == b[start] {
		start++
	}
	endA, endB := len(a), len(b)
	for endA > start && endB > start && a[endA-1] == b[endB-1] {
		endA--
		endB--
	}
	file = diagnostic.Printable(file)
	var s strings.Builder
	fmt.Fprintf(&s, "--- %s (on disk)\n+++ %s (generated)\n", file, file)
	fmt.Fprintf(&s, "@@ -%d,%d +%d,%d @@\n", start+1, endA-start, start+1, endB-start)
	side(&s, "-", a[start:endA])
	side(&s, "+", b[start:endB])
	return s.String()
}

func lines(s string) []string {
	ls := strings.Split(strings.TrimSuffix(s, "\n"), "\n")
	for i, l := range ls {
		ls[i] = diagnostic.Printable(strings.TrimSuffix(l, "\r"))
	}
	return ls
}

func side(s *strings.Builder, mark string, ls []string) {
	shown := ls[:min(len(ls), maxDiffLines)]
	for _, l := range shown {
		s.WriteString(mark + l + "\n")
	}
	if rest := len(ls) - len(shown); rest > 0 {
		fmt.Fprintf(s, "%s… %d more lines\n", mark, rest)
	}
}
