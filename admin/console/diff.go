package console

import (
	"slices"
	"strings"

	"github.com/flowgen/flowgen/admin"
)

// diffLine is a line of a difference.
type diffLine struct {
	Kind string // -, + or a space
	Text string // with its sign
}

// maxDiffLines bounds how much of a difference is shown.
const maxDiffLines = 200

// diffLines reads a difference whose lines begin with -, + or a space.
func diffLines(text string) []diffLine {
	if text == "" {
		return nil
	}
	var all []diffLine
	for line := range strings.SplitSeq(strings.TrimRight(text, "\n"), "\n") {
		if len(all) == maxDiffLines {
			return append(all, diffLine{" ", "…"})
		}
		kind := " "
		if strings.HasPrefix(line, "-") || strings.HasPrefix(line, "+") {
			kind = line[:1]
		}
		all = append(all, diffLine{kind, cutLines([]byte(line))})
	}
	return all
}

// compare returns the lines of two texts: those only in the first with -, those only in the second with +.
func compare(before, after string) []diffLine {
	a, b := linesOf(before), linesOf(after)
	// longest[i][j] is how many lines a[i:] and b[j:] have in common, in order.
	longest := make([][]int, len(a)+1)
	for i := range longest {
		longest[i] = make([]int, len(b)+1)
	}
	for i, v := range slices.Backward(a) {
		for j := len(b) - 1; j >= 0; j-- {
			if v == b[j] {
				longest[i][j] = longest[i+1][j+1] + 1
			} else {
				longest[i][j] = max(longest[i+1][j], longest[i][j+1])
			}
		}
	}
	var all []diffLine
	add := func(kind, line string) {
		all = append(all, diffLine{kind, kind + " " + cutLines([]byte(line))})
	}
	i, j := 0, 0
	for i < len(a) || j < len(b) {
		switch {
		case i < len(a) && j < len(b) && a[i] == b[j]:
			add(" ", a[i])
			i, j = i+1, j+1
		case j == len(b) || i < len(a) && longest[i+1][j] >= longest[i][j+1]:
			add("-", a[i])
			i++
		default:
			add("+", b[j])
			j++
		}
	}
	return all
}

// linesOf returns the first lines of a text.
func linesOf(text string) []string {
	all := strings.Split(strings.TrimRight(text, "\n"), "\n")
	if len(all) > maxDiffLines {
		all = append(all[:maxDiffLines:maxDiffLines], "…")
	}
	return all
}

// attemptView is how one attempt of a step has ended, and how that differs from the one before.
type attemptView struct {
	Number  int
	Failure *admin.Failure
	Diff    []diffLine // to the attempt before; nil: it is the first, or nothing differs
	Same    bool       // as the attempt before
}

// attemptsOf compares the failures of attempts with each other.
func attemptsOf(failures []*admin.Failure) []attemptView {
	var all []attemptView
	for i, f := range failures {
		v := attemptView{Number: i + 1, Failure: f}
		if i > 0 {
			before, after := failureText(failures[i-1]), failureText(f)
			if v.Same = before == after; !v.Same {
				v.Diff = compare(before, after)
			}
		}
		all = append(all, v)
	}
	return all
}

// failureText returns all that tells a failure from another one, a value on each line.
func failureText(f *admin.Failure) string {
	var s strings.Builder
	s.WriteString(f.Message)
	if f.Code != "" {
		s.WriteString("\ncode: " + f.Code)
	}
	if len(f.Data) > 0 {
		s.WriteString("\ndata: " + cutLines(f.Data))
	}
	if f.Stack != "" {
		s.WriteString("\n" + f.Stack)
	}
	for _, cause := range f.Causes {
		s.WriteString("\nbecause of: " + failureText(cause))
	}
	return s.String()
}
