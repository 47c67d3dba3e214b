package worker

import (
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// A run that waits is given back, and claimed by whoever has a place for it when something
// has come for it. A worker on which it was not last reads and replays all of its log then: in
// a fleet the caller of a thousand steps on other workers would be replayed for nearly each
// of their results, and all of them together would take time by the square of their number.
// So a run that was woken soon after it was given back stays for a while when it waits again.
// What comes for it meanwhile is told to this worker, which reads the inbox and goes on from
// memory.
//
// Nothing else is different. The run is owned, as while it is worked on: what it has done is
// committed at once, its timers fire, and it is recovered with all that the worker has. It
// leaves at once when the worker stops or has to do a quarantined run, and does not stay if
// it has what others may need: permits, room of the worker's own limits, places that are few.

// lingerTime is how soon is soon, and how long a run stays that nothing comes for.
const lingerTime = 250 * time.Millisecond

// lingering is what decides whether a run stays that waits.
type lingering struct {
	soon  bool      // it was woken soon after it was given back
	moved time.Time // when it was woken, or its last commit with events was made
	until time.Time // when it leaves that stays now; zero: it does not
}

// wake notes that the run, which was given back at left, is claimed.
func (l *lingering) wake(left, now time.Time) {
	l.soon, l.moved = now.Sub(left) < lingerTime, now
}

// stays decides whether a run stays that is to be given back with an effect.
func (d *draft) stays(effect store.Effect) bool {
	d.until = time.Time{}
	until := d.moved.Add(lingerTime)
	if effect != store.EffectPark || !d.soon || !d.clock.Now().Before(until) || d.stopping.Load() {
		return false
	}
	if f := d.run.State(); f.StandsStill() || len(f.Spec.Uses) > 0 || d.run.AtGate() || !d.stepping.runs.roomy(d.in, d.partition) {
		return false
	}
	d.until = until
	return true
}

// roomy reports whether a run that waits may keep its place.
func (r *runs) roomy(in *inputs, partition int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.turns.now.Load() == nil && !r.behind[partition] && 2*r.occupied() <= r.cfg.Runs && r.cfg.AtOnce[in.queue] == 0 && len(in.uses) == 0
}
