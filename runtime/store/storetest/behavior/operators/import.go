package operators

import (
	"slices"
	"sync"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest/suite"
)

// elsewhere returns a harness for another, empty store of the same kind.
func (h *harness) elsewhere() *harness {
	h.Helper()
	other := *h.Harness
	other.Store = h.Config.Open(h.T, h.Clock)
	h.Cleanup(func() {
		if err := other.Store.Close(); err != nil {
			h.Errorf("close the other store: %v", err)
		}
	})
	return &harness{&other}
}

// exported returns the import of a run, made from the answers of the store. It contains the streams
// of the chain if the run is the first of its chain.
func (h *harness) exported(run event.RunID) store.Import {
	h.Helper()
	got := h.Load(run)
	m := store.Import{Record: got.Record, Frames: got.Frames, By: "somebody"}
	if got.Record.Group != "" {
		for _, g := range h.failureGroups(store.FailureGroupQuery{Groups: []string{got.Record.Group}}) {
			m.FailureGroup = g.FailureGroup
		}
	}
	if got.Record.Chain != run {
		return m
	}
	lister, ok := store.As[store.StreamLister](h.Store)
	if !ok {
		h.Fatalf("%T imports runs, and does not list streams", h.Store)
	}
	names, err := lister.StreamNames(h.Ctx, run)
	h.Check("list streams", err)
	for _, name := range names {
		page, err := h.Store.ReadStream(h.Ctx, store.ReadStream{Run: run, Stream: name})
		h.Check("read stream", err)
		s := store.ImportedStream{Name: name, Last: page.Last, Closed: page.Closed}
		for _, c := range page.Chunks {
			s.Chunks = append(s.Chunks, c.Body)
		}
		m.Streams = append(m.Streams, s)
	}
	return m
}

func (h *harness) tryImport(m store.Import) (bool, error) {
	i, _ := store.As[store.Importer](h.Store)
	return i.Import(h.Ctx, m)
}

// imports imports a run. It fails the test unless the store reports that the run is new, or exists
// if fresh is false.
func (h *harness) imports(m store.Import, fresh bool) {
	h.Helper()
	got, err := h.tryImport(m)
	h.Check("import", err)
	h.Equal("run "+string(m.Record.Run)+" is new", got, fresh)
	h.sound()
}

// sound fails the test unless a scan of the store finds nothing to repair. A scan reads data that a
// snapshot does not show.
func (h *harness) sound() {
	h.Helper()
	if _, ok := store.As[store.Rebuilder](h.Store); !ok {
		return
	}
	report, err := fsck.Repair(h.Ctx, h.Store, fsck.Options{DryRun: true})
	h.Check("fsck", err)
	for _, f := range report.Fixes {
		h.Errorf("fsck: %v", f.Findings)
	}
}

// refuses fails the test unless an import is refused for the given reason and changes nothing.
func (h *harness) refuses(what string, m store.Import, why store.ImportRefusal, other event.RunID) {
	h.Helper()
	h.Unchanged(what, func() {
		_, err := h.tryImport(m)
		h.Equal(what, suite.As[*store.ImportError](h.Harness, what, err), &store.ImportError{Run: m.Record.Run, Why: why, Other: other})
	})
}

// asItWas returns the record of an imported run. The fields that an import does not keep have the
// values of the source store.
func (h *harness) asItWas(m store.Import) store.Record {
	h.Helper()
	got := h.Record(m.Record.Run)
	h.Equal("retention", got.Retention, m.Retention(h.Clock.Now()))
	got.Retention, got.Recoveries, got.CreatedBy = m.Record.Retention, m.Record.Recoveries, m.Record.CreatedBy
	return got
}

