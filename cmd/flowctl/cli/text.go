package cli

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode"

	"github.com/flowgen/flowgen/admin"
)

// sealedData matches the data in the forms of event.Shown and event.ShownText. The base64 of sealed
// data begins with "+", because of their mark.
var sealedData = regexp.MustCompile(`\{"flowgen\.sealed":\{(?:"key":"([^"]*)",)?"size":(\d+),"data":"[^"]*"\}\}|sealed(?:, key ([\w.-]+))?, (\d+) B: \+[A-Za-z0-9+/=]+`)

// brief replaces sealed data by their key and size, for people.
func brief(s string) string {
	if !strings.Contains(s, "sealed") {
		return s
	}
	return sealedData.ReplaceAllStringFunc(s, func(found string) string {
		m := sealedData.FindStringSubmatch(found)
		if key := cmp.Or(m[1], m[3]); key != "" {
			return fmt.Sprintf("sealed, key %s, %s B", key, cmp.Or(m[2], m[4]))
		}
		return fmt.Sprintf("sealed, %s B", cmp.Or(m[2], m[4]))
	})
}

// clean escapes characters that control the terminal, such as escape sequences, and marks that
// change the direction of writing. Names and messages are untrusted. Sealed data are replaced by
// their description.
func clean(s string) string {
	s = brief(s)
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

// table prints columns. It passes their contents through clean.
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

// instant formats a time in a form that people and programs can read.
func instant(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

// took formats a duration with about three significant digits.
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

// onTerminal reports whether a reader is a terminal.
func onTerminal(r io.Reader) bool {
	f, ok := r.(*os.File)
	if !ok {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// printEach prints values in the output formats that have one line per value, which are JSON and
// the name. It returns false for all other formats.
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

// columns returns the columns that the table of a list shows in the current output format.
func columns[T any](c *command, all []admin.Column[T]) (shown []admin.Column[T]) {
	for _, col := range all {
		if col.Width != admin.WidthPage && (col.Width != admin.WidthWideTable || c.output == "wide") {
			shown = append(shown, col)
		}
	}
	return shown
}

// named returns the columns with the given names. It is for outputs with little space.
func named[T any](all []admin.Column[T], names ...string) []admin.Column[T] {
	shown := make([]admin.Column[T], len(names))
	for i, name := range names {
		shown[i] = all[slices.IndexFunc(all, func(c admin.Column[T]) bool { return c.Name == name })]
	}
	return shown
}

func headOf[T any](columns []admin.Column[T]) []string {
	head := make([]string, len(columns))
	for i, col := range columns {
		head[i] = strings.ToUpper(col.Title)
	}
	return head
}

// cellsOf returns the cells of a row. The function at formats times.
func cellsOf[T any](columns []admin.Column[T], row *T, now time.Time, at func(time.Time) string) []string {
	cells := make([]string, len(columns))
	for i, col := range columns {
		switch v := col.Value(row, now).(type) {
		case time.Time:
			cells[i] = at(v)
		case time.Duration:
			if cells[i] = "-"; v != 0 {
				cells[i] = took(v)
			}
		case []string:
			cells[i] = strings.Join(v, ", ")
		case admin.About:
			cells[i] = fmt.Sprint("~", int(v))
		default:
			cells[i] = fmt.Sprint(v)
		}
	}
	return cells
}

// printTable prints rows as a table.
func printTable[T any](c *command, all []admin.Column[T], rows []T) error {
	shown, now := columns(c, all), time.Now()
	t := newTable(c.Stdout, headOf(shown)...)
	for i := range rows {
		t.row(cellsOf(shown, &rows[i], now, instant)...)
	}
	return t.end()
}
