package console

import (
	"fmt"
	"html/template"
	"reflect"
	"strings"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// column is a column of a list on a page.
type column struct {
	Name, Title string
	Class       string
	part        string // template that draws a value of this kind
	value       func(row any, now time.Time) any
}

// lists contains the columns of each list on the pages.
var lists = map[string][]column{
	"runs":      columnsOf("runs", admin.RunColumns),
	"failures":  columnsOf("failures", admin.FailureColumns),
	"alerts":    columnsOf("alerts", admin.AlertColumns),
	"schedules": columnsOf("schedules", admin.ScheduleColumns),
	"pools":     columnsOf("pools", admin.PoolColumns),
	"hooks":     columnsOf("hooks", admin.HookColumns),
	"workers":   columnsOf("workers", admin.WorkerColumns),
	"deploys":   columnsOf("deploys", admin.DeployColumns),
	"queues":    columnsOf("queues", admin.QueueColumns),
	"rates":     columnsOf("rates", admin.StepRateColumns),
	"bulks":     columnsOf("bulks", admin.BulkColumns),
	"journal":   columnsOf("journal", admin.JournalColumns),
}

// styles contains CSS classes of columns, in addition to the classes of their kind and width.
var styles = map[string]string{
	"runs.workflowId": "id", "runs.now": "now", "failures.place": "wrap", "schedules.name": "wrap", "hooks.name": "wrap", "hooks.answerers": "wrap",
	"workers.serves": "wrap", "queues.workflow": "wrap", "pools.holders": "wrap", "journal.principal": "wrap", "journal.reason": "wrap", "alerts.message": "wrap", "alerts.workflow": "wrap",
}

// cellKinds contains the template and the CSS class for each kind of value.
var cellKinds = map[admin.ColumnKind][2]string{
	admin.KindText: {"cell-text", ""}, admin.KindCode: {"cell-text", "mono wrap"}, admin.KindNumber: {"cell-number", "n"}, admin.KindTime: {"cell-time", "t"}, admin.KindSpan: {"cell-span", "n t"},
}

var widths = map[admin.Width]string{admin.WidthMedium: "p", admin.WidthWide: "w", admin.WidthPage: "w"}

func columnsOf[T any](list string, all []admin.Column[T]) (shown []column) {
	for _, c := range all {
		if c.Width == admin.WidthTable || c.Width == admin.WidthWideTable {
			continue
		}
		one := column{Name: c.Name, Title: c.Title, part: cellKinds[c.Kind][0]}
		class := cellKinds[c.Kind][1]
		if style := styles[list+"."+c.Name]; style == "id" {
			class = "mono id"
		} else if style != "" {
			class += " " + style
		}
		one.Class = strings.TrimSpace(widths[c.Width] + " " + strings.TrimSpace(class))
		one.value = func(row any, now time.Time) any {
			if c.Value == nil { // the column has a template of its own
				return ""
			}
			return c.Value(rowOf[T](row), now)
		}
		shown = append(shown, one)
	}
	return shown
}

// rowOf returns the row of a list from a value on a page. The value is either a row or a struct
// that embeds a row.
func rowOf[T any](row any) *T {
	if r, ok := row.(T); ok {
		return &r
	}
	r, _ := reflect.TypeAssert[T](reflect.ValueOf(row).FieldByName(reflect.TypeFor[T]().Name()))
	return &r
}

// cell is the argument of the template of a cell.
type cell struct {
	*column

	Row   any
	Value any
	Page  *drawn
	HTML  template.HTML
}

// cellsOf draws the cells of a row. A cell is drawn by the template of its list and column, such as
// runs.status, or by the template of its kind if there is no such template.
func cellsOf(pages *template.Template, list string, row any, page *drawn) ([]cell, error) {
	all := make([]cell, len(lists[list]))
	for i := range all {
		c := &all[i]
		*c = cell{column: &lists[list][i], Row: row, Page: page}
		c.Value = c.value(row, page.Now)
		part := list + "." + c.Name
		if pages.Lookup(part) == nil {
			part = c.part
		}
		var b strings.Builder
		if err := pages.ExecuteTemplate(&b, part, c); err != nil {
			return nil, err
		}
		c.HTML = template.HTML(b.String()) //nolint:gosec // a template has escaped it
	}
	return all, nil
}

// figure formats a number of any type, including a lower bound.
func figure(v any) string {
	switch n := v.(type) {
	case int:
		return number(n)
	case uint64:
		return number(n)
	case admin.About:
		return "~" + number(int(n))
	}
	return fmt.Sprint(v)
}

// textOf formats a text or a list of texts.
func textOf(v any) string {
	if all, ok := v.([]string); ok {
		return strings.Join(all, ", ")
	}
	return fmt.Sprint(v)
}
