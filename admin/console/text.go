package console

import (
	"fmt"
	"html/template"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
)

// functions returns the functions that templates can call.
func (t *templates) functions() template.FuncMap {
	return template.FuncMap{
		"minute":       func(t time.Time) string { return t.UTC().Format("Mon 2006-01-02 15:04 UTC") },
		"scheduleverb": func(name string) verb { return scheduleVerbs[name] },
		"columns":      func(list string) []column { return lists[list] },
		"cells":        func(string, any, *drawn) ([]cell, error) { return nil, nil }, // placeholder; each page defines its own function
		"figure":       figure,
		"text":         textOf,
		"bounds":       func(p admin.Pool) string { return bounds(&p) },
		"asset":        func(name string) string { return t.h.cfg.Prefix + "assets/" + t.h.assets.hashed(name) },
		"link":         func(parts ...string) string { return link(t.h.cfg.Prefix, parts...) },
		"visible":      func(s string) any { return t.drawMarks(visible(s)) },
		"cut":          func(n int, s string) any { return t.drawMarks(cut(n, s)) },
		"shown":        t.drawMarks,
		"number":       number[int],
		"seq":          number[uint64],
		"took":         took,
		"ago":          ago,
		"clock":        func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
		"instant":      instant,
		"facts":        facts,
		"code":         func(k admin.ColumnKind) bool { return k == admin.KindCode },
		"iso":          func(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) },
		"size":         size,
		"word":         word,
		"can":          func(p admin.Principal, role string) bool { return p.Role.Allows(admin.Role(role)) },
		"plural":       plural,
		"persecond":    admin.PerSecond,
		"list":         func(all ...any) []any { return all },
		"status":       func(r any) string { return statusOf(rowOf[admin.Run](r)) },
		"doing":        func(now time.Time, r admin.Run) string { return nowOf(now, &r) },
		"lasted":       func(now time.Time, r admin.Run) string { return took(r.Took(now)) },
		"verb":         func(name string) verb { return verbs[name] },
		"act":          func(name, run string) string { return t.h.cfg.Prefix + "act/" + name + "?run=" + queryEscape(run) },
		"query":        queryEscape,
		"severity":     func(s string) string { return severities[s] },
		"served":       byQueue,
		"parts":        partsOf,
		"target":       func(e admin.JournalEntry) string { return targetOf(t.h.cfg.Prefix, &e) },
		"sorted":       func(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) },
	}
}

func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05.000 UTC") }

// visible replaces characters that would be invisible or misleading. These are control characters,
// and marks that change the direction of writing. It keeps line breaks and tabs.
func visible(s string) string {
	if strings.Contains(s, markOpens) {
		return aroundMarks(s, visible)
	}
	if strings.IndexFunc(s, hidden) < 0 && utf8.ValidString(s) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if hidden(r) {
			fmt.Fprintf(&b, "\\u%04x", r)
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

func hidden(r rune) bool {
	return !unicode.IsPrint(r) && r != '\n' && r != '\t'
}

// cut returns the first n characters of a text on one line. Marks of sealed data do not count.
func cut(n int, s string) string {
	if strings.Contains(s, markOpens) {
		return aroundMarks(s, func(s string) string { return cut(n, s) })
	}
	if len(s) > 4*n+4 { // the rest of a long text is not needed
		s = s[:4*n+4]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && !utf8.RuneStart(s[len(s)-1]) {
			s = s[:len(s)-1]
		}
	}
	s = strings.Join(strings.Fields(s), " ")
	if utf8.RuneCountInString(s) <= n {
		return visible(s)
	}
	return visible(string([]rune(s)[:n-1])) + "…"
}

// unbroken is the maximum length of a name that is never broken into several lines, in characters.
const unbroken = 18

// partsOf splits a name at the positions where a line may be broken. These are after dots and
// within long parts.
func partsOf(name string) []string {
	var all []string
	for part := range strings.SplitAfterSeq(name, ".") {
		runes := []rune(part)
		for ; len(runes) > unbroken; runes = runes[unbroken:] {
			all = append(all, string(runes[:unbroken]))
		}
		all = append(all, string(runes))
	}
	return all
}

// number formats a number with thousands separators.
func number[N int | uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// took formats a duration with about two units.
func took(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return "0 ms"
	case d < time.Second:
		return fmt.Sprint(d.Milliseconds(), " ms")
	case d < 10*time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	case d < time.Minute:
		return fmt.Sprint(int(d.Seconds()), " s")
	case d < time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60), " 0 s")
	case d < 48*time.Hour:
		return strings.TrimSuffix(fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60), " 0 min")
	}
	return fmt.Sprint(int(d.Hours())/24, " d")
}

// ago formats the distance of a time from now.
func ago(now, t time.Time) string {
	d := now.Sub(t)
	switch {
	case d < -time.Second:
		return "in " + roughly(-d)
	case d < time.Second:
		return "now"
	}
	return roughly(d) + " ago"
}

func roughly(d time.Duration) string {
	switch {
	case d < time.Minute:
		return fmt.Sprint(int(d.Seconds()), " s")
	case d < time.Hour:
		return fmt.Sprint(int(d.Minutes()), " min")
	case d < 48*time.Hour:
		return fmt.Sprint(int(d.Hours()), " h")
	}
	return fmt.Sprint(int(d.Hours())/24, " d")
}

func size(n int) string {
	switch {
	case n < 1<<10:
		return fmt.Sprint(n, " B")
	case n < 1<<20:
		return fmt.Sprintf("%.1f KB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%.1f MB", float64(n)/(1<<20))
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return number(n) + " " + many
}

// word replaces the underscores in a name with spaces.
func word(s string) string { return strings.ReplaceAll(s, "_", " ") }
