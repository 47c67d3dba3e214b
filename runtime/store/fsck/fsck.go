package fsck

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// Finding describes a violation of an invariant.
type Finding struct {
	// Invariant is the number of the invariant in the package documentation.
	Invariant int `json:"invariant"`
	// Run is the run that the finding concerns; empty if it concerns no particular run.
	Run event.RunID `json:"run,omitempty"`
	// What describes the violation.
	What string `json:"what"`
	// Explain describes the consequence of the violation.
	Explain string `json:"explain"`
	// Lasting reports that the cause is in a log. A log is never changed, so no repair removes the
	// finding.
	Lasting bool `json:"lasting,omitempty"`
}

// String returns the finding as one line.
func (f Finding) String() string {
	about := "store"
	if f.Run != "" {
		about = "run " + string(f.Run)
	}
	return fmt.Sprintf("invariant %d: %s: %s: %s", f.Invariant, about, f.What, f.Explain)
}

// Config determines how a check interprets the events in the logs.
type Config struct {
	// Causes returns the IDs of the records that an event in the log of a run has written. If it is
	// nil, a check only verifies that records have senders.
	Causes func(run event.RunID, e *event.Event) []event.ItemID
	// sends returns the same records with their bodies, as workers write them. If it is not nil, a
	// check also verifies the bodies of records.
	sends func(run event.RunID, state *event.LogState, e *event.Event) ([]store.Send, error)
	// partial reports that the snapshot contains one partition. Data from senders in other
	// partitions are then not checked.
	partial bool
	// incomplete reports that runs are missing from the snapshot. They may hold permits or wait for
	// them, so it is not checked which limiter queues may be admitted, and where queues count.
	incomplete bool
}

// Check calls [Config.Check] of the zero Config.
func Check(s *store.Snapshot) []Finding { return Config{}.Check(s) }

// Check returns every violation of an invariant in a snapshot, ordered by number, run and text. It
// returns nil if there is none. It does not change the snapshot.
func (cfg Config) Check(s *store.Snapshot) []Finding {
	return cfg.check(s).findings
}

// check is like Check, but returns the checker, which also has the state of the logs.
func (cfg Config) check(s *store.Snapshot) *checker {
	c := newChecker(s)
	c.cfg = cfg
	for r := range c.runs {
		h := c.checkLog(r)
		c.logs[r.Run] = h
		c.checkQueueState(r)
		c.checkEnded(r)
		c.checkRecoveries(r)
		if h.whole {
			c.checkRecord(r, h)
			c.checkParked(r, h)
			c.checkContinued(r, h)
			c.checkCauses(r, h)
		}
	}
	c.checkSessions()
	c.checkReadyOrder()
	c.checkNames()
	c.checkChains()
	c.checkOutbox()
	if !cfg.partial {
		c.checkLeft()
	}
	c.checkWakes()
	c.checkOrphans()
	c.checkStreams()
	c.checkPermits()
	c.checkWaiting()
	if !cfg.incomplete {
		c.checkStands()
	}
	c.checkCollecting()
	c.checkFairKeys()
	c.checkFailureGroups()
	c.checkLabels()
	c.checkEntries()
	sortFindings(c.findings)
	return c
}

func sortFindings(all []Finding) {
	slices.SortFunc(all, func(a, b Finding) int {
		return cmp.Or(cmp.Compare(a.Invariant, b.Invariant), cmp.Compare(a.Run, b.Run), cmp.Compare(a.What, b.What))
	})
}

// checker collects findings. Its maps contain the places in the snapshot that refer to each run.
type checker struct {
	*store.Snapshot
	findings []Finding
	logs     map[event.RunID]*history
	cfg      Config

	readyIn  map[event.RunID][]store.Route
	ownedBy  map[event.RunID][]store.SessionID
	unreadOf map[event.RunID][]store.SessionID
	linesOf  map[event.RunID][]string
	audited  map[event.RunID]int                  // number of entries in the audit trail
	imported map[event.RunID]bool                 // runs that have ended in another store
	later    map[event.RunID]int                  // number of runs except the first, by chain
	records  map[event.RunID]map[event.ItemID]int // outbox records, by sender
	reruns   map[event.RunID]event.RunID          // results of rerunOf; nil before the first use
	sent     map[event.ItemID]bool                // outbox records of all senders
	// received contains the items in the logs of each chain.
	received map[event.RunID]map[event.ItemID]bool
}

func newChecker(s *store.Snapshot) *checker {
	audited, imported := map[event.RunID]int{}, map[event.RunID]bool{}
	for _, e := range s.Audit {
		audited[e.Run]++
		imported[e.Run] = imported[e.Run] || e.Reason == store.ReasonImported
	}
	later := map[event.RunID]int{}
	for id, r := range s.Runs {
		if r != nil && r.Chain != id {
			later[r.Chain]++
		}
	}
	records, sent := map[event.RunID]map[event.ItemID]int{}, map[event.ItemID]bool{}
	for _, o := range s.Outbox {
		if records[o.From] == nil {
			records[o.From] = map[event.ItemID]int{}
		}
		records[o.From][o.ID]++
		sent[o.ID] = true
	}
	return &checker{
		Snapshot: s, logs: map[event.RunID]*history{}, audited: audited, imported: imported, later: later, records: records, sent: sent,
		received: map[event.RunID]map[event.ItemID]bool{},
		readyIn:  byRun(s.Ready, compareRoutes),
		ownedBy:  byRun(s.Owned, cmp.Compare[store.SessionID]),
		unreadOf: byRun(s.Unread, cmp.Compare[store.SessionID]),
		linesOf:  byRun(s.Lines, cmp.Compare[string]),
	}
}

// byRun inverts a map from keys to sorted runs into a map from runs to sorted keys.
func byRun[K comparable](sets map[K][]event.RunID, order func(a, b K) int) map[event.RunID][]K {
	in := map[event.RunID][]K{}
	for _, key := range slices.SortedFunc(maps.Keys(sets), order) {
		for _, run := range sets[key] {
			in[run] = append(in[run], key)
		}
	}
	return in
}

func compareRoutes(a, b store.Route) int {
	return cmp.Or(cmp.Compare(a.Queue, b.Queue), cmp.Compare(a.Workflow, b.Workflow))
}

// runs yields the runs that are stored under their own IDs, sorted by ID.
func (c *checker) runs(yield func(*store.RunState) bool) {
	for _, id := range slices.Sorted(maps.Keys(c.Runs)) {
		if r := c.Runs[id]; r != nil && r.Run == id && !yield(r) {
			return
		}
	}
}

func (c *checker) find(invariant int, run event.RunID, what, explain string) {
	c.findings = append(c.findings, Finding{Invariant: invariant, Run: run, What: what, Explain: explain})
}

// lasting adds a finding whose cause is in a log.
func (c *checker) lasting(invariant int, run event.RunID, what, explain string) {
	c.findings = append(c.findings, Finding{Invariant: invariant, Run: run, What: what, Explain: explain, Lasting: true})
}
