package fsck_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// examined is a store that returns a fixed snapshot and records the requested repairs. It reports
// for every repair that the subject has changed, so it repairs nothing.
type examined struct {
	store.Store

	snap    *store.Snapshot
	defects []store.Defect
	asked   []string
	runs    []*store.Rebuild
	err     error
}

func (e *examined) Partitions() int { return 1 }

func (e *examined) ReadPartition(context.Context, int) (*store.PartitionState, error) {
	return &store.PartitionState{Snapshot: e.snap, Defects: e.defects, Rebuild: e.rebuild}, e.err
}

func (e *examined) rebuild(_ context.Context, m *store.Rebuild) (bool, error) {
	if m.Record != nil {
		e.runs = append(e.runs, m)
	}
	return e.ask("run " + string(m.Run))
}

func (e *examined) ask(what string) (bool, error) {
	e.asked = append(e.asked, what)
	return false, nil
}

func repaired(t *testing.T, s store.Store, opts fsck.Options) *fsck.Report {
	t.Helper()
	report, err := fsck.Repair(t.Context(), s, opts.With(fsck.Config{}))
	if err != nil {
		t.Fatal(err)
	}
	return report
}

func TestRepair_LeavesNoFindingWithoutAnAnswer(t *testing.T) {
	for _, group := range []map[string]damage{logDamage, queueStateDamage, indexDamage} {
		for name, d := range group {
			t.Run(name, func(t *testing.T) {
				s := intact(t)
				d.do(s)
				e := &examined{snap: s.Snapshot}
				report := repaired(t, e, fsck.Options{DryRun: true})
				answered := map[fsck.Finding]int{}
				for _, fix := range report.Fixes {
					if (fix.Action == "") != (fix.Why != "") || (fix.Action == "") != (fix.Outcome == fsck.OutcomeRemains) {
						t.Errorf("fix %+v: wants either an action or a reason for none", fix)
					}
					if fix.Run != "" && fix.Action != "" && s.Runs[fix.Run] != nil && fix.Reason == "" {
						t.Errorf("fix %+v: has no reason", fix)
					}
					for _, f := range fix.Findings {
						answered[f]++
					}
				}
				found := map[fsck.Finding]int{}
				for _, f := range report.Remaining {
					found[f]++
				}
				if diff := cmp.Diff(found, answered); diff != "" {
					t.Errorf("findings (-found +answered)\n%s", diff)
				}
				if diff := cmp.Diff(fsck.Check(s.Snapshot), report.Remaining); diff != "" {
					t.Errorf("remaining (-findings +got)\n%s", diff)
				}
				if len(e.asked) > 0 {
					t.Errorf("a dry run has asked for %q", e.asked)
				}
			})
		}
	}
}

func TestRepair_NeverTouchesWhatIsNotBroken(t *testing.T) {
	s := intact(t)
	e := &examined{snap: s.Snapshot}
	if report := repaired(t, e, fsck.Options{}); len(report.Fixes) > 0 || len(e.asked) > 0 || report.Runs != len(s.Runs) {
		t.Errorf("report on %d intact runs: %+v, asked for %q", len(s.Runs), report, e.asked)
	}
}

func TestRepair_RepairsDefectsOfTheStoreFirstAndAlone(t *testing.T) {
	s := intact(t)
	delete(s.Timers, s.parked)
	e := &examined{snap: s.Snapshot}
	e.defects = []store.Defect{{Invariant: 16, What: "it leaks", Explain: "it drips", Repair: "seal it", Do: func(context.Context) (bool, error) { return e.ask("defect it leaks") }}}
	report := repaired(t, e, fsck.Options{})
	for _, asked := range e.asked {
		if asked != "defect it leaks" {
			t.Errorf("asked for %q before the defect was repaired", asked)
		}
	}
	if len(e.asked) == 0 || len(report.Remaining) != 2 {
		t.Errorf("asked for %q, remaining %v", e.asked, report.Remaining)
	}
}

