package redisstore

import (
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestREC8_RepairsJournalCatalogueAndViews(t *testing.T) {
	entries := func(damage func(k *keysOfScene)) decayed {
		return decayed{(*repairtest.World).Entries, damage, repairtest.Want{Invariants: []int{24}}}
	}
	member := func(score any, member string) decayed {
		return entries(func(k *keysOfScene) { k.do("zadd", k.first.entries(), score, member) })
	}
	line := func(score any, text string) decayed { return member(score, store.JournalSpace+"\x00"+text) }
	second := func(k *keysOfScene) string { // the second entry of the journal
		by := &redis.ZRangeBy{Min: "[journal\x00", Max: "+", Offset: 1, Count: 1}
		return k.client.ZRangeByLex(k.ctx, k.first.entries(), by).Val()[0]
	}
	moved := func(score any) decayed {
		return entries(func(k *keysOfScene) { k.do("zincrby", k.first.entries(), score, second(k)) })
	}
	replaced := func(space, key, value string) decayed {
		return entries(func(k *keysOfScene) {
			begin := space + "\x00" + key + "\x00"
			k.client.ZRemRangeByLex(k.ctx, k.first.entries(), "["+begin, "("+begin+"\xff") // remove the member of this key if it exists
			k.do("zadd", k.first.entries(), 0, begin+value)
		})
	}
	described := func(workflow, value string) decayed { return replaced(store.CatalogSpace, workflow, value) }
	view := func(name, value string) decayed { return replaced(store.ViewSpace, name, value) }
	unknown := repairtest.EntryID(1) + "\x00" + `{"p":"ada","f":"cli","a":"pause"}`
	repairtest.Each(t, map[string]decayed{
		"24 a text is no entry":                        line(0, "something else"),
		"24 an entry is empty":                         line(0, ""),
		"24 an id without an entry":                    line(0, repairtest.EntryID(9)),
		"24 an entry is cut short":                     line(0, repairtest.EntryID(9)+"\x00"+`{"p":"ada`),
		"24 an entry is not text":                      line(0, repairtest.EntryID(9)+"\x00\xff\x00"),
		"24 an entry of no time":                       line(0, "z"+unknown[1:]),
		"24 an entry is elsewhere":                     moved(5),
		"24 an entry is elsewhere by a fraction":       moved("0.1"),
		"24 an entry is before all":                    moved("-1.7e300"),
		"24 an entry is after all":                     moved("inf"),
		"24 an entry cannot be read, and is elsewhere": line("0.3", "something else"),
		"24 an entry is there twice":                   line(0, unknown),
		"24 an entry is there twice, and elsewhere":    line("2.2", unknown),
		"24 an entry is there with an outcome and elsewhere": entries(func(k *keysOfScene) {
			k.do("zincrby", k.first.entries(), 5, second(k))
			k.do("zadd", k.first.entries(), 0, store.JournalSpace+"\x00"+unknown)
		}),
		"24 an entry is there twice and cannot be read": line(0, repairtest.EntryID(1)+"\x00"+strings.Repeat("x", 500)),
		"24 a member is no entry":                       member(0, "something else"),
		"24 a member is empty":                          member(0, ""),
		"24 a space has no name":                        member(0, "\x00x\x00y"),
		"16 the entries are overwritten": {sleeps, func(k *keysOfScene) { k.do("set", k.first.entries(), "x") },
			repairtest.Want{Invariants: []int{16}}},
		"24 a workflow is cut short":      described(repairtest.Described, `[{"build`),
		"24 a workflow is empty":          described(repairtest.Described, ""),
		"24 a workflow has no versions":   described(repairtest.Described, "null"),
		"24 a workflow of a name of none": described("", `[{"build":"b","queue":"q"}]`),
		"24 a build has no name":          described("another", `[{"build":"\u0000","queue":"q"}]`),
		"24 a view is cut short":          view(repairtest.SavedView, `{"f":"trou`),
		"24 a view is empty":              view("x", ""),
		"24 a view has no name":           view("", `{"f":"failing"}`),
		"24 a view has no filter":         view("x", "{}"),
		"24 a view is not text":           view("x", "\xff\x00"),
		"24 a name is no text":            view("\xff\x00\xfe", `{"f":"failing"}`),
	}, func(t *testing.T, d decayed) { d.repairs(t) })
}
