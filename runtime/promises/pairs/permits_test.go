package pairs_test

import (
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// permitsFit waits until each limit is held only by runs that have begun, with the total weight
// that the limit shows. It records permits that do not fit. A run holds permits for a short time
// before its worker begins it.
func permitsFit(s *stage, cells []*cell, rule string) {
	s.T.Helper()
	var found []func()
	s.until(patience(cells), func() bool { found = misfits(s, cells, rule); return len(found) == 0 })
	for _, note := range found {
		note()
	}
}

// misfits returns a function for each permit that does not fit. The function records the violation.
func misfits(s *stage, cells []*cell, rule string) (found []func()) {
	s.T.Helper()
	snap := s.snapshot()
	held := map[store.LimitID]int{}
	for id, r := range snap.Runs {
		if r.QueueState == store.StateEnded || !r.Permits {
			continue
		}
		for _, u := range r.Uses {
			held[u.LimitID] += u.Weight
		}
		if state := stateOf(r.Frames); state.StartedAt.IsZero() || !state.Delayed.IsZero() {
			for _, c := range cells {
				if r.Tags[tagCell] == c.key || id == c.run {
					found = append(found, func() {
						c.breaks(rule, "run %s holds permits, and has not begun: it is %s, %s", id, r.Status, r.QueueState)
					})
				}
			}
		}
	}
	for id, l := range snap.Limits {
		if l.Held != held[id] {
			found = append(found, func() { cells[0].breaks("R2", "limit %v holds %d, its runs hold %d", id, l.Held, held[id]) })
		}
	}
	return found
}

// held describes the limits that are held or waited for, sorted.
func (s *stage) held() (all []string) {
	s.T.Helper()
	for id, l := range s.snapshot().Limits {
		if l.Held != 0 || l.Waits != 0 {
			all = append(all, fmt.Sprintf("limit %v holds %d, and %d wait", id, l.Held, l.Waits))
		}
	}
	slices.Sort(all)
	return all
}

func (s *stage) snapshot() *store.Snapshot {
	s.T.Helper()
	inspector, _ := store.As[store.Inspector](s.Store)
	snap, err := inspector.Inspect(s.Ctx)
	if err != nil {
		s.T.Fatal(err)
	}
	return snap
}
