package admin

import (
	"fmt"
	"strings"
	"time"
)

// SplitWords splits what somebody has typed at spaces. A space between double quotes belongs to its word, and the quotes do not.
func SplitWords(s string) []string {
	var all []string
	var b strings.Builder
	quoted, begun := false, false
	end := func() {
		if begun {
			all = append(all, b.String())
		}
		b.Reset()
		begun = false
	}
	for _, r := range s {
		switch {
		case r == '"':
			quoted, begun = !quoted, true
		case (r == ' ' || r == '\t' || r == '\n') && !quoted:
			end()
		default:
			b.WriteRune(r)
			begun = true
		}
	}
	end()
	return all
}

// ParseFilter reads a filter that somebody has typed, such as
//
//	status:failed,canceled workflow:orders.fulfil tag:region=eu since:24h troubled
//
// The names before a colon are status, workflow, queue, id, tag, since, until, parent, root and group, each of which overwrites
// an earlier one but for status and tag; words alone are troubled, children, system, oldest, and any other is a workflow id. Times are
// those of [ParseTime]. An empty line is the zero Filter. The error is an *InputError.
func ParseFilter(line string, now time.Time) (Filter, error) {
	var f Filter
	for _, w := range SplitWords(line) {
		name, value, ok := strings.Cut(w, ":")
		if !ok {
			switch w {
			case "troubled":
				f.Troubled = true
			case "children":
				f.Children = true
			case "system":
				f.System = true
			case "oldest":
				f.Oldest = true
			default: // most likely the id of what somebody looks for
				f.WorkflowID = w
			}
			continue
		}
		if err := readTerm(&f, name, value, now); err != nil {
			return f, err
		}
	}
	return f, nil
}

func readTerm(f *Filter, name, value string, now time.Time) (err error) {
	switch name {
	case "status":
		f.Statuses = append(f.Statuses, strings.Split(value, ",")...)
	case "workflow":
		f.Workflow = value
	case "queue":
		f.Queue = value
	case "id":
		f.WorkflowID = value
	case "parent":
		f.Parent = value
	case "root":
		f.Root = value
	case "group":
		f.Group = value
	case "since":
		f.Since, err = ParseTime(name, value, now)
	case "until":
		f.Until, err = ParseTime(name, value, now)
	case "tag":
		key, v, ok := strings.Cut(value, "=")
		if !ok {
			return &InputError{What: fmt.Sprintf("the tag %q has no =", value), Fix: "write tag:name=value"}
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[key] = v
	default:
		return &InputError{What: fmt.Sprintf("a filter has no %q", name), Fix: "use status, workflow, queue, id, tag, since, until, parent, root, group; troubled, children, system, oldest; or the id of a run"}
	}
	return err
}

// ParseTime reads a time that somebody has typed: a day as 2026-11-24, which begins at 00:00 UTC, a time of RFC 3339, one without
// seconds and zone, in UTC, or how long before now it was, as 24h. The error is an *InputError; name says in it which time was meant.
func ParseTime(name, s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &InputError{What: fmt.Sprintf("%s %q is no time", name, s), Fix: "write 2026-11-24, 2026-11-24T08:00:00Z, or how long ago, as 24h"}
}