func TestRepair_GivesUpWhatNeverStays(t *testing.T) {
	s := intact(t)
	delete(s.Timers, s.parked)
	e := &examined{snap: s.Snapshot}
	report := repaired(t, e, fsck.Options{})
	for _, fix := range report.Fixes {
		if fix.Outcome != fsck.OutcomeMoved {
			t.Errorf("fix %+v: want outcome %s", fix, fsck.OutcomeMoved)
		}
	}
	if n := len(e.asked); n == 0 || n > 10 || len(report.Remaining) != 1 {
		t.Errorf("asked %d times, remaining %v", n, report.Remaining)
	}
}

// TestRepair_TakesARunThatItRebuildsFromItsOwner proves that a rebuild invalidates the fence of an
// owner, because the owner relies on the state that it has read.
func TestRepair_TakesARunThatItRebuildsFromItsOwner(t *testing.T) {
	for name, tt := range map[string]struct {
		damage func(s *state)
		want   store.QueueState
	}{
		"its root is wrong":          {func(s *state) { s.Runs[s.owned].Root = "wrun_x" }, store.StateReady},
		"its items are not told":     {func(s *state) { delete(s.Unread, s.owner) }, store.StateReady},
		"its log is ahead":           {func(s *state) { s.Runs[s.owned].Seq--; s.Runs[s.owned].N-- }, store.StateReady},
		"a frame of its log is gone": {func(s *state) { s.Runs[s.owned].Frames = slices.Delete(s.Runs[s.owned].Frames, 0, 1) }, store.StateBlocked},
		"the end of its log is gone": {func(s *state) { s.Runs[s.owned].Frames = s.Runs[s.owned].Frames[:1] }, store.StateBlocked},
	} {
		t.Run(name, func(t *testing.T) {
			s := intact(t)
			tt.damage(s)
			before := s.Runs[s.owned].Fence
			e := &examined{snap: s.Snapshot}
			repaired(t, e, fsck.Options{})
			if len(e.runs) == 0 {
				t.Fatal("nothing is repaired")
			}
			got := e.runs[0].Record
			if got.Run != s.owned || got.QueueState != tt.want || got.Owner != "" || got.Fence.Token != (event.Token{}) || got.Fence.Epoch <= before.Epoch {
				t.Errorf("rebuilt as %s of %q under %v, want %s without an owner; it was under %v", got.QueueState, got.Owner, got.Fence, tt.want, before)
			}
		})
	}
}

// TestRepair_LinesUpARunWhoseLogIsDamaged removes a queued run with an unreadable log from its
// queue. It proves that the run is queued again; it is blocked once it is the first of the queue.
func TestRepair_LinesUpARunWhoseLogIsDamaged(t *testing.T) {
	s := intact(t)
	s.Runs[s.queued].Frames[0] = []byte("torn")
	clear(s.Lines)
	e := &examined{snap: s.Snapshot}
	repaired(t, e, fsck.Options{})
	if len(e.runs) == 0 {
		t.Fatal("nothing is repaired")
	}
	for _, m := range e.runs {
		if rec := m.Record; rec.Run != s.queued || rec.QueueState != store.StateQueued || rec.WorkflowID != s.Runs[s.queued].WorkflowID {
			t.Errorf("rebuilt run %s as %s of workflow id %q, want run %s in line", rec.Run, rec.QueueState, rec.WorkflowID, s.queued)
		}
	}
}

func TestRepair_TellsHowFarItGot(t *testing.T) {
	s := intact(t)
	delete(s.Timers, s.parked)
	var last fsck.Progress
	calls := 0
	repaired(t, &examined{snap: s.Snapshot}, fsck.Options{Progress: func(p fsck.Progress) { last = p; calls++ }})
	want := fsck.Progress{Partitions: 1, Runs: len(s.Runs), Planned: 1}
	if diff := cmp.Diff(want, last); diff != "" || calls < 3 {
		t.Errorf("progress after %d calls (-want +got)\n%s", calls, diff)
	}
}

func TestRepair_SaysThatAStoreCannotBeRepaired(t *testing.T) {
	if _, err := fsck.Repair(t.Context(), memstore.New(), fsck.Options{}); !errors.Is(err, fsck.ErrNotRepairable) {
		t.Errorf("got error %v, want %v", err, fsck.ErrNotRepairable)
	}
	broken := errors.New("broken")
	report, err := fsck.Repair(t.Context(), &examined{err: broken}, fsck.Options{})
	if !errors.Is(err, broken) || report == nil {
		t.Errorf("got %v, %v, want a report and error %v", report, err, broken)
	}
}

