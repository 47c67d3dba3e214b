package admin_test

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// computed lists the columns that do not correspond to a JSON field.
var computed = []string{"took", "now", "place", "note", "state", "allows", "buildId", "workflows"}

func TestOPS1_ColumnsAreNamedLikeTheirFieldsInJSON(t *testing.T) {
	checkColumns(t, "runs", admin.RunColumns)
	checkColumns(t, "failures", admin.FailureColumns)
	checkColumns(t, "schedules", admin.ScheduleColumns)
	checkColumns(t, "pools", admin.PoolColumns)
	checkColumns(t, "hooks", admin.HookColumns)
	checkColumns(t, "alerts", admin.AlertColumns)
	checkColumns(t, "workers", admin.WorkerColumns)
	checkColumns(t, "deploys", admin.DeployColumns)
	checkColumns(t, "queues", admin.QueueColumns)
	checkColumns(t, "bulks", admin.BulkColumns)
	checkColumns(t, "journal", admin.JournalColumns)
}

func checkColumns[T any](t *testing.T, list string, all []admin.Column[T]) {
	t.Helper()
	fields := jsonFields(reflect.TypeFor[T]())
	known := map[string]bool{}
	for _, c := range all {
		if known[c.Name] || c.Title == "" {
			t.Errorf("%s: column %q is there twice, or has no title", list, c.Name)
		}
		known[c.Name] = true
		if !slices.Contains(fields, c.Name) && !slices.Contains(computed, c.Name) {
			t.Errorf("%s: column %q is no field of %v in JSON: %v", list, c.Name, reflect.TypeFor[T](), fields)
		}
		if c.Value == nil {
			if c.Width != admin.WidthPage {
				t.Errorf("%s: column %q of tables has no value", list, c.Name)
			}
			continue
		}
		switch v := c.Value(new(T), time.Unix(1, 0)).(type) {
		case string, []string, int, uint64, admin.About, time.Time, time.Duration:
		default:
			t.Errorf("%s: column %q has a %T, which nothing draws", list, c.Name, v)
		}
	}
}

// jsonFields returns the JSON names of the fields of a struct type.
func jsonFields(of reflect.Type) (all []string) {
	for f := range of.Fields() {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			all = append(all, jsonFields(f.Type)...)
		case name != "" && name != "-":
			all = append(all, name)
		}
	}
	return all
}

func TestOPS10_WorkersAreListedWithTheWholeNameOfTheirBuild(t *testing.T) {
	for fingerprint, want := range map[string]string{"release-2026-11-30@0123456789ab": "release-2026-11-30", "0123456789abcdef01234567": "0123456789ab"} {
		i := slices.IndexFunc(admin.WorkerColumns, func(c admin.Column[admin.Worker]) bool { return c.Name == "build" })
		if got := admin.WorkerColumns[i].Value(&admin.Worker{Build: fingerprint}, time.Time{}); got != want {
			t.Errorf("fingerprint %s: got build %v, want %s", fingerprint, got, want)
		}
	}
}
