package redisstore

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// showGathering says which runs gather starts: of those in the hash that are not claimed.
func (v *view) showGathering(snap *store.Snapshot) {
	for key, run := range v.gathering.Val() {
		if m := v.runs[run].meta; m != nil && unpackHeader(m.Val()["H"]).fence.Epoch == 0 {
			snap.Gathering[key] = long(run)
		}
	}
}

// lookAtGathering compares the runs that starts are told to join with those that say that they
// gather them.
func (e *partitionState) lookAtGathering() {
	if e.unread != nil {
		return
	}
	for _, key := range sortedKeys(e.gathering.Val()) {
		run := e.gathering.Val()[key]
		if r := e.snap.Runs[long(run)]; r != nil && r.QueueState != store.StateEnded && e.metaOf(run)["k"] == key {
			continue
		}
		e.repairable(store.Defect{
			Invariant: 21, What: fmt.Sprintf("starts of key %q look for run %s, which does not gather them", key, long(run)), Explain: "it is kept for ever",
		}, "remove it", swap{key: e.p.gathering(), kind: inHash, field: key, seen: run})
	}
	for _, run := range sortedKeys(e.runs) {
		key, r := e.metaOf(run)["k"], e.snap.Runs[long(run)]
		if key == "" || r == nil || r.Fence.Epoch != 0 || e.gathering.Val()[key] != "" {
			continue
		}
		e.repairable(store.Defect{
			Invariant: 21, Run: r.Run, What: fmt.Sprintf("it gathers the starts of key %q, which do not find it", key), Explain: "a start of the key begins another one",
		}, "let them find it", swap{key: e.p.gathering(), kind: inHash, field: key, value: run})
	}
}
