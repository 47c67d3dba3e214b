package storetest

import (
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

func canImport(s store.Store) bool {
	_, ok := store.As[store.Importer](s)
	return ok
}

// elsewhere returns a harness for another store of the same kind.
func (h *harness) elsewhere() *harness {
	h.Helper()
	other := *h
	other.store = h.cfg.Open(h.t, h.clock)
	h.Cleanup(func() {
		if err := other.store.Close(); err != nil {
			h.Errorf("close the other store: %v", err)
		}
	})
	return &other
}

// exported returns the import that a store's answers give for a run. It contains the streams of the
// chain if the run is the first of its chain.
func (h *harness) exported(run event.RunID) store.Import {
	h.Helper()
	got := h.load(run)
	m := store.Import{Record: got.Record, Frames: got.Frames, By: "somebody"}
	if got.Record.Group != "" {
		for _, g := range h.troubles(store.TroubleQuery{Groups: []string{got.Record.Group}}) {
			m.Trouble = g.Trouble
		}
	}
	if got.Record.Chain != run {
		return m
	}
	lister, ok := store.As[store.StreamLister](h.store)
	if !ok {
		h.Fatalf("%T imports runs, and does not list streams", h.store)
	}
	names, err := lister.StreamNames(h.ctx, run)
	h.check("list streams", err)
	for _, name := range names {
		page, err := h.store.ReadStream(h.ctx, store.ReadStream{Run: run, Stream: name})
		h.check("read stream", err)
		s := store.ImportedStream{Name: name, Last: page.Last, Closed: page.Closed}
		for _, c := range page.Chunks {
			s.Chunks = append(s.Chunks, c.Body)
		}
		m.Streams = append(m.Streams, s)
	}
	return m
}

func (h *harness) tryImport(m store.Import) (bool, error) {
	i, _ := store.As[store.Importer](h.store)
	return i.Import(h.ctx, m)
}

// imports imports a run. The store must report it as new if fresh is set, and as existing
// otherwise.
func (h *harness) imports(m store.Import, fresh bool) {
	h.Helper()
	got, err := h.tryImport(m)
	h.check("import", err)
	h.equal("run "+string(m.Record.Run)+" is new", got, fresh)
	h.sound()
}

// sound fails the test unless a scan of the store finds nothing to repair. A scan reads data that a
// snapshot does not show.
func (h *harness) sound() {
	h.Helper()
	if _, ok := store.As[store.Rebuilder](h.store); !ok {
		return
	}
	report, err := fsck.Repair(h.ctx, h.store, fsck.Options{DryRun: true})
	h.check("fsck", err)
	for _, f := range report.Fixes {
		h.Errorf("fsck: %v", f.Findings)
	}
}

// refuses fails the test unless an import is refused for the given reason and changes nothing.
func (h *harness) refuses(what string, m store.Import, why store.ImportRefusal, other event.RunID) {
	h.Helper()
	h.unchanged(what, func() {
		_, err := h.tryImport(m)
		h.equal(what, as[*store.ImportError](h, what, err), &store.ImportError{Run: m.Record.Run, Why: why, Other: other})
	})
}

// asItWas returns the record of an imported run, with the fields that an import does not keep
// replaced by those of the source store.
func (h *harness) asItWas(m store.Import) store.Record {
	h.Helper()
	got := h.record(m.Record.Run)
	h.equal("retention", got.Retention, m.Retention(h.clock.Now()))
	got.Retention, got.Recoveries, got.CreatedBy = m.Record.Retention, m.Record.Recoveries, m.Record.CreatedBy
	return got
}

var importBehaviors = []behavior{
	{"AnImportedRunIsAsItWas", func(h *harness) {
		src := h.elsewhere()
		wid := h.workflowID("order")
		l := src.ended(named(wid), func(l *Log) {
			l.Spec.Tags = map[string]string{"region": "eu", "a": ""}
			l.Spec.Priority, l.Spec.Parent, l.Spec.Root = 7, h.runID(), h.runID()
		})
		m := src.exported(l.Run)
		h.clock.Advance(time.Hour)
		h.imports(m, true)
		h.equal("record", h.asItWas(m), m.Record)
		h.equal("log", h.load(l.Run).Frames, m.Frames)
		run, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("run of the workflow id", run, l.Run)
		if canAudit(h.store) {
			a, _ := store.As[store.Auditor](h.store)
			trail, err := a.Audit(h.ctx, l.Run)
			h.check("audit", err)
			h.equal("audit trail", trail, []store.AuditEntry{{
				Time: h.clock.Now(), Run: l.Run, Reason: store.ReasonImported, By: "somebody", QueueState: store.StateEnded, Status: m.Record.Status, Epoch: m.Record.Fence.Epoch,
			}})
		}
	}},
	{"AnImportedRunIsListedByItsTimesAndCounted", func(h *harness) {
		src := h.elsewhere()
		old := src.exported(src.ended().Run)
		h.clock.Advance(time.Hour)
		between := h.ended()
		h.clock.Advance(time.Hour)
		young := src.exported(src.ended().Run)
		h.clock.Advance(time.Hour)
		h.imports(young, true)
		h.imports(old, true)
		if canList(h.store) {
			h.equal("list", h.list(store.Query{}), []event.RunID{young.Record.Run, between.Run, old.Record.Run})
			h.equal("count", h.count(store.Query{}), map[event.Status]int{event.StatusCompleted: 3})
		}
	}},
	{"W3_ImportedAgainItChangesNothing", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.ended().Run)
		h.imports(m, true)
		h.clock.Advance(time.Hour)
		h.unchanged("another import", func() { h.imports(m, false) })
		h.unchanged("an import into the store that it comes from", func() { src.imports(m, false) })
	}},
	{"P1_TheRetentionOfAnImportedRunCountsFromItsImport", func(h *harness) {
		src := h.elsewhere()
		asked, usual := src.ended(keep(long)), src.ended()
		first, second := src.exported(asked.Run), src.exported(usual.Run)
		h.clock.Advance(400 * 24 * time.Hour)
		h.imports(first, true)
		h.imports(second, true)
		h.clock.Advance(long - time.Millisecond)
		h.purged(0)
		h.clock.Advance(time.Millisecond)
		h.purged(1)
		h.gone(asked.Run)
		h.clock.Advance(store.DefaultRetention - long)
		h.purged(1)
		h.leaves()
	}},
	{"P1_ARetentionOfCenturiesStaysOne", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.ended(keep(290 * 365 * 24 * time.Hour)).Run)
		h.clock.Advance(10 * 365 * 24 * time.Hour)
		h.imports(m, true)
		h.equal("retention", h.record(m.Record.Run).Retention, m.Retention(h.clock.Now()))
		h.purged(0)
	}},
	{"AnImportedRunIsDeletedAndPurgedLikeAnyOther", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.ended(named(h.workflowID("order"))).Run)
		h.clock.Advance(time.Hour)
		h.imports(m, true)
		h.check("delete", h.delete(m.Record.Run))
		h.refuses("an import of a deleted run", m, store.ImportHidden, "")
		h.purged(1)
		h.leaves()
		h.imports(m, true)
	}},
	{"AWorkflowIDLeadsToTheRunThatEndedLast", func(h *harness) {
		src := h.elsewhere()
		wid := h.workflowID("order")
		var all []store.Import
		for range 3 {
			all = append(all, src.exported(src.ended(named(wid)).Run))
			h.clock.Advance(time.Minute)
		}
		for _, step := range []struct{ add, leads int }{{1, 1}, {0, 1}, {2, 2}} {
			h.imports(all[step.add], true)
			run, err := h.store.Resolve(h.ctx, wid)
			h.check("resolve", err)
			h.equal("run of the workflow id", run, all[step.leads].Record.Run)
		}
	}},
	{"AWorkflowIDWithAnActiveRunKeepsIt", func(h *harness) {
		src := h.elsewhere()
		wid := h.workflowID("order")
		m := src.exported(src.ended(named(wid)).Run)
		active := h.startAs(orders, wid)
		waits := h.startAs(orders, wid, func(c *store.Create) { c.Active = store.ActiveQueue })
		h.imports(m, true)
		run, err := h.store.Resolve(h.ctx, wid)
		h.check("resolve", err)
		h.equal("run of the workflow id", run, active.Run)
		h.finish(active, h.own(h.session(), active), event.StatusCompleted)
		h.state(waits.Run, store.StateReady)
	}},
	{"AnImportedRunTakesNoPermits", func(h *harness) {
		src := h.elsewhere()
		l := src.start(func(c *store.Create) { c.Fair, c.Share = "tenant", 2 })
		src.finish(l, src.own(src.session(), l), event.StatusCompleted)
		m := src.exported(l.Run)
		if canLimit(h.store) {
			m.Record.Uses, m.Record.Whole = store.MergeUses([]store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 2}}), true
			h.limit("gpu", 2)
			h.imports(m, true)
			h.counts("gpu", 0, 0)
			h.equal("record", h.asItWas(m), m.Record)
		}
	}},
	{"ImportRefusesARunThatGoesOn", func(h *harness) {
		src := h.elsewhere()
		l := src.start()
		m := src.exported(l.Run)
		h.refuses("an import of an open run", m, store.ImportOpen, "")
		src.finish(l, src.own(src.session(), l), event.StatusCompleted)
		ended := src.exported(l.Run)
		h.create(store.Create{Run: l.Run, Route: orders, Frame: m.Frames[0], CommitID: m.Record.Last, Seq: m.Record.Seq})
		h.refuses("an import of a run that goes on here", ended, store.ImportGoesOn, "")
	}},
	{"ImportRefusesARunThatIsBelowItself", func(h *harness) {
		src := h.elsewhere()
		l := src.start()
		src.finish(l, src.own(src.session(), l), event.StatusCompleted)
		for what, of := range map[string]func(*store.Record) *event.RunID{
			"its own parent": func(r *store.Record) *event.RunID { return &r.Parent },
			"its own root":   func(r *store.Record) *event.RunID { return &r.Root },
			"its own next":   func(r *store.Record) *event.RunID { return &r.Next },
		} {
			m := src.exported(l.Run)
			*of(&m.Record) = l.Run
			h.refuses(what, m, store.ImportRound, "")
		}
	}},
	{"F3_ImportRefusesAnotherRunOfTheSameID", func(h *harness) {
		src := h.elsewhere()
		l := src.start()
		twin := NewLog(h.ids, h.clock, l.Run, l.Spec)
		h.create(twin.Create())
		src.finish(l, src.own(src.session(), l), event.StatusCompleted)
		h.finish(twin, h.own(h.session(), twin), event.StatusCompleted)
		h.refuses("an import of another run", src.exported(l.Run), store.ImportOther, "")
	}},
	{"AnImportedChainIsOne", func(h *harness) {
		src := h.elsewhere()
		runs := src.chain(3, named(h.workflowID("order")))
		fence := src.own(src.session(), runs[2])
		src.publish(runs[2], fence, body("1"))
		src.publish(runs[2], fence, store.Publication{Body: []byte("2"), Keep: 1})
		c := runs[2].Commit(fence, runs[2].Work()...)
		c.Publish = []store.Publication{{Stream: "b\x00\xff", Body: []byte{}, Close: true}, {Stream: "c", Body: []byte("gone")}}
		src.commit(runs[2], c)
		src.finish(runs[2], fence, event.StatusCompleted)
		var all []store.Import
		for _, l := range runs {
			all = append(all, src.exported(l.Run))
		}
		h.clock.Advance(time.Hour)
		h.refuses("a later run before the first", all[1], store.ImportNoChain, runs[0].Run)
		for _, m := range all {
			h.imports(m, true)
			h.equal("record", h.asItWas(m), m.Record)
			h.fsck()
			_, err := h.store.Deliver(h.ctx, store.Deliver{Run: runs[0].Run, Item: h.item()})
			told := runs[0].Run // the run that answers for its chain until the last run is imported
			if m.Record.Next == "" {
				told = m.Record.Run
			}
			h.equal("the run that a sender is told of", as[*store.TerminalError](h, "deliver", err).Run, told)
		}
		h.same("the stream", "a", []string{"2"}, store.StreamPage{First: 2, Last: 2, Ended: true}, runs...)
		h.equal("streams", h.exported(runs[0].Run).Streams, all[0].Streams)
		h.clock.Advance(store.DefaultRetention)
		n, _ := h.purge(2)
		h.equal("number of purged runs", n, 2)
		h.state(runs[0].Run, store.StateEnded) // it is purged after the others
		h.purged(1)
		h.leaves()
	}},
	{"AChainIsImportedInAnyOrderBehindItsFirstRun", func(h *harness) {
		src := h.elsewhere()
		runs := src.chain(4)
		src.finish(runs[3], src.own(src.session(), runs[3]), event.StatusCompleted)
		h.imports(src.exported(runs[0].Run), true)
		for _, i := range []int{2, 1, 3} {
			h.imports(src.exported(runs[i].Run), true)
			h.fsck()
		}
		_, err := h.store.Deliver(h.ctx, store.Deliver{Run: runs[0].Run, Item: h.item()})
		h.equal("the run that a sender is told of", as[*store.TerminalError](h, "deliver", err).Run, runs[3].Run)
	}},
	{"AChainThatGoesOnHereTakesBackWhatItHasLost", func(h *harness) {
		runs := h.chain(3, keep(long))
		lost := h.exported(runs[1].Run)
		h.check("delete", h.delete(runs[1].Run))
		h.clock.Advance(2 * long)
		h.purged(1)
		h.imports(lost, true)
		h.deliver(runs[2].Run)
		got, err := h.store.Deliver(h.ctx, store.Deliver{Run: runs[0].Run, Item: h.item()})
		h.check("deliver", err)
		h.equal("run that accepted it", got, runs[2].Run)
	}},
	{"ImportRefusesASecondEndOfAChain", func(h *harness) {
		src := h.elsewhere()
		runs := src.chain(2)
		src.finish(runs[1], src.own(src.session(), runs[1]), event.StatusCompleted)
		other := h.runID()
		spec := runs[0].Spec
		spec.ContinuedOf = runs[0].Run
		twin := NewLog(h.ids, h.clock, other, spec)
		third := h.elsewhere()
		third.create(twin.Create())
		third.finish(twin, third.own(third.session(), twin), event.StatusCompleted)
		m := third.exported(other)
		m.Record.Chain, m.Streams = runs[0].Run, nil
		h.imports(src.exported(runs[0].Run), true)
		h.imports(src.exported(runs[1].Run), true)
		h.refuses("another end", m, store.ImportEnds, runs[1].Run)
	}},
	{"ImportRefusesWhatContradictsTheLog", func(h *harness) {
		src := h.elsewhere()
		good := src.exported(src.ended(func(l *Log) { l.Spec.Tags = map[string]string{"a": "b"} }).Run)
		for what, change := range map[string]func(m *store.Import){
			"no log":              func(m *store.Import) { m.Frames = nil },
			"the end is cut off":  func(m *store.Import) { m.Frames = m.Frames[:1] },
			"a frame comes twice": func(m *store.Import) { m.Frames = append(slices.Clone(m.Frames), m.Frames[1]) },
			"the order":           func(m *store.Import) { m.Frames = []([]byte){m.Frames[1], m.Frames[0]} },
			"a damaged frame":     func(m *store.Import) { m.Frames[1] = append([]byte{0}, m.Frames[1]...) },
			"the status":          func(m *store.Import) { m.Record.Status = event.StatusFailed },
			"a tag":               func(m *store.Import) { m.Record.Tags = map[string]string{"a": "c"} },
			"the queue":           func(m *store.Import) { m.Record.Route.Queue = "other" },
			"the workflow":        func(m *store.Import) { m.Record.Route.Workflow = "other" },
			"the parent":          func(m *store.Import) { m.Record.Parent = h.runID() },
			"the next run":        func(m *store.Import) { m.Record.Next = h.runID() },
			"the chain":           func(m *store.Import) { m.Record.Chain = h.runID() },
			"the last commit":     func(m *store.Import) { m.Record.Last = h.ids.CommitID() },
			"the last event":      func(m *store.Import) { m.Record.Seq++ },
			"the epoch":           func(m *store.Import) { m.Record.Fence.Epoch = 0 },
			"the end":             func(m *store.Import) { m.Record.EndedAt = time.Time{} },
			"the creation":        func(m *store.Import) { m.Record.CreatedAt = time.Unix(0, 1) },
			"a group":             func(m *store.Import) { m.Record.Group = "f1-a" },
			"a group of success":  func(m *store.Import) { m.Record.Group, m.Trouble.Group = "f1-a", "f1-a" },
			"a rerun of success":  func(m *store.Import) { m.Record.Rerun = h.runID() },
			"a stream twice":      func(m *store.Import) { m.Streams = []store.ImportedStream{{Name: "a"}, {Name: "a"}} },
			"too many chunks":     func(m *store.Import) { m.Streams = []store.ImportedStream{{Name: "a", Chunks: [][]byte{{1}}}} },
		} {
			m := good
			m.Frames = slices.Clone(good.Frames)
			change(&m)
			h.unchanged(what, func() {
				_, err := h.tryImport(m)
				isA[*store.DamagedError](h, what, err)
			})
		}
		for what, change := range map[string]func(m *store.Import){
			"a run id":     func(m *store.Import) { m.Record.Run = "nobody" },
			"a stream":     func(m *store.Import) { m.Streams = []store.ImportedStream{{}} },
			"a queue":      func(m *store.Import) { m.Record.Route.Queue = "a\x00b" },
			"a parent":     func(m *store.Import) { m.Record.Parent = "nobody" },
			"a rerun":      func(m *store.Import) { m.Record.Rerun = "nobody" },
			"a long value": func(m *store.Import) { m.Record.Tags = map[string]string{"a": string(make([]byte, 5000))} },
		} {
			m := good
			change(&m)
			h.unchanged(what, func() {
				_, err := h.tryImport(m)
				isA[*store.InvalidError](h, what, err)
			})
		}
		h.imports(good, true)
	}},
	{"OfManyImportsOfARunOneIsNew", func(h *harness) {
		src := h.elsewhere()
		for range 5 {
			m := src.exported(src.ended().Run)
			var wg sync.WaitGroup
			fresh := make(chan bool, 8)
			for range cap(fresh) {
				wg.Go(func() {
					if got, err := h.tryImport(m); err != nil {
						h.Errorf("import: %v", err)
					} else if got {
						fresh <- true
					}
				})
			}
			wg.Wait()
			h.equal("imports that were new", len(fresh), 1)
		}
	}},
}

