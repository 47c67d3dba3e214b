package sqlitestore

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// hand is the owner of a run, and commits to it.
type hand struct {
	a   *ages
	run store.ClaimedRun
}

// own creates a run and claims it.
func (a *ages) own(c store.Create) *hand {
	a.t.Helper()
	_, err := a.Create(testContext(a.t), []store.Create{c})
	check(a.t, err)
	return a.claimed(c.Run)
}

func (a *ages) claimed(run event.RunID) *hand {
	a.t.Helper()
	got, err := a.ClaimRun(testContext(a.t), 0, "a", event.NewToken(), run)
	check(a.t, err)
	return &hand{a, got}
}

// next returns a commit with one more frame.
func (h *hand) next() store.Commit {
	return store.Commit{
		Run: h.run.Run, WorkflowID: h.run.WorkflowID, Fence: h.run.Fence, Prev: h.run.Last,
		Frame: []byte{1}, CommitID: event.NewCommitID(), First: h.run.Seq + 1, Last: h.run.Seq + 1,
	}
}

func (h *hand) commit(c store.Commit) {
	h.a.t.Helper()
	got, err := h.a.Commit(testContext(h.a.t), []store.Commit{c})
	check(h.a.t, err)
	check(h.a.t, got[0].Err)
	h.run.Last, h.run.Seq = c.CommitID, c.Last
}

// send commits one outbox record to the run for each ID.
func (h *hand) send(to event.RunID, ids ...event.ItemID) {
	h.a.t.Helper()
	c := h.next()
	for _, id := range ids {
		c.Send = append(c.Send, store.Send{ID: id, To: to, Body: []byte(id)})
	}
	h.commit(c)
}

func (h *hand) end() {
	h.a.t.Helper()
	c := h.next()
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	h.commit(c)
}

// continueAs ends the run and returns the owner of its continuation.
func (h *hand) continueAs(retention time.Duration) *hand {
	h.a.t.Helper()
	successor := newRun(10)
	successor.WorkflowID, successor.Retention = h.run.WorkflowID, retention
	c := h.next()
	c.Effect, c.Status, c.Continue = store.EffectContinue, event.StatusCompleted, &successor
	h.commit(c)
	return h.a.claimed(successor.Run)
}

// answer marks fresh records of a run as answered.
func (a *ages) answer(from event.RunID, ids ...event.ItemID) {
	a.t.Helper()
	var marks []store.Mark
	for _, id := range ids {
		marks = append(marks, store.Mark{From: from, ID: id, Phase: store.PhaseFresh})
	}
	check(a.t, a.Mark(testContext(a.t), 0, marks))
}

// outbox returns the due records as text, and the time at which the next one is due.
func (a *ages) outbox(limit int) (string, time.Time) {
	a.t.Helper()
	records, next, err := a.Outbox(testContext(a.t), 0, limit)
	check(a.t, err)
	var texts []string
	for _, o := range records {
		texts = append(texts, fmt.Sprintf("%s %s", o.ID, o.Phase))
	}
	return strings.Join(texts, ", "), next
}

func (a *ages) expectOutbox(what, want string) {
	a.t.Helper()
	if got, _ := a.outbox(10); got != want {
		a.t.Errorf("%s: got %q, want %q", what, got, want)
	}
}

func TestOutbox_KeepsTheOrderOfAPairWhenTheClockIsSetBack(t *testing.T) {
	a := openAges(t)
	h := a.own(newRun(10))
	h.send("wrun_other", "one", "two")
	a.answer(h.run.Run, "one")
	a.clock.Advance(-time.Hour)
	a.answer(h.run.Run, "two")
	a.clock.Advance(store.Horizon)
	a.expectOutbox("while the first is not due", "")
	a.clock.Advance(time.Hour)
	a.expectOutbox("when the first is due", "one answered, two answered")
}

func TestOutbox_ALaterRecordWaitsForOneThatWasTakenBack(t *testing.T) {
	a := openAges(t)
	h := a.own(newRun(10))
	h.send("wrun_other", "one", "two", "three")
	h.send("wrun_another", "apart")
	a.answer(h.run.Run, "one", "two", "three", "apart")
	a.clock.Advance(store.Horizon - time.Second)
	lost := store.Mark{From: h.run.Run, ID: "two", Phase: store.PhaseAnswered, Unknown: true, Refusal: &store.Item{ID: "refusal"}}
	check(t, a.Mark(testContext(t), 0, []store.Mark{lost}))
	a.expectOutbox("what was taken back", "one fresh, two fresh")
	a.answer(h.run.Run, "one", "two")
	a.clock.Advance(time.Second)
	a.expectOutbox("while the first is not due", "apart answered")
	a.clock.Advance(store.Horizon)
	a.expectOutbox("when the first is due", "one answered, two answered, three answered, apart answered")
	loaded, err := a.Load(testContext(t), []store.Load{{Run: h.run.Run, Inbox: true}})
	check(t, err)
	if diff := cmp.Diff([]store.Item(nil), loaded[0].Inbox); diff != "" {
		t.Errorf("inbox of the sender (-want +got)\n%s", diff)
	}
}