var importBehaviors = []behavior{
	{"AnImportedRunIsAsItWas", func(h *harness) {
		src := h.elsewhere()
		wid := h.WorkflowID("order")
		l := src.Ended(suite.Named(wid), func(l *suite.Log) {
			l.Spec.Tags = map[string]string{"region": "eu", "a": ""}
			l.Spec.Priority, l.Spec.Parent, l.Spec.Root = 7, h.RunID(), h.RunID()
		})
		m := src.exported(l.Run)
		h.Clock.Advance(time.Hour)
		h.imports(m, true)
		h.Equal("record", h.asItWas(m), m.Record)
		h.Equal("log", h.Load(l.Run).Frames, m.Frames)
		run, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("run of the workflow id", run, l.Run)
		if suite.Has[store.Auditor](h.Store) {
			a, _ := store.As[store.Auditor](h.Store)
			trail, err := a.Audit(h.Ctx, l.Run)
			h.Check("audit", err)
			h.Equal("audit trail", trail, []store.AuditEntry{{
				Time: h.Clock.Now(), Run: l.Run, Reason: store.ReasonImported, By: "somebody", QueueState: store.StateEnded, Status: m.Record.Status, Epoch: m.Record.Fence.Epoch,
			}})
		}
	}},
	{"AnImportedRunIsListedByItsTimesAndCounted", func(h *harness) {
		src := h.elsewhere()
		old := src.exported(src.Ended().Run)
		h.Clock.Advance(time.Hour)
		between := h.Ended()
		h.Clock.Advance(time.Hour)
		young := src.exported(src.Ended().Run)
		h.Clock.Advance(time.Hour)
		h.imports(young, true)
		h.imports(old, true)
		if suite.Has[store.Lister](h.Store) {
			h.Equal("list", h.List(store.Query{}), []event.RunID{young.Record.Run, between.Run, old.Record.Run})
			h.Equal("count", h.Count(store.Query{}), map[event.Status]int{event.StatusCompleted: 3})
		}
	}},
	{"W3_ImportedAgainItChangesNothing", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.Ended().Run)
		h.imports(m, true)
		h.Clock.Advance(time.Hour)
		h.Unchanged("another import", func() { h.imports(m, false) })
		h.Unchanged("an import into the store that it comes from", func() { src.imports(m, false) })
	}},
	{"F3_AReplacedLogHasTheSameFramesWithOtherUserData", func(h *harness) {
		run := h.Ended(suite.Named(h.WorkflowID("order"))).Run
		before := h.Load(run)
		m := h.exported(run)
		changed := 0
		for i := range m.Frames {
			frame, err := event.ConvertFrame(m.Frames[i], func(b []byte, _ event.Part, content []byte) ([]byte, error) {
				changed++
				return append(append(b, event.SealedMark, 0, 1), content...), nil
			})
			h.Check("convert", err)
			m.Frames[i] = frame
		}
		h.Equal("the log has user data", changed > 0, true)
		h.Clock.Advance(time.Hour)
		h.Unchanged("an import of another form of the log", func() { h.imports(m, false) })
		m.Replace = true
		h.imports(m, false)
		after := h.Load(run)
		h.Equal("log", after.Frames, m.Frames)
		h.Equal("record", after.Record, before.Record)
		h.imports(m, false)
		h.Equal("log after a repetition", h.Load(run).Frames, m.Frames)
		other := h.exported(h.Ended().Run)
		other.Record.Run, other.Record.Chain, other.Replace = run, run, true
		other.Record.WorkflowID = m.Record.WorkflowID
		if fresh, err := h.tryImport(other); fresh || err == nil {
			h.Errorf("a replacement by another log: got %v and %v, want an error", fresh, err)
		}
		h.Equal("log after a refusal", h.Load(run).Frames, m.Frames)
	}},
	{"P1_TheRetentionOfAnImportedRunCountsFromItsImport", func(h *harness) {
		src := h.elsewhere()
		asked, usual := src.Ended(suite.Keep(suite.Long)), src.Ended()
		first, second := src.exported(asked.Run), src.exported(usual.Run)
		h.Clock.Advance(400 * 24 * time.Hour)
		h.imports(first, true)
		h.imports(second, true)
		h.Clock.Advance(suite.Long - time.Millisecond)
		h.Purged(0)
		h.Clock.Advance(time.Millisecond)
		h.Purged(1)
		h.Gone(asked.Run)
		h.Clock.Advance(store.DefaultRetention - suite.Long)
		h.Purged(1)
		h.Leaves()
	}},
	{"P1_ARetentionOfCenturiesStaysOne", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.Ended(suite.Keep(290 * 365 * 24 * time.Hour)).Run)
		h.Clock.Advance(10 * 365 * 24 * time.Hour)
		h.imports(m, true)
		h.Equal("retention", h.Record(m.Record.Run).Retention, m.Retention(h.Clock.Now()))
		h.Purged(0)
	}},
	{"AnImportedRunIsDeletedAndPurgedLikeAnyOther", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.Ended(suite.Named(h.WorkflowID("order"))).Run)
		h.Clock.Advance(time.Hour)
		h.imports(m, true)
		h.Check("delete", h.Delete(m.Record.Run))
		h.refuses("an import of a deleted run", m, store.ImportHidden, "")
		h.Purged(1)
		h.Leaves()
		h.imports(m, true)
	}},
	{"AWorkflowIDLeadsToTheRunThatEndedLast", func(h *harness) {
		src := h.elsewhere()
		wid := h.WorkflowID("order")
		var all []store.Import
		for range 3 {
			all = append(all, src.exported(src.Ended(suite.Named(wid)).Run))
			h.Clock.Advance(time.Minute)
		}
		for _, step := range []struct{ add, leads int }{{1, 1}, {0, 1}, {2, 2}} {
			h.imports(all[step.add], true)
			run, err := h.Store.Resolve(h.Ctx, wid)
			h.Check("resolve", err)
			h.Equal("run of the workflow id", run, all[step.leads].Record.Run)
		}
	}},
	{"AWorkflowIDWithAnActiveRunKeepsIt", func(h *harness) {
		src := h.elsewhere()
		wid := h.WorkflowID("order")
		m := src.exported(src.Ended(suite.Named(wid)).Run)
		active := h.StartAs(suite.Orders, wid)
		waits := h.StartAs(suite.Orders, wid, func(c *store.Create) { c.Active = store.ActiveQueue })
		h.imports(m, true)
		run, err := h.Store.Resolve(h.Ctx, wid)
		h.Check("resolve", err)
		h.Equal("run of the workflow id", run, active.Run)
		h.Finish(active, h.Own(h.Session(), active), event.StatusCompleted)
		h.State(waits.Run, store.StateReady)
	}},
	{"AnImportedRunTakesNoPermits", func(h *harness) {
		src := h.elsewhere()
		l := src.Start(func(c *store.Create) { c.Fair, c.Share = "tenant", 2 })
		src.Finish(l, src.Own(src.Session(), l), event.StatusCompleted)
		m := src.exported(l.Run)
		if suite.Has[store.Limiter](h.Store) {
			m.Record.Uses, m.Record.Whole = store.MergeUses([]store.Use{{LimitID: store.LimitID{Name: "gpu"}, Weight: 2}}), true
			h.Limit("gpu", 2)
			h.imports(m, true)
			h.Counts("gpu", 0, 0)
			h.Equal("record", h.asItWas(m), m.Record)
		}
	}},
	{"ImportRefusesARunThatGoesOn", func(h *harness) {
		src := h.elsewhere()
		l := src.Start()
		m := src.exported(l.Run)
		h.refuses("an import of an open run", m, store.ImportOpen, "")
		src.Finish(l, src.Own(src.Session(), l), event.StatusCompleted)
		ended := src.exported(l.Run)
		h.Create(store.Create{Run: l.Run, Route: suite.Orders, Frame: m.Frames[0], CommitID: m.Record.Last, Seq: m.Record.Seq})
		h.refuses("an import of a run that goes on here", ended, store.ImportGoesOn, "")
	}},
	{"ImportRefusesARunThatIsBelowItself", func(h *harness) {
		src := h.elsewhere()
		l := src.Start()
		src.Finish(l, src.Own(src.Session(), l), event.StatusCompleted)
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
		l := src.Start()
		twin := suite.NewLog(h.IDs, h.Clock, l.Run, l.Spec)
		h.Create(twin.Create())
		src.Finish(l, src.Own(src.Session(), l), event.StatusCompleted)
		h.Finish(twin, h.Own(h.Session(), twin), event.StatusCompleted)
		h.refuses("an import of another run", src.exported(l.Run), store.ImportOther, "")
	}},
	{"AnImportedChainIsOne", func(h *harness) {
		src := h.elsewhere()
		runs := src.Chain(3, suite.Named(h.WorkflowID("order")))
		fence := src.Own(src.Session(), runs[2])
		src.Publish(runs[2], fence, suite.Body("1"))
		src.Publish(runs[2], fence, store.Publication{Body: []byte("2"), Keep: 1})
		c := runs[2].Commit(fence, runs[2].Work()...)
		c.Publish = []store.Publication{{Stream: "b\x00\xff", Body: []byte{}, Close: true}, {Stream: "c", Body: []byte("gone")}}
		src.Commit(runs[2], c)
		src.Finish(runs[2], fence, event.StatusCompleted)
		var all []store.Import
		for _, l := range runs {
			all = append(all, src.exported(l.Run))
		}
		h.Clock.Advance(time.Hour)
		h.refuses("a later run before the first", all[1], store.ImportNoChain, runs[0].Run)
		for _, m := range all {
			h.imports(m, true)
			h.Equal("record", h.asItWas(m), m.Record)
			h.Fsck()
			_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: runs[0].Run, Item: h.Item()})
			told := runs[0].Run // until the last run is imported, this run answers for its chain
			if m.Record.Next == "" {
				told = m.Record.Run
			}
			h.Equal("the run that a sender is told of", suite.As[*store.TerminalError](h.Harness, "deliver", err).Run, told)
		}
		h.Same("the stream", "a", []string{"2"}, store.StreamPage{First: 2, Last: 2, Ended: true}, runs...)
		h.Equal("streams", h.exported(runs[0].Run).Streams, all[0].Streams)
		h.Clock.Advance(store.DefaultRetention)
		n, _ := h.Purge(2)
		h.Equal("number of purged runs", n, 2)
		h.State(runs[0].Run, store.StateEnded) // the first run is purged after the others
		h.Purged(1)
		h.Leaves()
	}},
	{"AChainIsImportedInAnyOrderBehindItsFirstRun", func(h *harness) {
		src := h.elsewhere()
		runs := src.Chain(4)
		src.Finish(runs[3], src.Own(src.Session(), runs[3]), event.StatusCompleted)
		h.imports(src.exported(runs[0].Run), true)
		for _, i := range []int{2, 1, 3} {
			h.imports(src.exported(runs[i].Run), true)
			h.Fsck()
		}
		_, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: runs[0].Run, Item: h.Item()})
		h.Equal("the run that a sender is told of", suite.As[*store.TerminalError](h.Harness, "deliver", err).Run, runs[3].Run)
	}},
	{"AChainThatGoesOnHereTakesBackWhatItHasLost", func(h *harness) {
		runs := h.Chain(3, suite.Keep(suite.Long))
		lost := h.exported(runs[1].Run)
		h.Check("delete", h.Delete(runs[1].Run))
		h.Clock.Advance(2 * suite.Long)
		h.Purged(1)
		h.imports(lost, true)
		h.Deliver(runs[2].Run)
		got, err := h.Store.Deliver(h.Ctx, store.Deliver{Run: runs[0].Run, Item: h.Item()})
		h.Check("deliver", err)
		h.Equal("run that accepted it", got, runs[2].Run)
	}},
	{"ImportRefusesASecondEndOfAChain", func(h *harness) {
		src := h.elsewhere()
		runs := src.Chain(2)
		src.Finish(runs[1], src.Own(src.Session(), runs[1]), event.StatusCompleted)
		other := h.RunID()
		spec := runs[0].Spec
		spec.ContinuedOf = runs[0].Run
		twin := suite.NewLog(h.IDs, h.Clock, other, spec)
		third := h.elsewhere()
		third.Create(twin.Create())
		third.Finish(twin, third.Own(third.Session(), twin), event.StatusCompleted)
		m := third.exported(other)
		m.Record.Chain, m.Streams = runs[0].Run, nil
		h.imports(src.exported(runs[0].Run), true)
		h.imports(src.exported(runs[1].Run), true)
		h.refuses("another end", m, store.ImportEnds, runs[1].Run)
	}},
	{"ImportRefusesWhatContradictsTheLog", func(h *harness) {
		src := h.elsewhere()
		good := src.exported(src.Ended(func(l *suite.Log) { l.Spec.Tags = map[string]string{"a": "b"} }).Run)
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
			"the parent":          func(m *store.Import) { m.Record.Parent = h.RunID() },
			"the next run":        func(m *store.Import) { m.Record.Next = h.RunID() },
			"the chain":           func(m *store.Import) { m.Record.Chain = h.RunID() },
			"the last commit":     func(m *store.Import) { m.Record.Last = h.IDs.CommitID() },
			"the last event":      func(m *store.Import) { m.Record.Seq++ },
			"the epoch":           func(m *store.Import) { m.Record.Fence.Epoch = 0 },
			"the end":             func(m *store.Import) { m.Record.EndedAt = time.Time{} },
			"the creation":        func(m *store.Import) { m.Record.CreatedAt = time.Unix(0, 1) },
			"a group":             func(m *store.Import) { m.Record.Group = "f1-a" },
			"a group of success":  func(m *store.Import) { m.Record.Group, m.FailureGroup.Group = "f1-a", "f1-a" },
			"a rerun of success":  func(m *store.Import) { m.Record.Rerun = h.RunID() },
			"a stream twice":      func(m *store.Import) { m.Streams = []store.ImportedStream{{Name: "a"}, {Name: "a"}} },
			"too many chunks":     func(m *store.Import) { m.Streams = []store.ImportedStream{{Name: "a", Chunks: [][]byte{{1}}}} },
		} {
			m := good
			m.Frames = slices.Clone(good.Frames)
			change(&m)
			h.Unchanged(what, func() {
				_, err := h.tryImport(m)
				suite.IsA[*store.DamagedError](h.Harness, what, err)
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
			h.Unchanged(what, func() {
				_, err := h.tryImport(m)
				suite.IsA[*store.InvalidError](h.Harness, what, err)
			})
		}
		h.imports(good, true)
	}},
	{"OfManyImportsOfARunOneIsNew", func(h *harness) {
		src := h.elsewhere()
		for range 5 {
			m := src.exported(src.Ended().Run)
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
			h.Equal("imports that were new", len(fresh), 1)
		}
	}},
}

