package console

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// words splits what somebody has typed at spaces. In quotes a space is one of the text.
func words(s string) []string {
	var all []string
	var b strings.Builder
	quoted, any := false, false
	end := func() {
		if any {
			all = append(all, b.String())
		}
		b.Reset()
		any = false
	}
	for _, r := range s {
		switch {
		case r == '"':
			quoted, any = !quoted, true
		case (r == ' ' || r == '\t' || r == '\n') && !quoted:
			end()
		default:
			b.WriteRune(r)
			any = true
		}
	}
	end()
	return all
}

// readFilter reads the line of a filter, as status:failed workflow:orders.fulfil tag:region=eu since:24h children.
func readFilter(line string, now time.Time) (admin.Filter, error) {
	var f admin.Filter
	for _, w := range words(line) {
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

func readTerm(f *admin.Filter, name, value string, now time.Time) (err error) {
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
		f.Since, err = moment(name, value, now)
	case "until":
		f.Until, err = moment(name, value, now)
	case "tag":
		key, v, ok := strings.Cut(value, "=")
		if !ok {
			return &admin.InputError{What: fmt.Sprintf("the tag %q has no =", value), Fix: "write tag:name=value"}
		}
		if f.Tags == nil {
			f.Tags = map[string]string{}
		}
		f.Tags[key] = v
	default:
		return &admin.InputError{What: fmt.Sprintf("a filter has no %q", name), Fix: "use status, workflow, queue, id, tag, since, until, parent, root, group; troubled, children, system, oldest; or the id of a run"}
	}
	return err
}

// moment reads a time, or how long ago it was.
func moment(name, s string, now time.Time) (time.Time, error) {
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04", "2006-01-02"} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	return time.Time{}, &admin.InputError{What: fmt.Sprintf("%s %q is no time", name, s), Fix: "write 2026-11-24, 2026-11-24T08:00:00Z, or how long ago, as 24h"}
}

// with returns the line of a filter with another status; empty: without one.
func with(line, status string) string {
	var kept []string
	for _, w := range words(line) {
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

// flags writes a filter as flowctl takes it.
func flags(f admin.Filter) string {
	var all []string
	add := func(name, value string) {
		if value != "" {
			all = append(all, "--"+name+" "+shell(value))
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
	for _, flag := range []struct {
		name string
		on   bool
	}{{"troubled", f.Troubled}, {"children", f.Children}, {"system", f.System}} {
		if flag.on {
			all = append(all, "--"+flag.name)
		}
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
