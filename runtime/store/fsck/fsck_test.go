package fsck_test

import (
	stdcmp "cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

const ttl = 30 * time.Second

var route = store.Route{Queue: "default", Workflow: "orders.fulfil"}

// state is a snapshot of an intact store with a run in every queue state. It also contains the
// values with which tests extend it.
type state struct {
	*store.Snapshot
	clock *storetest.Clock
	ids   *storetest.IDs
	logs  map[event.RunID]*storetest.Log

	ready, owned, parked, later, blocked, active, queued, ended, continued, next, limited event.RunID
	owner                                                                                 store.SessionID
	token                                                                                 event.Token
	due                                                                                   time.Time
	unread, read                                                                          event.ItemID

	sender, child            event.RunID
	fresh, answered, settled event.ItemID // IDs of records: one that starts child, one whose item is kept, and a settled one
}

func intact(t *testing.T) *state {
	t.Helper()
	s := &state{clock: storetest.NewClock(), ids: &storetest.IDs{}, logs: map[event.RunID]*storetest.Log{}}
	s.owner, s.token, s.due = s.ids.Session(), s.ids.Token(), s.clock.Now().Add(time.Hour)
	s.unread, s.read = s.ids.Item(), s.ids.Item()
	s.Snapshot = &store.Snapshot{
		Now: s.clock.Now(), Runs: map[event.RunID]*store.RunState{},
		Active: map[string]event.RunID{}, LastEnded: map[string]event.RunID{}, Lines: map[string][]event.RunID{},
		Seen: map[event.RunID]map[event.ItemID]time.Time{}, Ready: map[store.Route][]event.RunID{},
		Timers: map[event.RunID]time.Time{}, Leases: map[store.SessionID]store.Lease{},
		Owned: map[store.SessionID][]event.RunID{}, Unread: map[store.SessionID][]event.RunID{}, Wakes: map[store.Route]bool{},
		Purges: map[event.RunID]time.Time{}, Kept: map[event.RunID][]event.ItemID{},
		Streams: map[event.RunID]map[string]store.StreamState{},
	}
	s.Leases[s.owner] = store.Lease{Session: s.owner, TTL: ttl, Expires: s.Now.Add(ttl)}
	s.addReady()
	s.addOwned()
	s.addParked()
	s.addNamed()
	s.addChain()
	s.addOutbox()
	s.Streams[s.continued] = map[string]store.StreamState{
		"trimmed": {Chunks: []store.Chunk{{Index: 3}, {Index: 4}}, Last: 4, Writers: map[string]uint64{"w": 4}},
		"closed":  {Closed: true}, "gone": {Last: 7},
	}
	if got := fsck.Check(s.Snapshot); got != nil {
		t.Fatalf("intact store: got findings %v", got)
	}
	return s
}

// add adds a run with its first frame to the snapshot.
func (s *state) add(queued store.QueueState, spec event.Spec) (*storetest.Log, *store.RunState) {
	spec.Workflow, spec.Queue = route.Workflow, route.Queue
	l := storetest.NewLog(s.ids, s.clock, s.ids.Run(s.Now, 0), spec)
	c := l.Create()
	r := &store.RunState{
		Record: store.Record{
			Run: l.Run, Chain: l.Run, WorkflowID: spec.WorkflowID, Route: route, Tags: spec.Tags, Parent: spec.Parent, Root: spec.Root,
			QueueState: queued, Status: event.StatusPending, N: 1, Seq: c.Seq, Last: c.CommitID, CreatedAt: s.Now,
			Retention: stdcmp.Or(c.Retention, store.DefaultRetention),
		},
		Frames: [][]byte{c.Frame},
	}
	s.Runs[l.Run], s.logs[l.Run] = r, l
	return l, r
}

// write appends a frame as an owner with the given epoch.
func (s *state) write(run event.RunID, epoch uint64, token event.Token, events ...event.Event) {
	l, r := s.logs[run], s.Runs[run]
	c := l.Commit(store.Fence{Epoch: epoch, Token: token}, events...)
	l.Accept(c)
	r.Frames = append(r.Frames, c.Frame)
	r.N, r.Seq, r.Last, r.Fence.Epoch = r.N+1, c.Last, c.CommitID, max(epoch, r.Fence.Epoch)
}

func (s *state) addReady() {
	l, r := s.add(store.StateReady, event.Spec{Tags: map[string]string{"customer": "7"}})
	s.ready = l.Run
	s.write(l.Run, 1, s.ids.Token(), l.Work()...)
	r.Recoveries, r.Fence.Epoch, r.Status = 1, 2, event.StatusRunning
	s.Audit = append(s.Audit, store.AuditEntry{Time: s.Now, Run: l.Run, Reason: store.ReasonExpiredClaim, Owner: "gone", Epoch: 1})
	s.Ready[route] = []event.RunID{l.Run}
	s.Wakes[route] = true
}

func (s *state) addOwned() {
	l, r := s.add(store.StateOwned, event.Spec{})
	s.owned = l.Run
	s.write(l.Run, 1, s.token, l.Receive(store.Item{ID: s.read, Body: []byte(`1`)})...)
	r.Fence, r.Owner = store.Fence{Epoch: 1, Token: s.token}, s.owner
	r.Inbox = []store.Item{{ID: s.unread, Body: []byte(`2`)}}
	s.Seen[l.Run] = map[event.ItemID]time.Time{s.read: s.Now, s.unread: s.Now}
	s.Owned[s.owner] = []event.RunID{l.Run}
	s.Unread[s.owner] = []event.RunID{l.Run}
}

func (s *state) addParked() {
	l, r := s.add(store.StateParked, event.Spec{})
	s.parked = l.Run
	s.write(l.Run, 1, s.ids.Token(), l.Sleep(s.due)...)
	r.Due, r.Status = s.due, event.StatusSleeping
	s.Timers[l.Run] = s.due

	l, r = s.add(store.StateBlocked, event.Spec{})
	s.blocked = l.Run
	r.Status = event.StatusBlocked

	l, r = s.add(store.StateParked, event.Spec{}) // a run for later that was created with an item
	s.later = l.Run
	r.Due = s.due
	s.Timers[l.Run] = s.due
	s.accept(l.Run)
}

// end sets the end of a run to now, and sets its purge time.
func (s *state) end(r *store.RunState) {
	r.EndedAt = s.Now
	s.Purges[r.Run] = r.EndedAt.Add(r.Retention)
}

// hide changes the snapshot as Delete would change the store.
func (s *state) hide(run event.RunID) {
	r := s.Runs[run]
	r.Hidden = true
	s.Purges[run] = r.EndedAt.Add(store.Horizon)
	delete(s.LastEnded, r.WorkflowID)
}

// addNamed adds three runs of one workflow ID: an ended, an active and a queued one.
func (s *state) addNamed() {
	l, r := s.add(store.StateEnded, event.Spec{WorkflowID: "order", Retention: time.Hour})
	s.ended = l.Run
	s.write(l.Run, 1, s.ids.Token(), l.End(event.StatusCompleted)...)
	r.Status = event.StatusCompleted
	s.end(r)

	l, _ = s.add(store.StateParked, event.Spec{WorkflowID: "order"})
	s.active = l.Run
	s.write(l.Run, 1, s.ids.Token(), l.Sleep(time.Time{})...)

	l, _ = s.add(store.StateQueued, event.Spec{WorkflowID: "order"})
	s.queued = l.Run
	s.LastEnded["order"], s.Active["order"], s.Lines["order"] = s.ended, s.active, []event.RunID{s.queued}
}

// addChain adds a run that has continued. It has passed an item to its continuation.
func (s *state) addChain() {
	carried, token := store.Item{ID: s.ids.Item(), Body: []byte(`1`)}, s.ids.Token()
	l, r := s.add(store.StateEnded, event.Spec{})
	next, n := s.add(store.StateParked, event.Spec{ContinuedOf: l.Run})
	s.continued, s.next = l.Run, next.Run
	s.write(l.Run, 1, token, l.Receive(carried)...)
	s.write(l.Run, 1, token, event.Event{Type: event.RunContinued, Next: next.Run})
	r.Status, r.Next = event.StatusContinued, next.Run
	s.end(r)

	n.Chain = l.Run
	s.begin(carried)
	s.Seen[l.Run] = map[event.ItemID]time.Time{carried.ID: s.Now}
}

// begin replaces the log of the continuation by a first frame with the carried items.
func (s *state) begin(carried ...store.Item) {
	l, r := s.logs[s.next], s.Runs[s.next]
	*l = *storetest.NewLog(s.ids, s.clock, l.Run, l.Spec)
	events := []event.Event{{Type: event.RunCreated, Spec: &l.Spec}}
	for _, i := range carried {
		events = append(events, event.Event{Type: event.MessageReceived, Name: "topic", Item: i.ID, Payload: i.Body})
	}
	c := l.Commit(store.Fence{}, events...)
	l.Accept(c)
	r.Frames, r.Last, r.Seq = [][]byte{c.Frame}, c.CommitID, c.Last
}

// addOutbox adds a run that has ended, its outbox records, and their traces at the receiver.
func (s *state) addOutbox() {
	l, r := s.add(store.StateEnded, event.Spec{})
	s.sender, s.fresh, s.answered, s.settled = l.Run, s.ids.Item(), s.ids.Item(), s.ids.Item()
	s.write(l.Run, 1, s.ids.Token(), l.End(event.StatusFailed)...)
	r.Status, r.EndedAt = event.StatusFailed, s.Now

	l, r = s.add(store.StateParked, event.Spec{})
	s.child, r.CreatedBy = l.Run, s.fresh
	for n, id := range []event.ItemID{s.fresh, s.answered, s.settled} {
		send := store.Send{ID: id, To: s.child, Body: []byte("do it")}
		s.Outbox = append(s.Outbox, store.Outgoing{Send: send, From: s.sender, Phase: store.Phase(n + 1), Since: s.Now})
	}
	s.Seen[s.child] = map[event.ItemID]time.Time{s.answered: s.Now}
	s.Kept[s.child] = []event.ItemID{s.answered}
}

// found damages an intact store, checks it, and returns the findings.
func found(t *testing.T, damage func(s *state)) []fsck.Finding {
	t.Helper()
	s := intact(t)
	damage(s)
	return fsck.Check(s.Snapshot)
}

func TestCheck_FindsEveryKindOfDamage(t *testing.T) {
	for _, group := range []map[string]damage{logDamage, chainDamage, queueStateDamage, indexDamage, streamDamage, limitDamage, failureGroupDamage, entryDamage, labelDamage} {
		for name, d := range group {
			t.Run(name, func(t *testing.T) {
				got := found(t, d.do)
				var numbers []int
				for _, f := range got {
					if f.What == "" || f.Explain == "" {
						t.Errorf("finding %+v: says too little", f)
					}
					numbers = append(numbers, f.Invariant)
				}
				if diff := cmp.Diff(d.want, slices.Compact(numbers)); diff != "" {
					t.Errorf("invariants (-want +got)\n%s\nfindings: %v", diff, got)
				}
			})
		}
	}
}

// damage is a kind of damage to a store, and the invariants that the damage violates.
type damage struct {
	want []int
	do   func(s *state)
}

func TestCheck_NamesTheRunAndSaysWhy(t *testing.T) {
	var run event.RunID
	got := found(t, func(s *state) {
		run = s.parked
		s.Runs[run].Inbox = []store.Item{{ID: "unseen"}}
		s.Seen[run] = map[event.ItemID]time.Time{"unseen": s.Now}
	})
	if len(got) != 1 || got[0].Run != run {
		t.Fatalf("findings: got %v, want one about run %s", got, run)
	}
	want := fmt.Sprintf("invariant 7: run %s: it is parked with 1 unread items: it will not be notified of them", run)
	if diff := cmp.Diff(want, got[0].String()); diff != "" {
		t.Errorf("text (-want +got)\n%s", diff)
	}
}

func TestCheck_IsOrderedByInvariantAndRun(t *testing.T) {
	got := found(t, func(s *state) {
		delete(s.Leases, s.owner)
		s.Timers["wrun_unknown"] = s.Now
		s.Runs[s.ready].Recoveries = 9
		s.Runs[s.parked].Due = time.Time{}
		s.Runs[s.queued].Due = s.due
	})
	var order []string
	for _, f := range got {
		order = append(order, fmt.Sprintf("%02d %s", f.Invariant, f.Run))
	}
	if len(order) < 5 || !slices.IsSorted(order) {
		t.Errorf("order of findings: got %v", order)
	}
}

func TestCheck_AcceptsWhatIsAllowed(t *testing.T) {
	for name, do := range map[string]func(s *state){
		"an empty store":                      func(s *state) { s.Snapshot = &store.Snapshot{Now: s.Now} },
		"a wake without ready runs":           func(s *state) { s.Wakes[store.Route{Queue: "other"}] = true },
		"a wake that a worker has taken":      func(s *state) { delete(s.Wakes, route) },
		"a session that is being recovered":   func(s *state) { s.lease(func(l *store.Lease) { l.Recovering = true }) },
		"a session whose lease is past":       func(s *state) { s.Now = s.Now.Add(time.Hour) },
		"an old item that is forgotten":       func(s *state) { s.Now = s.Now.Add(25 * time.Hour); delete(s.Seen[s.owned], s.read) },
		"an epoch after a recovery":           func(s *state) { s.Runs[s.parked].Fence.Epoch = 7 },
		"a run that is woken by its timeout":  func(s *state) { s.timeout(time.Minute) },
		"a run whose timeout is not the next": func(s *state) { s.timeout(time.Minute); s.Runs[s.limited].Due = s.due; s.Timers[s.limited] = s.due },
		"a name of a run that was purged":     func(s *state) { delete(s.LastEnded, "order") },
		"a run that was deleted":              func(s *state) { s.hide(s.ended) },
		"a run that was purged":               func(s *state) { s.purge(s.ended) },
		"the last run of a chain was purged":  func(s *state) { delete(s.Runs, s.next) },
		"a run that is held back, and timed":  func(s *state) { s.end(s.Runs[s.sender]) },
		"a first run that is not timed":       func(s *state) { delete(s.Purges, s.continued) },
		"a record that is on its way":         func(s *state) { s.drop(s.fresh); s.Now = s.Now.Add(3 * store.Horizon) },
		"what was confirmed":                  func(s *state) { s.age(); delete(s.Seen[s.owned], s.unread); delete(s.Seen[s.owned], s.read) },
		"a run that should have been purged":  func(s *state) { s.Now = s.Now.Add(1000 * time.Hour) },
	} {
		t.Run(name, func(t *testing.T) {
			if got := found(t, do); got != nil {
				t.Errorf("findings: got %v, want none", got)
			}
		})
	}
}

// drop removes a record from the outbox of the snapshot.
func (s *state) drop(id event.ItemID) {
	s.Outbox = slices.DeleteFunc(s.Outbox, func(o store.Outgoing) bool { return o.ID == id })
}

// age advances the clock by the time after which a record is settled and confirmed.
func (s *state) age() { s.Now = s.Now.Add(2 * store.Horizon) }

// purge changes the snapshot as Purge would for a run without outbox records.
func (s *state) purge(run event.RunID) {
	delete(s.LastEnded, s.Runs[run].WorkflowID)
	delete(s.Runs, run)
	delete(s.Purges, run)
}

// causes returns a configuration in which the end of the sender has caused all its records except
// but.
func (s *state) causes(but event.ItemID) fsck.Config {
	return fsck.Config{Causes: func(run event.RunID, e *event.Event) []event.ItemID {
		if run != s.sender || !e.Type.Terminal() {
			return nil
		}
		return slices.DeleteFunc([]event.ItemID{s.fresh, s.answered, s.settled}, func(id event.ItemID) bool { return id == but })
	}}
}

func TestCheck_ComparesRecordsWithTheirCauses(t *testing.T) {
	for name, tt := range map[string]struct {
		do   func(s *state) fsck.Config
		want []int
	}{
		"all is right":                {func(s *state) fsck.Config { return s.causes("") }, nil},
		"a record without a cause":    {func(s *state) fsck.Config { return s.causes(s.answered) }, []int{12}},
		"a cause without its record":  {func(s *state) fsck.Config { s.drop(s.answered); return s.causes("") }, []int{12}},
		"a record of another's cause": {func(s *state) fsck.Config { s.Outbox[1].From = s.parked; return s.causes("") }, []int{12}},
		"a cause that was settled":    {func(s *state) fsck.Config { s.drop(s.settled); s.age(); return s.causes("") }, nil},
		"a log that cannot be read":   {func(s *state) fsck.Config { s.Runs[s.sender].Frames = nil; return s.causes("") }, []int{1}},
		"a first frame causes nothing": {func(s *state) fsck.Config {
			later := s.causes("").Causes
			return fsck.Config{Causes: func(run event.RunID, e *event.Event) []event.ItemID {
				if e.Type == event.RunCreated {
					return []event.ItemID{"x"}
				}
				return later(run, e)
			}}
		}, nil},
		"causes that nobody asked for": {func(s *state) fsck.Config { s.drop(s.settled); return fsck.Config{} }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := intact(t)
			cfg := tt.do(s)
			got := cfg.Check(s.Snapshot)
			var numbers []int
			for _, f := range got {
				numbers = append(numbers, f.Invariant)
			}
			if diff := cmp.Diff(tt.want, slices.Compact(numbers)); diff != "" {
				t.Errorf("invariants (-want +got)\n%s\nfindings: %v", diff, got)
			}
		})
	}
}

func (s *state) lease(change func(l *store.Lease)) {
	l := s.Leases[s.owner]
	change(&l)
	s.Leases[s.owner] = l
}

// timeout adds a parked run with a time limit that sleeps until s.due.
func (s *state) timeout(limit time.Duration) {
	l, r := s.add(store.StateParked, event.Spec{Timeout: limit})
	s.limited = l.Run
	s.write(l.Run, 1, s.ids.Token(), l.Sleep(s.due)...)
	r.Due = s.Now.Add(limit)
	s.Timers[l.Run] = r.Due
}

func TestCheck_LeavesTheSnapshotAsItIs(t *testing.T) {
	s, same := intact(t), intact(t)
	fsck.Check(s.Snapshot)
	if diff := cmp.Diff(same.Snapshot, s.Snapshot); diff != "" {
		t.Errorf("snapshot (-want +got)\n%s", diff)
	}
}