var importFailureGroupBehaviors = []behavior{
	{"AnImportedRunIsInItsGroupOfTrouble", func(h *harness) {
		src := h.elsewhere()
		var all []store.Import
		for range 2 {
			l, fence := src.StartOwned(src.Session())
			src.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
			all = append(all, src.exported(l.Run))
			h.Clock.Advance(time.Hour)
		}
		for i, m := range all {
			h.imports(m, true)
			h.group(m.Record.Run, declined.Group)
			h.opens(declined.Group, i+1, i+1)
			h.Unchanged("another import", func() { h.imports(m, false) })
		}
		h.Equal("groups", h.failureGroups(store.FailureGroupQuery{}), src.failureGroups(store.FailureGroupQuery{}))
		h.Check("delete", h.Delete(all[0].Record.Run))
		h.opens(declined.Group, 1, 2)
	}},
	{"AnImportedRunThatWasTriedAgainNamesItsRerunAndIsInNoGroup", func(h *harness) {
		src := h.elsewhere()
		l, fence := src.StartOwned(src.Session())
		src.Commit(l, labeled(suite.WithEffect(l.Commit(fence, l.End(event.StatusFailed)...), store.EffectFinish, event.StatusFailed), declined))
		made := src.NewLog(suite.Orders, "").Create()
		made.RerunOf = l.Run
		src.Create(made)
		m := src.exported(l.Run)
		h.Equal("rerun in the other store", m.Record.Rerun, made.Run)
		h.imports(m, true)
		h.Equal("record", h.asItWas(m), m.Record)
		h.Equal("groups", len(h.failureGroups(store.FailureGroupQuery{})), 0)
		h.Unchanged("another import", func() { h.imports(m, false) })
	}},
}

var reopenImportBehaviors = []behavior{
	{"AnImportedRunSurvivesCloseAndOpen", func(h *harness) {
		src := h.elsewhere()
		m := src.exported(src.Ended().Run)
		h.imports(m, true)
		h.Unchanged("close and open", h.Reopen)
		h.Unchanged("another import", func() { h.imports(m, false) })
	}},
}
