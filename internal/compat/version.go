package compat

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/internal/manifest"
)

// numbered returns the new operations as runs of the old code execute them. These runs skip the
// branches of versions that they cannot have. Results are therefore numbered without these
// branches, and expressions that depend on such a version are simplified.
func (o *orders) numbered(ops []*manifest.Op) []*manifest.Op {
	if len(o.unknown) == 0 && !slices.ContainsFunc(ops, func(op *manifest.Op) bool { return o.later(op) }) {
		return ops
	}
	names, count := map[string]string{}, map[string]int{}
	o.taken(ops, func(op *manifest.Op) {
		if base, _, ok := strings.Cut(op.Result, "#"); ok && names[op.Result] == "" {
			count[base]++
			names[op.Result] = base + "#" + strconv.Itoa(count[base])
		}
	})
	without := func(s string) string {
		for change := range o.unknown {
			s = withoutVersion(s, change)
		}
		return s
	}
	if len(names) == 0 {
		return o.forThem(rewritten(ops, without))
	}
	var alternatives []string
	for _, base := range slices.Sorted(maps.Keys(count)) {
		alternatives = append(alternatives, regexp.QuoteMeta(base))
	}
	pattern := regexp.MustCompile(`(?:` + strings.Join(alternatives, "|") + `)#[0-9]+`)
	rename := func(s string) string {
		return pattern.ReplaceAllStringFunc(s, func(name string) string {
			if now, ok := names[name]; ok {
				return now
			}
			return name
		})
	}
	out := rewritten(ops, func(s string) string { return rename(without(s)) })
	manifest.Walk(out, func(op *manifest.Op) {
		if op.Op == "get" {
			op.Name = rename(op.Name)
		}
	})
	return o.forThem(out)
}

// forNewRuns reports whether the branches of a guard are empty for all versions that runs of the
// old code can have.
func (o *orders) forNewRuns(guard *manifest.Op) bool {
	latest, ok := o.latest[guard.Name]
	return ok && latest < len(guard.Ways) && !slices.ContainsFunc(guard.Ways[:latest+1], func(way []*manifest.Op) bool { return len(way) > 0 })
}

// forThem returns ops without the guards for which forNewRuns is true.
func (o *orders) forThem(ops []*manifest.Op) []*manifest.Op {
	ops = slices.DeleteFunc(ops, func(op *manifest.Op) bool { return op.Op == "guard" && o.forNewRuns(op) })
	for _, op := range ops {
		op.Body, op.Else = o.forThem(op.Body), o.forThem(op.Else)
		for i, way := range op.Ways {
			op.Ways[i] = o.forThem(way)
		}
	}
	return ops
}

// later reports whether op contains a branch for a version that runs of the old code cannot have.
func (o *orders) later(op *manifest.Op) bool {
	found := false
	manifest.Walk([]*manifest.Op{op}, func(inner *manifest.Op) {
		latest, known := o.latest[inner.Name]
		found = found || inner.Op == "guard" && known && latest+1 < len(inner.Ways)
	})
	return found
}

// taken calls f for each op that a run of the old code can reach.
func (o *orders) taken(ops []*manifest.Op, f func(*manifest.Op)) {
	for _, op := range ops {
		f(op)
		blocks := op.Blocks()
		if latest, known := o.latest[op.Name]; op.Op == "guard" && known {
			blocks = op.Ways[:min(latest+1, len(op.Ways))]
		}
		for _, b := range blocks {
			o.taken(b, f)
		}
	}
}

// withoutVersion returns s with each expression that depends on the version of a change replaced by
// its value for version 0.
func withoutVersion(s, change string) string {
	mark := "((version(" + change + ") "
	for from := 0; ; {
		at := strings.Index(s[from:], mark)
		if at < 0 {
			return s
		}
		at += from
		from = at + 1
		cond := outside(s[at+1:], " ? ")
		if cond < 0 {
			continue
		}
		text, rest := s[at+1:at+1+cond], s[at+1+cond+len(" ? "):]
		yes := outside(rest, " : ")
		if yes < 0 {
			continue
		}
		no := outside(rest[yes+len(" : "):], ")")
		holds, known := holdsForNone(strings.TrimPrefix(text, "(version("+change+") "))
		if no < 0 || !known {
			continue
		}
		chosen := rest[yes+len(" : ") : yes+len(" : ")+no]
		after := rest[yes+len(" : ")+no+1:]
		if holds {
			chosen = rest[:yes]
		}
		s, from = s[:at]+chosen+after, at
	}
}

// holdsForNone reports whether version 0 satisfies a condition such as ">= 1)". known is false if
// the condition has another form.
func holdsForNone(cond string) (holds, known bool) {
	op, number, ok := strings.Cut(strings.TrimSuffix(cond, ")"), " ")
	n, err := strconv.Atoi(number)
	if !ok || err != nil {
		return false, false
	}
	switch op {
	case "==":
		return n == 0, true
	case "!=":
		return n != 0, true
	case "<":
		return 0 < n, true
	case "<=":
		return 0 <= n, true
	case ">":
		return 0 > n, true
	case ">=":
		return 0 >= n, true
	}
	return false, false
}

// outside returns the index of the first want in s that is outside of parentheses and quotes, or a
// negative number.
func outside(s, want string) int {
	depth := 0
	for i := 0; i < len(s); i++ {
		if depth == 0 && strings.HasPrefix(s[i:], want) {
			return i
		}
		switch s[i] {
		case '(', '[', '{':
			depth++
		case ')', ']', '}':
			depth--
		case '"':
			quoted, err := strconv.QuotedPrefix(s[i:])
			if err != nil {
				return -1
			}
			i += len(quoted) - 1
		}
		if depth < 0 {
			return -1
		}
	}
	return -1
}
