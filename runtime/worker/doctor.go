package worker

import (
	"context"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// doctorPatience bounds how long a starting worker's check of its store may take.
const doctorPatience = 10 * time.Second

// consult logs the warnings of the store's doctor, if the store has one, in one line. The worker
// does not wait for it. The check waits until a partition answers. A check that the worker lacks
// the permission for is not logged, because that would repeat at every start.
func (e *env) consult(ctx context.Context, answers func() bool) {
	doctor, ok := store.As[store.Doctor](e.store)
	if !ok {
		return
	}
	e.work.Go(func() {
		for !answers() {
			if !wait.For(ctx, e.clock, time.Second) {
				return // the worker stops before any partition has answered
			}
		}
		ctx, cancel := context.WithTimeout(ctx, doctorPatience)
		defer cancel()
		report, err := doctor.Examine(ctx)
		if err != nil {
			return // outages are logged elsewhere
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
