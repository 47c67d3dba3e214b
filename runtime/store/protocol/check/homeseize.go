package check

import (
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// This file contains the steps in which a session seizes a run, and in which a run gives back
// unused permits.

// seizes tries the steps of a client that seizes a run in any state. The client uses the session of
// a sleeping worker, because a worker that has taken a wake must claim.
func (t *homeStepper) seizes(i int) {
	w := t.s.w[i]
	if t.s.p.leases[w.session] != leaseLive {
		return
	}
	for j := range t.s.p.runs {
		r, x := uint8(j+1), &t.s.p.runs[j]
		if !x.there || x.queueState == store.StateEnded {
			continue
		}
		t.may(func(n *home) *uint8 { return &n.left.seize }, say("%c: seizes R%d", workerName(i), uint8(j)), func(n *home) string {
			before := *n
			wrong := t.do(n, seizing, func() error {
				_, err := t.op.Seize(sessionIDs[w.session], event.Token{w.session}, runIDs[r], x.queueState == store.StateOwned)
				return err
			})
			after := &n.p.runs[j]
			switch {
			case after.queueState != store.StateOwned || after.owner != w.session:
				return firstOf(wrong, "a run was seized, and its session does not have it")
			case x.queueState == store.StateOwned && after.epoch == x.epoch:
				wrong = firstOf(wrong, "a run was taken from its owner under the same fence [F2]")
			case before.waits(&t.homeConfig, r) && n.x.flags[j].place != before.x.flags[j].place:
				wrong = firstOf(wrong, "a seized run has lost its place [L9]")
			}
			n.seized |= 1 << r
			n.w[i] = homeWorker{phase: working, session: w.session, run: r, epoch: after.epoch, life: w.life}
			return wrong
		})
	}
}

// parksUnused tries the steps of a worker that has executed nothing of its run. The worker parks a
// seized run in its place, and any other run with its permits unused.
func (t *homeStepper) parksUnused(i int) {
	w, me := t.s.w[i], workerName(i)
	park := func(unused store.Unused) func(n *home) string {
		return func(n *home) string {
			before := *n
			n.w[i].phase, n.w[i].run, n.w[i].epoch = awake, 0, 0
			wrong := t.commitUnused(n, w.run, w.epoch, w.session, store.EffectPark, unused)
			return firstOf(wrong, t.parkedUnused(&before, n, w.run, unused))
		}
	}
	if t.s.seized>>w.run&1 == 1 {
		t.try(say("%c: parks R%d in its place", me, w.run-1), false, park(store.UnusedInQueue))
		return
	}
	t.may(func(n *home) *uint8 { return &n.left.unused }, say("%c: parks R%d in its place, its permits are unused", me, w.run-1), park(store.UnusedInQueue))
	t.may(func(n *home) *uint8 { return &n.left.unused }, say("%c: parks R%d, its permits are unused", me, w.run-1), park(store.UnusedBack))
}

// parkedUnused checks the place, the permits and the rates of a run that has parked with its
// permits unused.
func (t *homeStepper) parkedUnused(before, n *home, r uint8, unused store.Unused) string {
	had, has := before.x.flags[r-1], n.x.flags[r-1]
	switch {
	case has.has:
		return "a run has parked without use, and has permits [L2]"
	case unused == store.UnusedInQueue && has.place != had.place:
		return "a run that parks in its place has lost it [L9]"
	case !had.has:
		return ""
	}
	for l := range n.x.limits {
		weight, was, is := t.need[r-1][l], before.x.limits[l].tat, n.x.limits[l].tat
		if !n.x.limits[l].rate || weight == 0 {
			continue
		}
		if is != was-min(was, weight*rateTicks) {
			return "a rate has kept what was not used [rate]"
		}
		n.age[l] = rateTicks // the permits were unused, so the next weight may begin at once
	}
	return ""
}
