package console

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// TestOPS2_ABulkActionEndsAsItsSpeedAllows proves that the estimated end of a bulk action follows
// from its speed.
func TestOPS2_ABulkActionEndsAsItsSpeedAllows(t *testing.T) {
	client := workflow.NewClient(memstore.New(), workflow.ClientConfig{})
	q := &request{h: New(admin.New(client), Config{})}
	for _, c := range []struct {
		speed      float64
		left       int
		fast, want string
	}{{1, 6, "1", "about 6.0 s"}, {0.5, 6, "0.5", "about 12 s"}, {50, 6000, "50", "about 2 min"}, {0, 5, "", ""}} {
		if v := q.bulkView(&admin.Bulk{Rate: 100, Speed: c.speed, Left: c.left}); v.Ends != c.want || v.Fast != c.fast {
			t.Errorf("%d left at %g in a second: ends in %q, as fast as %q; want %q and %q", c.left, c.speed, v.Ends, v.Fast, c.want, c.fast)
		}
	}
	if v := q.bulkView(&admin.Bulk{Rate: 1, Speed: 1, Left: 6, Ended: time.Now()}); v.Ends != "" {
		t.Errorf("one that has ended ends in %q", v.Ends)
	}
}
