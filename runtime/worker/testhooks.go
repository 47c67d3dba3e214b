package worker

import (
	"cmp"
	"math"
	"time"

	"github.com/flowgen/flowgen/runtime/internal/engine"
)

func init() {
	engine.Instrument = func(w any, h engine.TestHooks) { w.(*Worker).instrument(h) }
	engine.Hasten = func(w any, sleeps, obeys time.Duration) {
		e := w.(*Worker).env
		e.waitMost, e.obeys = cmp.Or(sleeps, e.waitMost), cmp.Or(obeys, e.obeys)
	}
	engine.Kill = func(w any) { w.(*Worker).killed.Store(true) }
}

// instrument implements [engine.Instrument].
func (w *Worker) instrument(h engine.TestHooks) {
	w.code, w.activity, w.chance, w.fit, w.queues = h.Registry, h.Activity, h.Chance, h.Fingerprint, h.Queues
	w.loop.code, w.lookAgain = h.Registry, math.MaxInt64
	w.declares = false // a test that waits for all activity to end would wait for the clock
}