var importTroubleBehaviors = []behavior{
	{"AnImportedRunIsInItsGroupOfTrouble", func(h *harness) {
		src := h.elsewhere()
		var all []store.Import
		for range 2 {
			l, fence := src.startOwned(src.session())
			src.commit(l, labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
			all = append(all, src.exported(l.Run))
			h.clock.Advance(time.Hour)
		}
		for i, m := range all {
			h.imports(m, true)
			h.group(m.Record.Run, declined.Group)
			h.opens(declined.Group, i+1, i+1)
			h.unchanged("another import", func() { h.imports(m, false) })
		}
		h.equal("groups", h.troubles(store.TroubleQuery{}), src.troubles(store.TroubleQuery{}))
		h.check("delete", h.delete(all[0].Record.Run))
		h.opens(declined.Group, 1, 2)
	}},
	{"AnImportedRunThatWasTriedAgainNamesItsRerunAndIsInNoGroup", func(h *harness) {
		src := h.elsewhere()
		l, fence := src.startOwned(src.session())
		src.commit(l, labeled(withEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		made := src.newLog(orders, "").Create()
		made.RerunOf = l.Run
		src.create(made)
		m := src.exported(l.Run)
		h.equal("rerun in the other store", m.Record.Rerun, made.Run)
		h.imports(m, true)
		h.equal("record", h.asItWas(m), m.Record)
		h.equal("groups", len(h.troubles(store.TroubleQuery{})), 0)
		h.unchanged("another import", func() { h.imports(m, false) })
	}},
}

var reopenImportBehaviors = []behavior{
	{"AnImportedRunSurvivesCloseAndOpen", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.ended().Run)
		h.imports(m, true)
		h.unchanged("close and open", h.reopen)
		h.unchanged("another import", func() { h.imports(m, false) })
	}},
}
