package sqlitestore

import (
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestREC8_RepairsJournalCatalogueAndViews(t *testing.T) {
	entries := func(statements ...string) rotten {
		return rotten{(*repairtest.World).Entries, statements, repairtest.Want{Invariants: []int{24}}}
	}
	planted := func(space, key, value string) rotten {
		return entries(fmt.Sprintf(`INSERT INTO entries VALUES ('%s', %s, CAST(%s AS BLOB))`, space, key, value))
	}
	line := func(id, value string) rotten { return planted(store.JournalSpace, id, value) }
	view := func(name, value string) rotten { return planted(store.ViewSpace, name, value) }
	described := func(value string) rotten {
		return entries(fmt.Sprintf(`UPDATE entries SET value = CAST(%s AS BLOB) WHERE space = 'catalog' AND key = '%s'`, value, repairtest.Described))
	}
	id := "'" + repairtest.EntryID(9) + "'"
	repairtest.Each(t, map[string]rotten{
		"24 a text is no entry":           line(`'something else'`, `'{}'`),
		"24 an entry without an id":       line(`''`, `'{}'`),
		"24 an id that is no text":        line(`CAST(x'ff00fe' AS TEXT)`, `'{}'`),
		"24 an entry after all":           line(`'~~'`, `'{}'`),
		"24 an entry is empty":            line(id, `x''`),
		"24 an entry is cut short":        line(id, `'{"p":"ada'`),
		"24 an entry is not text":         line(id, `x'ff00'`),
		"24 two entries are none":         entries(`INSERT INTO entries VALUES ('journal', 'x', x''), ('journal', 'y', x'00')`),
		"24 a workflow is cut short":      described(`'[{"build'`),
		"24 a workflow is empty":          described(`x''`),
		"24 a workflow has no versions":   described(`'null'`),
		"24 a workflow of a name of none": planted(store.CatalogSpace, `''`, `'[{"build":"b","queue":"q"}]'`),
		"24 a build has no name":          planted(store.CatalogSpace, `'another'`, `'[{"build":"\u0000","queue":"q"}]'`),
		"24 a space without a name":       planted("", `'x'`, `'x'`),
		"24 a view is cut short":          entries(`UPDATE entries SET value = substr(value, 1, 9) WHERE key = '` + repairtest.SavedView + `'`),
		"24 a view is empty":              view(`'x'`, `x''`),
		"24 a view has no name":           view(`''`, `'{"f":"failing"}'`),
		"24 a view has no filter":         view(`'x'`, `'{}'`),
		"24 a view is not text":           view(`'x'`, `x'ff00'`),
		"24 a name is no text":            view(`CAST(x'ff00fe' AS TEXT)`, `'{"f":"failing"}'`),
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}