func TestOutbox_ALaterRecordDoesNotWaitForTheTurnOfOneThatWasTakenBack(t *testing.T) {
	a := openAges(t)
	h := a.own(newRun(10))
	h.send("wrun_other", "one", "two", "three")
	a.answer(h.run.Run, "three")
	a.clock.Advance(time.Minute)
	a.answer(h.run.Run, "one")
	lost := store.Mark{From: h.run.Run, ID: "two", Phase: store.PhaseFresh, Unknown: true}
	check(t, a.Mark(testContext(t), 0, []store.Mark{lost}))
	a.clock.Advance(store.Horizon - time.Minute)
	a.expectOutbox("when the last is due", "one fresh, two fresh, three answered")
}

func TestOutbox_IsReadInPartsWithoutAnEnd(t *testing.T) {
	a := openAges(t)
	h := a.own(newRun(10))
	var want []event.ItemID
	for n := range 25 {
		want = append(want, event.ItemID(fmt.Sprint("record ", n)))
	}
	h.send("wrun_other", want...)
	var got []event.ItemID
	for range 9 {
		records, next, err := a.Outbox(testContext(t), 0, 10)
		check(t, err)
		if left := len(want) - len(got); (left > 10) != (!next.IsZero() && !next.After(a.clock.Now())) {
			t.Fatalf("with %d records left the next is due at %v, now is %v", left, next, a.clock.Now())
		}
		for _, o := range records {
			got = append(got, o.ID)
			a.answer(h.run.Run, o.ID)
		}
		if len(records) < 10 {
			break
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got)\n%s", diff)
	}
}

func TestPlans_UseAnIndexAndSortNothing(t *testing.T) {
	s := openTest(t)
	page := func(by index) string {
		return by.statement(&store.Query{}, conditions(&store.Query{Roots: true, Tags: map[string]string{"a": "b"}}).String())
	}
	for name, query := range map[string]string{
		"next time of the outbox":    selectNextSend,
		"next record of the outbox":  selectNextAfter,
		"answered records of a pair": selectAnswered + `seq >= +? ORDER BY seq LIMIT 1`,
		"next purge":                 selectPurge,
		"what needs a run":           `SELECT 1 FROM runs WHERE key = +? AND ` + unneeded,
		"all runs":                   page(byCreation),
		"runs of a class":            page(byClass),
		"children of a run":          page(byParent),
		"runs of a tree":             page(byRoot),
		"runs of a workflow id":      page(byWorkflowID),
		"runs with a tag":            page(byTag),
	} {
		t.Run(name, func(t *testing.T) {
			var plan []string
			check(t, s.read(testContext(t), func(c *conn) error {
				plan = nil
				return c.QueryOnce(`EXPLAIN QUERY PLAN `+query, func(r row) error {
					plan = append(plan, r.ColumnText(3))
					return nil
				})
			}))
			for i, line := range plan {
				ordered := i == 0 && strings.HasPrefix(line, "SCAN") && strings.Contains(line, "INDEX") // the scan stops at the limit of the query
				sorts := strings.Contains(line, "TEMP B-TREE") && !strings.Contains(line, "LAST TERM")  // sorting the records of one millisecond is allowed
				if !ordered && (strings.HasPrefix(line, "SCAN") || sorts) {
					t.Errorf("plan:\n%s", strings.Join(plan, "\n"))
					break
				}
			}
		})
	}
}

// TestPlans_CountReadsOnlyAnIndex proves that Count reads only an index, and for ended runs only
// the tallies.
func TestPlans_CountReadsOnlyAnIndex(t *testing.T) {
	s := openTest(t)
	var plan []string
	check(t, s.read(testContext(t), func(c *conn) error {
		plan = nil
		return c.QueryOnce(`EXPLAIN QUERY PLAN `+countRange, func(r row) error {
			plan = append(plan, r.ColumnText(3))
			return nil
		})
	}))
	if !slices.ContainsFunc(plan, func(line string) bool { return strings.Contains(line, "USING COVERING INDEX runs_class") }) {
		t.Errorf("plan:\n%s", strings.Join(plan, "\n"))
	}
}
