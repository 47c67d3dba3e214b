package failure

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/flowgen/flowgen/runtime/event"
)

// These constants are the limits of a stored failure. If a failure within the limits becomes a
// cause of another failure, the result is cut to the limits again. So a failure that passes through
// any number of runs has a bounded size in each of them.
const (
	// MaxText bounds the message of an error and its stack, each in bytes.
	MaxText = 64 << 10
	// MaxCauses bounds the number of causes stored with a failure, at any depth.
	MaxCauses = 100
	// causesText bounds the total length of the messages of all causes. causesStack bounds the
	// total length of their stacks.
	causesText, causesStack = 64 << 10, 64 << 10
	// maxData bounds the total length of the values of all errors of a failure. A value cannot be
	// cut. If a value exceeds the bound, the error keeps its type name, but its value cannot be
	// decoded.
	maxData = 256 << 10
	// leastText is the smallest bound for the text of a cause, in bytes.
	leastText = 512
	// maxWalk bounds the number of causes that are visited.
	maxWalk = 1000
)

// mark matches the mark that replaces the cut part of a text.
var mark = regexp.MustCompile(`…\[([0-9]{1,18}) bytes cut\]…`)

// Cut returns s if it has at most limit bytes. Otherwise it replaces the middle of s by a mark that
// contains the number of removed bytes. The end of s is kept because the end of an error text
// usually describes the first cause. If s was cut before, Cut removes more text at the same mark.
// The result is valid UTF-8; invalid bytes become U+FFFD.
func Cut(s string, limit int) string {
	if len(s) <= limit {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	head, tail, cut := s[:len(s)/2], s[len(s)/2:], 0
	if marks := mark.FindAllStringSubmatchIndex(s, -1); marks != nil {
		first, last := marks[0], marks[len(marks)-1]
		head, tail = s[:first[0]], s[last[1]:]
		for i, m := range marks {
			n, _ := strconv.Atoi(s[m[2]:m[3]]) // the pattern limits the digits, so they fit an int
			if cut += n; i > 0 {
				cut += m[0] - marks[i-1][1] // plus the text between two marks
			}
		}
	}
	space := max(limit-len("…[999999999 bytes cut]…"), 0)
	front := min(len(head), max(space/2, space-len(tail)))
	back := min(len(tail), space-front)
	for front > 0 && front < len(head) && !utf8.RuneStart(head[front]) {
		front--
	}
	for back > 0 && back < len(tail) && !utf8.RuneStart(tail[len(tail)-back]) {
		back--
	}
	cut += len(head) - front + len(tail) - back
	return strings.ToValidUTF8(fmt.Sprintf("%s…[%d bytes cut]…%s", head[:front], cut, tail[len(tail)-back:]), "\uFFFD")
}

// Panicked returns the failure of code that panicked.
func Panicked(text string, stack []byte) *event.Failure {
	return &event.Failure{Code: event.CodePanic, Message: Cut(text, MaxText), Stack: Cut(string(stack), MaxText)}
}

// node is a failure in the tree of causes, with the index of its parent.
type node struct {
	f      *event.Failure
	parent int
	keep   bool
}

// bound returns f if it is within the limits. Otherwise it returns a reduced copy and leaves f
// unchanged, because parts of f may be shared.
func bound(f *event.Failure) *event.Failure {
	nodes := flatten(f)
	if within(nodes) {
		return f
	}
	choose(nodes)
	kept := 0
	for _, n := range nodes {
		if n.keep {
			kept++
		}
	}
	share := max(causesText/max(kept-1, 1), leastText)
	data, stacks := maxData, causesStack
	copies := make([]*event.Failure, len(nodes))
	for i, n := range nodes {
		if !n.keep {
			if n.parent >= 0 {
				copies[i] = copies[n.parent] // the causes of a dropped failure become causes of its parent
			}
			continue
		}
		c := *n.f
		c.Causes = nil
		text, stack := share, min(stacks, MaxText)
		if i == 0 {
			text, stack = MaxText, MaxText
		}
		c.Message, c.Stack = Cut(c.Message, text), Cut(c.Stack, stack)
		if i > 0 {
			stacks = max(stacks-len(c.Stack), leastText)
			c.Undone, c.NotUndone = nil, nil // the outermost failure contains these lists
		}
		if data -= len(c.Data); data < 0 {
			data += len(c.Data)
			c.Data = nil
		}
		copies[i] = &c
		if i > 0 {
			up := copies[n.parent]
			up.Causes = append(up.Causes, &c)
		}
	}
	return copies[0]
}

// flatten returns a failure and its causes, in the order in which Is and As visit them.
func flatten(f *event.Failure) []node {
	nodes := []node{{f: f, parent: -1}}
	var walk func(at int)
	walk = func(at int) {
		for _, c := range nodes[at].f.Causes {
			if c == nil || len(nodes) > maxWalk {
				continue
			}
			nodes = append(nodes, node{f: c, parent: at})
			walk(len(nodes) - 1)
		}
	}
	walk(0)
	return nodes
}

// within reports whether the flattened failure is within all limits.
func within(nodes []node) bool {
	text, stack, data := 0, 0, len(nodes[0].f.Data)
	for _, n := range nodes {
		if !utf8.ValidString(n.f.Message) || !utf8.ValidString(n.f.Stack) {
			return false
		}
	}
	for _, n := range nodes[1:] {
		text, stack, data = text+len(n.f.Message)+size(n.f.Undone)+size(n.f.NotUndone), stack+len(n.f.Stack), data+len(n.f.Data)
	}
	top := nodes[0].f
	return len(nodes) <= MaxCauses+1 && len(top.Message) <= MaxText && len(top.Stack) <= MaxText &&
		text <= causesText && stack <= causesStack && data <= maxData
}

func size(list []string) (n int) {
	for _, s := range list {
		n += len(s)
	}
	return n
}

// choose marks the nodes to keep, in the following order. The failure itself is kept. Then for each
// type name the node is kept that Is and As find first, so that their results do not change. Then
// the last cause is kept, which usually describes the original error, and then the nodes nearest to
// the failure.
func choose(nodes []node) {
	left := MaxCauses
	keep := func(i int) {
		if !nodes[i].keep && left > 0 {
			nodes[i].keep = true
			left--
		}
	}
	nodes[0].keep = true
	type name struct {
		name  string
		value bool
	}
	seen := map[name]bool{}
	for i, n := range nodes {
		if k := (name{n.f.Type, n.f.Data != nil}); n.f.Type != "" && !seen[k] {
			seen[k] = true
			keep(i)
		}
	}
	keep(len(nodes) - 1)
	for i := range nodes {
		keep(i)
	}
}
