package admin_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
)

var typed = time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC)

func ExampleParseFilter() {
	f, err := admin.ParseFilter("status:failed workflow:orders.fulfil since:24h", time.Date(2026, 11, 26, 12, 0, 0, 0, time.UTC))
	fmt.Println(f.Statuses, f.Workflow, f.Since.Format(time.RFC3339), err)
	// Output: [failed] orders.fulfil 2026-11-25T12:00:00Z <nil>
}

func TestOPS1_FiltersAreReadAsTyped(t *testing.T) {
	for line, want := range map[string]admin.Filter{
		"":        {},
		"order-7": {WorkflowID: "order-7"},
		"status:failed,canceled\tstatus:blocked queue:q  id:x": {Statuses: []string{"failed", "canceled", "blocked"}, Queue: "q", WorkflowID: "x"},
		`tag:region=eu tag:"note=a b=c"`:                       {Tags: map[string]string{"region": "eu", "note": "a b=c"}},
		"parent:p root:r group:f1-9c0e11a2b3d4":                {Parent: "p", Root: "r", Group: "f1-9c0e11a2b3d4"},
		"failing children system oldest":                       {Failing: true, Children: true, System: true, Oldest: true},
		"since:90m until:2026-11-26":                           {Since: typed.Add(-90 * time.Minute), Until: typed.Truncate(24 * time.Hour)},
		"since:2026-11-26T08:30 until:2026-11-26T12:00:00+02:00": {
			Since: time.Date(2026, 11, 26, 8, 30, 0, 0, time.UTC), Until: typed.Add(-2 * time.Hour),
		},
	} {
		got, err := admin.ParseFilter(line, typed)
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%q: %v (-want +got):\n%s", line, err, diff)
		}
	}
	for _, line := range []string{"tag:x", "Status:failed", "since:yesterday", "until:-1h", ":x"} {
		var wrong *admin.InputError
		if _, err := admin.ParseFilter(line, typed); !errors.As(err, &wrong) || wrong.Fix == "" {
			t.Errorf("%q: got %v, want an *InputError with a fix", line, err)
		}
	}
}
