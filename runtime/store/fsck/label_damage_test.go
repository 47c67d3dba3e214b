package fsck_test

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// labelled returns a case that damages the index of labels. It adds the index and calls do.
func labelled(do func(s *state, r *store.RunState), want ...int) damage {
	return damage{want, func(s *state) {
		s.Labels = map[event.RunID][]string{}
		for id, r := range s.Runs {
			for _, l := range r.Labels() {
				s.Labels[id] = append(s.Labels[id], l.String())
			}
		}
		do(s, s.Runs[s.active])
	}}
}

var labelDamage = map[string]damage{
	"25 all is well":                                   labelled(func(*state, *store.RunState) {}),
	"25 the store has no such index":                   labelled(func(s *state, _ *store.RunState) { s.Labels = nil }),
	"25 a run is found by nothing":                     labelled(func(s *state, r *store.RunState) { delete(s.Labels, r.Run) }, 25),
	"25 a run is found by another tag":                 labelled(func(s *state, r *store.RunState) { s.Labels[r.Run] = append(s.Labels[r.Run], `tag "x"="y"`) }, 25),
	"25 a run is found twice by a label":               labelled(func(s *state, r *store.RunState) { s.Labels[r.Run] = append(s.Labels[r.Run], s.Labels[r.Run][0]) }, 25),
	"25 a deleted run is found by its labels":          labelled(func(s *state, _ *store.RunState) { s.hide(s.ended) }, 25),
	"16 a run that does not exist is found by a label": labelled(func(s *state, _ *store.RunState) { s.Labels["wrun_x"] = []string{`tag "x"="y"`} }, 16),
}
