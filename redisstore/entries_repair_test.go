package redisstore

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
)

func TestREC8_RepairsJournalCatalogueAndViews(t *testing.T) {
	entries := func(invariant int, damage func(k *keysOfScene)) decayed {
		return decayed{(*repairtest.World).Entries, damage, repairtest.Want{Invariants: []int{invariant}}}
	}
	line := func(score any, member string) decayed {
		return entries(24, func(k *keysOfScene) { k.do("zadd", k.first.journal(), score, member) })
	}
	moved := func(score any) decayed {
		return entries(24, func(k *keysOfScene) {
			k.do("zincrby", k.first.journal(), score, k.client.ZRange(k.ctx, k.first.journal(), 1, 1).Val()[0])
		})
	}
	described := func(workflow, body string) decayed {
		return entries(25, func(k *keysOfScene) { k.do("hset", k.first.catalog(), workflow, body) })
	}
	view := func(name, body string) decayed {
		return entries(27, func(k *keysOfScene) { k.do("hset", k.first.views(), name, body) })
	}
	unknown := repairtest.EntryID(1) + `{"p":"ada","f":"cli","a":"pause"}`
	repairtest.Each(t, map[string]decayed{
		"24 a text is no entry":                        line(0, "something else"),
		"24 an entry is empty":                         line(0, ""),
		"24 an id without an entry":                    line(0, repairtest.EntryID(9)),
		"24 an entry is cut short":                     line(0, repairtest.EntryID(9)+`{"p":"ada`),
		"24 an entry is not text":                      line(0, repairtest.EntryID(9)+"\xff\x00"),
		"24 an entry of no time":                       line(0, "z"+unknown[1:]),
		"24 an entry is elsewhere":                     moved(5),
		"24 an entry is elsewhere by a fraction":       moved("0.1"),
		"24 an entry is before all":                    moved("-1.7e300"),
		"24 an entry is after all":                     moved("inf"),
		"24 an entry cannot be read, and is elsewhere": line("0.3", "something else"),
		"24 an entry is there twice":                   line(0, unknown),
		"24 an entry is there twice, and elsewhere":    line("2.2", unknown),
		"24 an entry is there with an outcome and elsewhere": entries(24, func(k *keysOfScene) {
			whole := k.client.ZRange(k.ctx, k.first.journal(), 1, 1).Val()[0]
			k.do("zincrby", k.first.journal(), 5, whole)
			k.do("zadd", k.first.journal(), 0, unknown)
		}),
		"16 the journal is overwritten": {sleeps, func(k *keysOfScene) { k.do("set", k.first.journal(), "x") },
			repairtest.Want{Invariants: []int{16}}},
		"25 an entry is cut short":      described(repairtest.Described, `[{"build`),
		"25 an entry is empty":          described(repairtest.Described, ""),
		"25 an entry has no versions":   described(repairtest.Described, "null"),
		"25 an entry of a name of none": described("", `[{"build":"b","queue":"q"}]`),
		"25 a build has no name":        described("another", `[{"build":"\u0000","queue":"q"}]`),
		"16 the catalogue is overwritten": entries(16, func(k *keysOfScene) {
			k.del(k.first.catalog())
			k.do("set", k.first.catalog(), "x")
		}),
		"27 a view is cut short":  view(repairtest.SavedView, `{"f":"trou`),
		"27 a view is empty":      view("x", ""),
		"27 a view has no name":   view("", `{"f":"troubled"}`),
		"27 a view has no filter": view("x", "{}"),
		"27 a view is not text":   view("x", "\xff\x00"),
		"27 a name is no text":    view("\xff\x00\xfe", `{"f":"troubled"}`),
		"16 the views are overwritten": {sleeps, func(k *keysOfScene) { k.do("set", k.first.views(), "x") },
			repairtest.Want{Invariants: []int{16}}},
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}
