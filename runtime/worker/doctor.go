package worker

import (
	"context"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// doctorPatience bounds how long a worker that begins has its store looked at.
const doctorPatience = 10 * time.Second

// consult says in one line what the doctor of the store warns of, if it has one. The worker
// does not wait for that, and it waits until some partition answers. What may not be looked at is no warning here: that is so at every
// start.
func (e *env) consult(ctx context.Context, answers func() bool) {
	doctor, ok := store.As[store.Doctor](e.store)
	if !ok {
		return
	}
	e.work.Go(func() {
		for !answers() {
			if !wait.For(ctx, e.clock, time.Second) {
				return // there was nothing to look at
			}
		}
		ctx, cancel := context.WithTimeout(ctx, doctorPatience)
		defer cancel()
		report, err := doctor.Examine(ctx)
		if err != nil {
			return // an outage is told elsewhere
		}
		var warnings []string
		for _, f := range report.Findings {
			if f.Severity >= store.SeverityWarn && f.Check != store.CheckSight {
				warnings = append(warnings, f.String())
			}
		}
		if len(warnings) > 0 {
			e.log.Warn("the store is not set up as it should be", "worker", e.cfg.Name, "findings", len(warnings), "what", strings.Join(warnings, "; "))
		}
	})
}
