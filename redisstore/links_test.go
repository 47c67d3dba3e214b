package redisstore

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/store"
)

func parent(w *repairtest.World) *repairtest.Scene    { return w.Parent() }
func settled(w *repairtest.World) *repairtest.Scene   { return w.Settled() }
func continued(w *repairtest.World) *repairtest.Scene { return w.Continued() }

// record applies change to the stored state of each outbox record of the run.
func (k *keysOfScene) record(change func(id, known string)) {
	k.t.Helper()
	for id, known := range k.client.HGetAll(k.ctx, k.sent(k.run)).Val() {
		change(id, known)
	}
}

func TestREC8_RepairsChains(t *testing.T) {
	repairtest.Each(t, map[string]decayed{
		"8 it is purged too early":       {continued, func(k *keysOfScene) { k.do("zadd", k.purges(), 1, k.run) }, wrong(8, store.ReasonStuckTerminal)},
		"11 a continuation is forgotten": {continued, func(k *keysOfScene) { k.do("hdel", k.meta(k.run), "N") }, wrong(11, store.ReasonStuckTerminal)},
		"11 the first run is taken for the last": {continued, func(k *keysOfScene) { k.do("hset", k.latestOfChains(), k.run, k.run) },
			repairtest.Want{Invariants: []int{11}}},
		"11 a chain of one has a last run": {complete, func(k *keysOfScene) { k.do("hset", k.latestOfChains(), k.run, k.run) },
			repairtest.Want{Invariants: []int{11}}},
		"11 a run has left its chain": {continued, func(k *keysOfScene) { k.do("hdel", k.meta(short(k.scene.Other)), "h") },
			repairtest.Want{Invariants: []int{11}, Run: "other", Reason: store.ReasonWrongRecord}},
		"metadata of the last run": {continued, func(k *keysOfScene) { k.del(k.meta(short(k.scene.Other))) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 7, 11}, Run: "other", Reason: store.ReasonStuckRunning}},
		"metadata of the first run": {continued, func(k *keysOfScene) { k.del(k.meta(k.run)) },
			repairtest.Want{Invariants: []int{1, 2, 4, 5, 8, 11}, Reason: store.ReasonStuckTerminal}},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

// TestREC8_EndsEveryRecordWhoseSenderHasADamagedLog proves that a repair also corrects the outbox
// records of a run whose log is damaged. The repair of the log blocks the run.
func TestREC8_EndsEveryRecordWhoseSenderHasADamagedLog(t *testing.T) {
	cut := func(do func(k *keysOfScene)) func(k *keysOfScene) {
		return func(k *keysOfScene) {
			for _, frame := range k.client.XRange(k.ctx, k.log(k.run), "2-0", "+").Val() {
				k.do("xdel", k.log(k.run), frame.ID)
			}
			do(k)
		}
	}
	ends := repairtest.Want{Invariants: []int{1, 12}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Then: store.ReasonLostRecord, Stays: true}
	repairtest.Each(t, map[string]decayed{
		"what it says is lost": {parent, cut(func(k *keysOfScene) { k.del(k.bodies(k.run)) }), ends},
		"for whom is lost":     {parent, cut(func(k *keysOfScene) { k.del(k.sent(k.run)) }), ends},
		"it is sound": {parent, cut(func(*keysOfScene) {}),
			repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

func TestREC8_RepairsOutboxes(t *testing.T) {
	repairtest.Each(t, map[string]decayed{
		"12 a record is lost": {parent, func(k *keysOfScene) { k.del(k.sent(k.run), k.bodies(k.run), k.outbox()) }, wrong(12, store.ReasonWrongRecord)},
		"12 nobody knows how far a record is": {parent, func(k *keysOfScene) {
			k.record(func(id, _ string) { k.do("hset", k.sent(k.run), id, "x") })
		}, wrong(12, store.ReasonWrongRecord)},
		"12 a record is in no phase": {parent, func(k *keysOfScene) {
			k.record(func(id, known string) {
				k.do("hset", k.sent(k.run), id, known[:orderDigits+1]+"9"+known[orderDigits+2:])
			})
		}, wrong(12, store.ReasonWrongRecord)},
		"12 a record without its cause": {parent, func(k *keysOfScene) {
			k.record(func(id, known string) {
				order := "00000000000001"
				k.do("hset", k.sent(k.run), "x", order+" 1 1 "+string(k.scene.Other))
				k.do("hset", k.bodies(k.run), "x", k.client.HGet(k.ctx, k.bodies(k.run), id).Val())
				k.do("zadd", k.outbox(), 1, order+k.run+"x")
			})
		}, wrong(12, store.ReasonWrongRecord)},
		"12 a record that does not exist is due": {parent, func(k *keysOfScene) { k.do("zadd", k.outbox(), 1, "00000000000001"+k.run+"x") },
			repairtest.Want{Invariants: []int{12}}},
		"5 records are counted anew": {parent, func(k *keysOfScene) { k.do("del", k.counter()) }, repairtest.Want{Invariants: []int{5}}},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

func TestREC8_RepairsWhatRunsHaveToDoWithOneAnother(t *testing.T) {
	repairtest.Each(t, map[string]decayed{
		"13 a child does not exist": {settled, func(k *keysOfScene) {
			p, child := k.other, short(k.scene.Other)
			k.do("zrem", p.openRuns(k.client.HGet(k.ctx, p.meta(child), "c").Val(), true), child)
			k.del(p.meta(child), p.log(child))
			k.do("zrem", p.timers(), child)
		}, wrong(13, store.ReasonWrongRecord)},
		"13 the end of a child is not told": {settled, func(k *keysOfScene) { k.w.EndsUnheard(k.scene) },
			repairtest.Want{Invariants: []int{13}, Run: "other", Reason: store.ReasonWrongRecord}},
		"14 a creation that nobody confirms": {settled, func(k *keysOfScene) { k.do("hset", k.other.meta(short(k.scene.Other)), "B", "x") },
			repairtest.Want{Invariants: []int{14}, Run: "other", Reason: store.ReasonWrongRecord}},
		"14 an item that nobody confirms": {settled, func(k *keysOfScene) {
			created := parseNumber(k.client.HGet(k.ctx, k.meta(k.run), "a").Val())
			k.do("zadd", k.seen(k.run), number(4e15+created), "x")
		}, wrong(14, store.ReasonWrongRecord)},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}

// TestREC8_RepairsLinksOnACluster proves that a repair works if a parent and its child are in
// partitions of different nodes.
func TestREC8_RepairsLinksOnACluster(t *testing.T) {
	for name, d := range map[string]decayed{
		"12 a record is lost":               {parent, func(k *keysOfScene) { k.del(k.sent(k.run)) }, wrong(12, store.ReasonWrongRecord)},
		"13 the end of a child is not told": {settled, func(k *keysOfScene) { k.w.EndsUnheard(k.scene) }, repairtest.Want{Invariants: []int{13}, Run: "other", Reason: store.ReasonWrongRecord}},
	} {
		t.Run(name, func(t *testing.T) { d.repairsOn(t, redistest.SharedCluster(t).Client(t)) })
	}
}
