package console

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// When a bulk action ends is told by how fast it may be, and not by its first moments.
func TestOPS2_ABulkActionEndsAsItsRateAllows(t *testing.T) {
	q := &request{h: New(admin.New(nil), Config{})}
	for _, c := range []struct {
		rate, speed, left int
		want              string
	}{{1, 33, 6, "about 6.0 s"}, {100, 50, 6000, "about 2 min"}, {100, 0, 5, ""}} {
		v := q.bulkView(&admin.Bulk{Rate: c.rate, Speed: c.speed, Left: c.left})
		if v.Ends != c.want || v.Speed > c.rate {
			t.Errorf("%d left at %d of %d in a second: ends in %q, as fast as %d; want %q", c.left, c.speed, c.rate, v.Ends, v.Speed, c.want)
		}
	}
	if v := q.bulkView(&admin.Bulk{Rate: 1, Speed: 1, Left: 6, Ended: time.Now()}); v.Ends != "" {
		t.Errorf("one that has ended ends in %q", v.Ends)
	}
}
