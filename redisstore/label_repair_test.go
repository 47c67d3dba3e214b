package redisstore

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// aTag and anID are labels of the run of the scene.
var (
	aTag  = store.Label{Tag: "region", Value: "eu"}
	anID  = store.Label{WorkflowID: "a"}
	other = store.Label{Tag: "region", Value: "us"}
)

func (k *keysOfScene) setOf(l store.Label) string { return k.labelled(labelCode(l)) }

func TestREC8_RepairsSetsOfLabels(t *testing.T) {
	stranger := short(event.NewRunID(time.Now(), 0))
	labels := []workflow.StartOption{workflow.WithID("a"), workflow.WithTags(map[string]string{"region": "eu"})}
	found := func(want repairtest.Want, damage func(k *keysOfScene)) decayed {
		return decayed{func(w *repairtest.World) *repairtest.Scene { return w.Sleeping(labels...) }, damage, want}
	}
	ended := func(want repairtest.Want, damage func(k *keysOfScene)) decayed {
		return decayed{func(w *repairtest.World) *repairtest.Scene { return w.Completed(labels...) }, damage, want}
	}
	repairtest.Each(t, map[string]decayed{
		"25 a run is not found by its workflow id":   found(wrong(25, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zrem", k.setOf(anID), k.run) }),
		"25 a run is not found by a tag":             found(wrong(25, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zrem", k.setOf(aTag), k.run) }),
		"25 a run is found by nothing":               found(wrong(25, store.ReasonWrongRecord), func(k *keysOfScene) { k.del(k.setOf(anID), k.setOf(aTag)) }),
		"25 a run is found by a tag that it has not": found(wrong(25, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zadd", k.setOf(other), 1, k.run) }),
		"25 a tag has a run at another time":         found(wrong(25, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zincrby", k.setOf(aTag), 1, k.run) }),
		"25 a run that has ended is not found":       ended(wrong(25, store.ReasonStuckTerminal), func(k *keysOfScene) { k.do("zrem", k.setOf(aTag), k.run) }),
		"25 a deleted run is found": {deletes, func(k *keysOfScene) { k.do("zadd", k.setOf(aTag), 1, k.run) },
			repairtest.Want{Invariants: []int{25}, Reason: store.ReasonStuckTerminal, Stays: true}},
		"16 a tag has a run that does not exist": found(repairtest.Want{Invariants: []int{16}}, func(k *keysOfScene) { k.do("zadd", k.setOf(aTag), 1, stranger) }),
		"16 the set of a tag is overwritten": found(repairtest.Want{Invariants: []int{16, 25}, Reason: store.ReasonWrongRecord}, func(k *keysOfScene) {
			k.del(k.setOf(aTag))
			k.do("set", k.setOf(aTag), "x")
		}),
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}