func TestReport_ReadsBackFromJSON(t *testing.T) {
	s := intact(t)
	delete(s.Timers, s.parked)
	s.Runs[s.ended].Frames = nil
	want := repaired(t, &examined{snap: s.Snapshot}, fsck.Options{DryRun: true})
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got fsck.Report
	if err := json.Unmarshal(b, &got); err != nil {
		t.Fatal(err)
	}
	exported := cmp.FilterPath(func(p cmp.Path) bool {
		f, ok := p.Last().(cmp.StructField)
		return ok && (f.Name() == "do" || f.Name() == "first")
	}, cmp.Ignore())
	if diff := cmp.Diff(*want, got, exported); diff != "" {
		t.Errorf("report (-written +read)\n%s\n%s", diff, b)
	}
}

// TestRepair_MakesRecordsFromLogs proves that a lost record of a run is restored from the log of
// the run, and its chain from the logs of the chain.
func TestRepair_MakesRecordsFromLogs(t *testing.T) {
	s := intact(t)
	want := map[event.RunID]store.Record{}
	for _, id := range []event.RunID{s.ready, s.next, s.ended} {
		want[id] = s.Runs[id].Record
		s.Runs[id].Record = store.Record{Run: id, Chain: id}
	}
	e := &examined{snap: s.Snapshot}
	repaired(t, e, fsck.Options{})
	got := map[event.RunID]store.Record{}
	for _, m := range e.runs {
		if w, ok := want[m.Record.Run]; ok {
			frames := s.Runs[m.Record.Run].Frames
			last, err := event.DecodeFrame(frames[len(frames)-1])
			if err != nil || m.Record.Fence.Epoch <= last.Epoch || m.Record.Fence.Token != (event.Token{}) {
				t.Errorf("run %s is repaired under fence %v, its last frame has epoch %d, %v", m.Record.Run, m.Record.Fence, last.Epoch, err)
			}
			rec := *m.Record
			rec.Fence, w.Fence = store.Fence{}, store.Fence{}
			rec.CreatedAt, rec.EndedAt = w.CreatedAt, w.EndedAt // the log has other times: more precise, and of the clock of the writer
			rec.Recoveries = w.Recoveries
			if rec.QueueState == store.StateReady {
				w.QueueState, w.Status = rec.QueueState, rec.Status
			}
			want[rec.Run], got[rec.Run] = w, rec
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-before +repaired)\n%s", diff)
	}
}

func TestRepair_LeavesARunForLaterWithTheItemsThatItWasCreatedWith(t *testing.T) {
	s := intact(t)
	s.Runs[s.later].Tags = map[string]string{"a": "b"} // these tags are not in the log
	e := &examined{snap: s.Snapshot}
	repaired(t, e, fsck.Options{})
	for _, m := range e.runs {
		if m.Record.Run == s.later && (m.Record.QueueState != store.StateParked || !m.Record.Due.Equal(s.due) || len(m.Drop) > 0) {
			t.Errorf("run for later is repaired to %s until %v, without items %v, want parked until %v with all", m.Record.QueueState, m.Record.Due, m.Drop, s.due)
		}
	}
	if len(e.runs) == 0 {
		t.Error("nothing was repaired")
	}
}

