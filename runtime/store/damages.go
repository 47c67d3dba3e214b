package store

import (
	"sync"
	"time"
)

// Damages collects the damage that a store has found, for a [DamageTeller]. The zero value is ready
// for use.
type Damages struct {
	mu    sync.Mutex
	told  map[string]time.Time
	fresh []*DamagedError
}

// mostDamages is the maximum number of remembered names and of unreported damages.
const mostDamages = 1000

// Note adds damage, unless damage was noted under the same name within the last hour.
func (d *Damages) Note(name string, damage *DamagedError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if at, ok := d.told[name]; ok && now.Sub(at) < time.Hour {
		return
	}
	if d.told == nil || len(d.told) >= mostDamages {
		d.told = map[string]time.Time{}
	}
	d.told[name] = now
	if len(d.fresh) < mostDamages {
		d.fresh = append(d.fresh, damage)
	}
}

// Damage returns the damage noted since the last call.
func (d *Damages) Damage() []*DamagedError {
	d.mu.Lock()
	defer d.mu.Unlock()
	fresh := d.fresh
	d.fresh = nil
	return fresh
}
