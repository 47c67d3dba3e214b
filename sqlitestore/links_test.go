package sqlitestore

import (
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/repairtest"
	"github.com/flowgen/flowgen/runtime/store"
)

func parent(w *repairtest.World) *repairtest.Scene    { return w.Parent() }
func settled(w *repairtest.World) *repairtest.Scene   { return w.Settled() }
func continued(w *repairtest.World) *repairtest.Scene { return w.Continued() }

func TestREC8_RepairsChains(t *testing.T) {
	repairtest.Each(t, map[string]rotten{
		"8 it is purged too early": {continued, []string{`UPDATE runs SET purge = ended + retention / 1000000 WHERE id = ?1`},
			repairtest.Want{Invariants: []int{8}, Reason: store.ReasonStuckTerminal}},
		"11 a continuation is forgotten": {continued, []string{`UPDATE runs SET next = NULL WHERE id = ?1`},
			repairtest.Want{Invariants: []int{11}, Reason: store.ReasonStuckTerminal}},
		"11 the last run is forgotten":     {continued, []string{`UPDATE runs SET tip = NULL WHERE tip IS NOT NULL`}, repairtest.Want{Invariants: []int{11}}},
		"11 the first run is taken for it": {continued, []string{`UPDATE runs SET tip = id WHERE tip IS NOT NULL`}, repairtest.Want{Invariants: []int{11}}},
		"11 a run has left its chain": {continued, []string{`UPDATE runs SET chain = NULL WHERE id = ?2 AND ?1 <> ''`},
			repairtest.Want{Invariants: []int{8, 11}, Run: "other", Reason: store.ReasonWrongRecord}},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}

func TestREC8_RepairsOutboxes(t *testing.T) {
	wrong := repairtest.Want{Invariants: []int{12}, Reason: store.ReasonWrongRecord}
	repairtest.Each(t, map[string]rotten{
		"12 a record is lost":        {parent, []string{`DELETE FROM outbox`}, wrong},
		"12 a record is in no phase": {parent, []string{`UPDATE outbox SET phase = 9`}, wrong},
		"12 a record says nothing":   {parent, []string{`UPDATE outbox SET body = NULL`}, wrong},
		"12 a record without its cause": {parent, []string{
			`INSERT INTO outbox SELECT seq + 1, sender, 'x', receiver, phase, since, due, body FROM outbox`}, wrong},
		"12 a record is due at a wrong time":  {parent, []string{`UPDATE outbox SET due = 0`}, repairtest.Want{Invariants: []int{12}}},
		"12 an answered record has no sender": {parent, []string{`INSERT INTO outbox SELECT seq + 1, 99, id, receiver, 2, since, due, body FROM outbox`}, repairtest.Want{Invariants: []int{12}}},
		"12 a fresh record has no sender": {parent, []string{`INSERT INTO outbox SELECT seq + 1, 99, id, receiver, 1, since, 0, body FROM outbox`},
			repairtest.Want{Invariants: []int{12}, Remaining: []int{12}}},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}

// TestREC8_EndsEveryRecordWhoseSenderHasADamagedLog damages the outbox and the log of the sender.
// It proves that the repair blocks the sender, and delivers a record if its content is readable.
func TestREC8_EndsEveryRecordWhoseSenderHasADamagedLog(t *testing.T) {
	const (
		of        = ` AND run = (SELECT key FROM runs WHERE id = ?1)`
		cut       = `DELETE FROM frames WHERE n > 1` + of
		torn      = `UPDATE frames SET data = x'746F726E' WHERE n > 1` + of
		after     = `INSERT INTO frames SELECT run, max(n) + 1, x'746F726E' FROM frames WHERE n > 0` + of
		counted   = `UPDATE runs SET n = n + 1 WHERE id = ?1`
		empty     = `UPDATE outbox SET body = NULL`
		frameless = `UPDATE outbox SET body = CAST('{"start":{"frame":"AAAA"},"key":"k"}' AS BLOB)`
		unphased  = `UPDATE outbox SET phase = 9`
		newer     = `UPDATE outbox SET body = CAST('{"query":{}}' AS BLOB)`
		note      = `UPDATE outbox SET body = NULL, phase = 3`
	)
	ends := func(then store.Reason) repairtest.Want {
		return repairtest.Want{Invariants: []int{1, 12}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Then: then, Stays: true}
	}
	kept := repairtest.Want{Invariants: []int{1}, Remaining: []int{1}, Reason: store.ReasonDamagedLog, Stays: true}
	left := ends("")
	left.Remaining = []int{1, 12}
	repairtest.Each(t, map[string]rotten{
		"it says nothing, and the log is torn":                 {parent, []string{torn, empty}, ends(store.ReasonLostRecord)},
		"it says nothing, and the log is cut":                  {parent, []string{cut, empty}, ends(store.ReasonLostRecord)},
		"its start cannot be read, and the log is torn":        {parent, []string{torn, frameless}, ends(store.ReasonLostRecord)},
		"it says nothing, and the log is torn after its cause": {parent, []string{after, counted, empty}, ends(store.ReasonWrongRecord)},
		"it is in no phase, and the log is cut":                {parent, []string{cut, unphased}, ends(store.ReasonWrongRecord)},
		"it is sound, and the log is cut":                      {parent, []string{cut}, kept},
		"it is a note that says nothing":                       {parent, []string{cut, note}, kept},
		"a newer release wrote it":                             {parent, []string{torn, newer}, left},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
}

func TestREC8_RepairsWhatRunsHaveToDoWithOneAnother(t *testing.T) {
	repairtest.Each(t, map[string]rotten{
		"13 a child does not exist": {settled, []string{
			`DELETE FROM frames WHERE run = (SELECT key FROM runs WHERE id = ?2 AND ?1 <> '')`, `DELETE FROM runs WHERE id = ?2 AND ?1 <> ''`,
			`DELETE FROM classes WHERE id NOT IN (SELECT class FROM runs)`,
		}, repairtest.Want{Invariants: []int{13}, Reason: store.ReasonWrongRecord}},
		"14 a creation that nobody confirms": {settled, []string{`UPDATE runs SET created_by = 'x' WHERE id = ?2 AND ?1 <> ''`},
			repairtest.Want{Invariants: []int{14}, Run: "other", Reason: store.ReasonWrongRecord}},
		"14 an item that nobody confirms": {settled, []string{`INSERT INTO seen VALUES (?1, 'x', (SELECT created FROM runs WHERE id = ?1), 1)`},
			repairtest.Want{Invariants: []int{14}, Reason: store.ReasonWrongRecord}},
	}, func(t *testing.T, r rotten) { r.repairs(t) })
	t.Run("13 the end of a child is not told", func(t *testing.T) {
		rotten{settled, nil, repairtest.Want{Invariants: []int{13}, Run: "other", Reason: store.ReasonWrongRecord}}.
			repairsWith(t, (*repairtest.World).EndsUnheard)
	})
}