// TestREC3_NamesTheReason proves that a repair records the reason that corresponds to the state of
// the run.
func TestREC3_NamesTheReason(t *testing.T) {
	past := func(s *state) {
		s.Now = s.due.Add(time.Minute)
		s.lease(func(l *store.Lease) { l.Expires = s.Now.Add(ttl) })
	}
	for name, tt := range map[string]struct {
		want   store.Reason
		damage func(s *state) event.RunID
	}{
		"a timer is lost, and its time is past": {store.ReasonTimeout, func(s *state) event.RunID { delete(s.Timers, s.parked); past(s); return s.parked }},
		"a timer is lost":                       {store.ReasonStuckRunning, func(s *state) event.RunID { delete(s.Timers, s.parked); return s.parked }},
		"a start is lost": {store.ReasonStuckCreated, func(s *state) event.RunID {
			for id, r := range s.Runs {
				if r.QueueState == store.StateParked && r.N == 1 && !r.Due.IsZero() {
					delete(s.Timers, id)
					return id
				}
			}
			return ""
		}},
		"a session is lost": {store.ReasonNoClaim, func(s *state) event.RunID { delete(s.Leases, s.owner); return s.owned }},
		"it completed":      {store.ReasonStuckCompleted, func(s *state) event.RunID { return s.revive(s.parked, event.StatusCompleted) }},
		"it failed":         {store.ReasonStuckFailed, func(s *state) event.RunID { return s.revive(s.parked, event.StatusFailed) }},
		"it was cancelled":  {store.ReasonStuckTerminal, func(s *state) event.RunID { return s.revive(s.parked, event.StatusCanceled) }},
		"it was touched after its end": {store.ReasonStuckTerminal, func(s *state) event.RunID {
			s.Timers[s.ended] = s.due
			return s.ended
		}},
		"items that are not read": {store.ReasonStuckRunning, func(s *state) event.RunID { s.accept(s.parked); return s.parked }},
		"a wrong tag":             {store.ReasonWrongRecord, func(s *state) event.RunID { s.Runs[s.parked].Tags = map[string]string{"a": "b"}; return s.parked }},
		"a cut log":               {store.ReasonDamagedLog, func(s *state) event.RunID { s.Runs[s.parked].Frames = s.Runs[s.parked].Frames[:1]; return s.parked }},
	} {
		t.Run(name, func(t *testing.T) {
			s := intact(t)
			run := tt.damage(s)
			report := repaired(t, &examined{snap: s.Snapshot}, fsck.Options{DryRun: true})
			got := map[event.RunID]store.Reason{}
			for _, fix := range report.Fixes {
				got[fix.Run] = fix.Reason
			}
			if got[run] != tt.want {
				t.Errorf("reason of run %s: got %q, want %q: %s", run, got[run], tt.want, fmt.Sprint(slices.Collect(maps.Keys(got))))
			}
		})
	}
}

// revive appends the end of a run to its log and leaves the derived data unchanged.
func (s *state) revive(run event.RunID, status event.Status) event.RunID {
	s.claimed(run, 9, s.logs[run].End(status)...)
	return run
}

// TestRepair_LeavesALogOfANewerReleaseAlone proves that a run with a log of a newer release is not
// changed. If it were blocked, restoring it from a backup would lose the later events.
func TestRepair_LeavesALogOfANewerReleaseAlone(t *testing.T) {
	for name, change := range map[string]func(b []byte, i int) bool{
		"version": func(b []byte, i int) bool { b[1] = 9; return i == 0 },
		"type":    func(b []byte, i int) bool { b[i] = 250; return true },
	} {
		t.Run(name, func(t *testing.T) {
			s := intact(t)
			frame := newerFrame(t, s.Runs[s.parked].Frames[1], change)
			s.Runs[s.parked].Frames[1] = frame
			e := &examined{snap: s.Snapshot}
			report := repaired(t, e, fsck.Options{})
			if len(e.runs) > 0 || !bytes.Equal(s.Runs[s.parked].Frames[1], frame) {
				t.Errorf("it was repaired: %q", e.asked)
			}
			said := false
			for _, fix := range report.Fixes {
				said = said || fix.Run == s.parked && strings.Contains(fix.Why, "newer release")
			}
			if !said {
				t.Errorf("nothing says that a newer release wrote it: %+v", report.Fixes)
			}
		})
	}
}

// newerFrame returns the frame after change, as a newer release could have written it. The frame
// has a valid checksum.
func newerFrame(t *testing.T, frame []byte, change func(b []byte, i int) bool) []byte {
	t.Helper()
	for i := range frame[:len(frame)-4] {
		b := bytes.Clone(frame)
		if !change(b, i) {
			continue
		}
		n := len(b) - 4
		binary.LittleEndian.PutUint32(b[n:], crc32.Checksum(b[:n], crc32.MakeTable(crc32.Castagnoli)))
		if _, err := event.DecodeFrame(b); err != nil && errors.As(err, new(*event.VersionError)) {
			return b
		}
	}
	t.Fatal("no change of the frame makes it one of a newer release")
	return nil
}
