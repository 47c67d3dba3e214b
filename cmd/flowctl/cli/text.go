package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"
)

// clean replaces what a terminal would obey, such as escapes and marks that turn the direction of
// writing round: names and messages come from everywhere.
func clean(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "\\u%04x", r)
		}
	}
	return b.String()
}

// table writes columns. What stands in them is cleaned.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...string) *table {
	t := continueTable(w)
	t.row(head...)
	return t
}

// continueTable returns a table without a head.
func continueTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 2, 0, 2, ' ', 0)} }

func (t *table) row(cells ...string) {
	for i, c := range cells {
		cells[i] = clean(c)
	}
	fmt.Fprintln(t.w, strings.TrimRight(strings.Join(cells, "\t"), "\t "))
}

func (t *table) end() error { return t.w.Flush() }

// instant writes a time as machines and people read it.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// took writes a duration with three digits or so.
func took(d time.Duration) string {
	switch {
	case d < 0:
		return "0s"
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < time.Minute:
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}

// onTerminal reports whether somebody reads from a terminal.
func onTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printEach prints values in the forms of output that have one on each line: JSON, or its name. It reports false
// for other forms.
func printEach[T any](c *command, all []T, name func(v *T) string) (printed bool, err error) {
	for i := range all {
		switch c.output {
		case "jsonl":
			err = c.print(&all[i])
		case "name":
			_, err = fmt.Fprintln(c.Stdout, clean(name(&all[i])))
		}
		if err != nil {
			break
		}
	}
	return c.output == "jsonl" || c.output == "name", err
}
