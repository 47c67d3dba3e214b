package console

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// with returns the line of a filter with another status; empty: without one.
func with(line, status string) string {
	var kept []string
	for _, w := range admin.SplitWords(line) {
		if !strings.HasPrefix(w, "status:") {
			kept = append(kept, quote(w))
		}
	}
	if status != "" {
		kept = append([]string{"status:" + status}, kept...)
	}
	return strings.Join(kept, " ")
}

// quote writes a word so that it stays one.
func quote(w string) string {
	if strings.ContainsAny(w, " \t\n") {
		return `"` + w + `"`
	}
	return w
}

// condition is a part of a filter. One without a value is on.
type condition struct{ name, value string }

// conditions returns the parts of a filter.
func conditions(f admin.Filter) (all []condition) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, condition{name, value})
		}
	}
	add("status", strings.Join(f.Statuses, ","))
	add("workflow", f.Workflow)
	add("queue", f.Queue)
	add("id", f.WorkflowID)
	for _, k := range slices.Sorted(maps.Keys(f.Tags)) {
		add("tag", k+"="+f.Tags[k])
	}
	add("parent", f.Parent)
	add("root", f.Root)
	add("group", f.Group)
	add("since", day(f.Since))
	add("until", day(f.Until))
	for _, word := range []struct {
		name string
		on   bool
	}{{"troubled", f.Troubled}, {"children", f.Children}, {"system", f.System}} {
		if word.on {
			all = append(all, condition{name: word.name})
		}
	}
	return all
}

// flags writes a filter as flowctl takes it.
func flags(f admin.Filter) string {
	var all []string
	for _, c := range conditions(f) {
		flag := "--" + c.name
		if c.value != "" {
			flag += " " + shell(c.value)
		}
		all = append(all, flag)
	}
	return strings.Join(all, " ")
}

// day writes a time for a flag; empty: there is none.
func day(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.UTC().Format(time.RFC3339)
}

// shell writes a word as a shell takes it.
func shell(s string) string {
	plain := s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r))
	})
	if plain {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// lineOf writes a filter as it is typed.
func lineOf(f admin.Filter) string {
	var all []string
	for _, c := range conditions(f) {
		word := c.name
		if c.value != "" {
			word = quote(c.name + ":" + c.value)
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}
