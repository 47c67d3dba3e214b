package redisstore

import (
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

const failureGroup = "f1-0a"

// label adds the run of the scene to a failure group by a commit.
func (k *keysOfScene) label() {
	k.t.Helper()
	created := k.client.HGet(k.ctx, k.meta(k.run), "a").Val()
	k.setMeta("g", failureGroup)
	k.setHeader(func(h *header) { h.flags |= hasRest })
	k.do("zadd", k.grouped(failureGroup), created, k.run)
	k.do("zadd", k.failing(), created, k.run)
	k.do("hset", k.failureGroups(), failureGroup, "1000 2000 3 failed\x00w\x00\x00text")
	k.do("zadd", k.recent(), 2000, failureGroup)
}

func TestREC8_RepairsGroupsOfTrouble(t *testing.T) {
	stranger := short(event.NewRunID(time.Now(), 0))
	inFailureGroup := func(want repairtest.Want, damage func(k *keysOfScene)) decayed {
		return decayed{sleeps, func(k *keysOfScene) { k.label(); damage(k) }, want}
	}
	broken := repairtest.Want{Invariants: []int{23}}
	repairtest.Each(t, map[string]decayed{
		"23 a run is not found in its group":     inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("del", k.grouped(failureGroup)) }),
		"23 a run is not found among all":        inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("del", k.failing()) }),
		"23 a run is found in two groups":        inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zadd", k.grouped("f1-0b"), 1, k.run) }),
		"23 a run is in no group, and found":     inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("hdel", k.meta(k.run), "g") }),
		"23 a run has another time in its group": inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zincrby", k.grouped(failureGroup), 1, k.run) }),
		"23 a run has another time among all":    inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) { k.do("zincrby", k.failing(), 1, k.run) }),
		"23 all but the label is lost": inFailureGroup(wrong(23, store.ReasonWrongRecord), func(k *keysOfScene) {
			k.del(k.grouped(failureGroup), k.failing(), k.failureGroups(), k.recent())
		}),
		"4 nobody looks for it at its end":          inFailureGroup(wrong(4, store.ReasonWrongRecord), func(k *keysOfScene) { k.setHeader(func(h *header) { h.flags &^= hasRest }) }),
		"23 a group is lost":                        inFailureGroup(broken, func(k *keysOfScene) { k.do("del", k.failureGroups()) }),
		"23 a group cannot be read":                 inFailureGroup(broken, func(k *keysOfScene) { k.do("hset", k.failureGroups(), failureGroup, "x") }),
		"23 a group is not in order":                inFailureGroup(broken, func(k *keysOfScene) { k.do("zincrby", k.recent(), 1, failureGroup) }),
		"23 a group with runs is to be forgotten":   inFailureGroup(broken, func(k *keysOfScene) { k.do("zadd", k.idle(), 2000, failureGroup) }),
		"23 a group without runs is not forgotten":  inFailureGroup(broken, func(k *keysOfScene) { k.do("hset", k.failureGroups(), "f1-0b", "1 1 1 failed\x00w\x00\x00t") }),
		"23 nothing is kept of a group in order":    inFailureGroup(broken, func(k *keysOfScene) { k.do("zadd", k.recent(), 1, "f1-0b") }),
		"16 a group has a run that does not exist":  inFailureGroup(repairtest.Want{Invariants: []int{16}}, func(k *keysOfScene) { k.do("zadd", k.grouped(failureGroup), 1, stranger) }),
		"16 a run that does not exist is among all": inFailureGroup(repairtest.Want{Invariants: []int{16}}, func(k *keysOfScene) { k.do("zadd", k.failing(), 1, stranger) }),
		"23 a completed run is in a group": {complete, func(k *keysOfScene) {
			k.label()
			k.setHeader(func(h *header) { h.flags &^= hasRest })
		}, wrong(23, store.ReasonStuckTerminal)},
		"16 the groups are overwritten": inFailureGroup(repairtest.Want{Invariants: []int{16, 23}}, func(k *keysOfScene) { k.del(k.failureGroups()); k.do("set", k.failureGroups(), "x") }),
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}
