package cli

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// columns returns those of a list that a table has.
func columns[T any](c *command, all []admin.Column[T]) (shown []admin.Column[T]) {
	for _, col := range all {
		if col.Room != admin.RoomPage && (col.Room != admin.RoomWideTable || c.output == "wide") {
			shown = append(shown, col)
		}
	}
	return shown
}

// named returns columns by their names, for where there is room for these only.
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

// cellsOf returns what a row has in columns; at draws times.
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
