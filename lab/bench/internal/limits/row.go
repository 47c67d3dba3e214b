package limits

import (
	"context"
)

// row is a measurement.
type row struct {
	name  string
	about string
	// redis reports whether the row requires Redis servers.
	redis   bool
	measure func(ctx context.Context, s *session) ([]Figure, error)
}

// lacks returns why the row cannot be measured, or "".
func (r *row) lacks(o *options) string {
	if r.redis && o.kind() != "redis" {
		return "not measured: only Redis has servers"
	}
	return ""
}

// rows contains all rows in the order of their execution.
var rows = []*row{
	{name: "keys", about: "claims and runs that use a limit with many keys, against those without keys and without limits", measure: keys},
	{name: "fair", about: "claims over many fair keys, against those without keys; many runs of one key wait", measure: fair},
	{name: "spread", about: "a limit with a home for each key, on a Redis Cluster of three nodes against one node", redis: true, measure: spread},
	{name: "waiting", about: "many runs of one tenant wait: another's first run, bytes, List", measure: waiting},
	{name: "rates", about: "rates of 100 and 1,000 steps a second, over several workers", measure: rates},
	{name: "pools", about: "pools of 3 and 5, and steps that use both", measure: pools},
	{name: "handoff", about: "from a permit that is given back to the next attempt", measure: handoff},
	{name: "ticks", about: "how late schedules start runs", measure: ticks},
}
