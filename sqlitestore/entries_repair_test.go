package sqlitestore

import (
	"fmt"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
)

func TestREC8_RepairsJournalCatalogueAndViews(t *testing.T) {
	entries := func(invariant int, statements ...string) rotten {
		return rotten{(*repairtest.World).Entries, statements, repairtest.Want{Invariants: []int{invariant}}}
	}
	line := func(id, body string) rotten {
		return entries(24, fmt.Sprintf(`INSERT INTO journal VALUES (%s, CAST(%s AS BLOB))`, id, body))
	}
	described := func(body string) rotten {
		return entries(25, fmt.Sprintf(`UPDATE catalog SET entry = CAST(%s AS BLOB) WHERE workflow = '%s'`, body, repairtest.Described))
	}
	view := func(name, body string) rotten {
		return entries(27, fmt.Sprintf(`INSERT INTO saved_views VALUES (%s, CAST(%s AS BLOB))`, name, body))
	}
	id := "'" + repairtest.EntryID(9) + "'"
	repairtest.Each(t, map[string]rotten{
		"24 a text is no entry":         line(`'something else'`, `'{}'`),
		"24 an entry without an id":     line(`''`, `'{}'`),
		"24 an id that is no text":      line(`CAST(x'ff00fe' AS TEXT)`, `'{}'`),
		"24 an entry after all":         line(`'~~'`, `'{}'`),
		"24 an entry is empty":          line(id, `x''`),
		"24 an entry is cut short":      line(id, `'{"p":"ada'`),
		"24 an entry is not text":       line(id, `x'ff00'`),
		"24 two entries are none":       entries(24, `INSERT INTO journal VALUES ('x', x''), ('y', x'00')`),
		"25 an entry is cut short":      described(`'[{"build'`),
		"25 an entry is empty":          described(`x''`),
		"25 an entry has no versions":   described(`'null'`),
		"25 an entry of a name of none": entries(25, `INSERT INTO catalog VALUES ('', CAST('[{"build":"b","queue":"q"}]' AS BLOB))`),
		"25 a build has no name":        entries(25, `INSERT INTO catalog VALUES ('another', CAST('[{"build":"\u0000","queue":"q"}]' AS BLOB))`),
		"27 a view is cut short":        entries(27, `UPDATE saved_views SET body = substr(body, 1, 9) WHERE name = '`+repairtest.SavedView+`'`),
		"27 a view is empty":            view(`'x'`, `x''`),
		"27 a view has no name":         view(`''`, `'{"f":"troubled"}'`),
		"27 a view has no filter":       view(`'x'`, `'{}'`),
		"27 a view is not text":         view(`'x'`, `x'ff00'`),
		"27 a name is no text":          view(`CAST(x'ff00fe' AS TEXT)`, `'{"f":"troubled"}'`),
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}
