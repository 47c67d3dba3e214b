package runloop

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// By default a waiting run is given back, and any worker with a free slot claims it when an item
// arrives. A worker that did not execute the run last must then read and replay its whole log. In a
// fleet, a run that calls a thousand steps on other workers would be replayed for nearly every
// result. The total time would grow with the square of the number of steps.
//
// So the release of a run is delayed if the run waits again and was woken soon after its last
// release. Its notifications then reach this worker, which reads the inbox and continues from
// memory. The run stays owned as during execution: its events are committed at once, its timers
// fire, and if the worker dies, the run is recovered like all others. The run leaves at once when
// the worker stops or has to execute a quarantined run. The release is not delayed if the run holds
// resources that other runs may need: permits, capacity of the worker's local limits, or scarce
// slots.

// releaseDelay is the maximum time between a release and a wake for the wake to count as soon. It
// is also how long the release of an idle run is delayed.
const releaseDelay = 250 * time.Millisecond

// releaseDelayed is the state that decides whether the release of a waiting run is delayed.
type releaseDelayed struct {
	soon  bool      // whether the run was woken soon after its release
	moved time.Time // when the run was woken, or when its last commit with events was made
	until time.Time // when the delayed release takes place; zero if the release is not delayed
}

// wokenAt records that a run which was given back at the time left was claimed at the time now.
func (l *releaseDelayed) wokenAt(left, now time.Time) {
	l.soon, l.moved = now.Sub(left) < releaseDelay, now
}

// stays decides whether the release of the run by the given effect is delayed.
func (s *State) stays(effect store.Effect) bool {
	s.until = time.Time{}
	until := s.moved.Add(releaseDelay)
	if effect != store.EffectPark || !s.soon || !s.moment.Now.Before(until) || s.moment.Stage >= Stopping {
		return false
	}
	if f := s.run.State(); f.StandsStill() || len(f.Spec.Uses) > 0 || s.run.AtGate() || !s.driver.Roomy() {
		return false
	}
	s.until = until
	return true
}
