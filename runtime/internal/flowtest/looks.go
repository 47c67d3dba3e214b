package flowtest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/bits"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Recovered starts n runs whose first owner, a session without a worker, has ended.
func (w *World) Recovered(n int) []*workflow.Run[int] {
	w.T.Helper()
	dead := store.Session{ID: "dead", TTL: time.Hour}
	Order(w.T, w.Store.OpenSession(w.Ctx, dead))
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, Start(w, AttackSleep, i))
		_, err := w.Store.ClaimRun(w.Ctx, 0, dead.ID, event.NewToken(), runs[i].ID())
		Order(w.T, err)
	}
	Order(w.T, w.Store.CloseSession(w.Ctx, 0, dead.ID))
	return runs
}

// Interrupt starts n runs and stops their worker while their attempts are executing.
func (w *World) Interrupt(n int) []*workflow.Run[int] {
	w.T.Helper()
	r := w.Work(worker.Config{Grace: time.Millisecond}, AttackStep.As(func(ctx context.Context, _ int) (int, error) {
		<-ctx.Done()
		return 0, ctx.Err()
	}), As(AttackOnce, AttackStep.Call))
	var runs []*workflow.Run[int]
	for i := range n {
		runs = append(runs, Start(w, AttackOnce, i))
		w.Reach(runs[i], event.StepStarted, 1)
	}
	r.Stop()
	return runs
}

// Blocked waits until a run is blocked.
func (w *World) Blocked(run Follows) {
	w.T.Helper()
	w.Status(run, workflow.StatusBlocked)
}

// ReachWaiting waits until a run waits for a message.
func (w *World) ReachWaiting(run Follows) {
	w.T.Helper()
	w.Eventually("the run waits for a message", func() bool {
		return slices.ContainsFunc(w.Log(run), func(e event.Event) bool { return e.Type == event.WaitCreated && e.Wait == event.WaitMessage })
	})
}

// Echoes binds code to [Echo] that returns its input, or fails if the input is empty.
var Echoes = As(Echo, func(_ workflow.Context, in string) (string, error) {
	if in == "" {
		return "", errors.New("nothing to repeat")
	}
	return in, nil
})

// Ended starts a run of [Echo] and waits for its end.
func Ended(w *World, in string, opts ...workflow.StartOption) workflow.RunID {
	w.T.Helper()
	run := Start(w, Echo, in, opts...)
	Result(w, run)
	return run.ID()
}

// Parked reports whether a run is parked.
func (w *World) Parked(run Follows) bool {
	w.T.Helper()
	return w.Record(run).QueueState == store.StateParked
}

// Published returns how many chunks have been published on a stream.
func (w *World) Published(run Follows, stream string) uint64 {
	w.T.Helper()
	page, err := w.Store.ReadStream(w.Ctx, store.ReadStream{Run: run.ID(), Stream: stream, Limit: -1})
	Order(w.T, err)
	return page.Last
}

// HandedOver waits for the result of a run, and reports whether a local start executed its first
// part.
func (w *World) HandedOver(run *workflow.Run[int]) bool {
	w.T.Helper()
	Result(w, run)
	return len(w.FirstFrame(run)) > 1
}

// FirstFrame returns the types of the events in the first frame of a run.
func (w *World) FirstFrame(run Follows) (types []event.Type) {
	w.T.Helper()
	for _, e := range w.decode(w.load(store.Load{Run: run.ID(), Limit: 1}).Frames) {
		types = append(types, e.Type)
	}
	return types
}

// Status waits until the run has a status.
func (w *World) Status(run Follows, want workflow.Status) {
	w.T.Helper()
	w.Eventually("run "+string(run.ID())+" is "+string(want), func() bool { return w.info(run).Status == want })
}

func (w *World) info(run Follows) workflow.RunInfo {
	w.T.Helper()
	info, err := w.Client.Run(run.ID()).Info(w.Ctx)
	Order(w.T, err)
	return info
}

// Record returns the record of a run in the store.
func (w *World) Record(run Follows) store.Record {
	w.T.Helper()
	return w.load(store.Load{Run: run.ID(), Limit: -1}).Record
}

// Feed sends one message after another to a run until the run has ended.
func (w *World) Feed(run *workflow.Run[int]) {
	w.T.Helper()
	for i, events := 0, uint64(0); ; i++ {
		w.Eventually("the message before is in the log", func() bool {
			info, before := w.info(run), events
			events = info.Events
			return events > before || !info.EndedAt.IsZero()
		})
		err := Numbers.Send(w.Ctx, run, i)
		if errors.Is(err, workflow.ErrRunTerminal) || w.Ctx.Err() != nil {
			return
		}
		Order(w.T, err)
	}
}

// List returns the IDs of the runs that match a filter, in the order of the list.
func (w *World) List(f workflow.Filter) []workflow.RunID {
	w.T.Helper()
	var ids []workflow.RunID
	for info, err := range w.Client.List(w.Ctx, f) {
		Order(w.T, err)
		ids = append(ids, info.ID)
	}
	return ids
}

// Paged lists the runs that match a filter in pages of limit runs. It calls after with each page.
func (w *World) Paged(f workflow.Filter, limit int, after func(page []workflow.RunID)) []workflow.RunID {
	w.T.Helper()
	lister, _ := store.As[store.Lister](w.Store)
	q := store.Query{
		Statuses: f.Statuses, Workflow: f.Workflow, Queue: f.Queue, Tags: f.Tags,
		Parent: f.Parent, Root: f.Root, From: f.From, To: f.To, Limit: limit,
	}
	var all []workflow.RunID
	for {
		page, err := lister.List(w.Ctx, q)
		Order(w.T, err)
		begins := len(all)
		for _, r := range page.Runs {
			all = append(all, r.Run)
		}
		after(all[begins:])
		if q.Cursor = page.Cursor; q.Cursor == "" {
			return all
		}
	}
}

// Family starts two parents that wait for a message, and four other runs after them. When these
// runs exist, the parents receive their message and start children and grandchildren. Family
// returns the Info of all these runs, newest first.
func (w *World) Family() []workflow.RunInfo {
	w.T.Helper()
	parent, middle := Flow[string, string]("parent"), Flow[string, string]("middle")
	w.Work(worker.Config{Queues: []string{workflow.DefaultQueue}}, Runs, Parks,
		As(middle, func(ctx workflow.Context, in string) (string, error) {
			return Echo.StartChild(ctx, in, workflow.WithTags(map[string]string{"kind": "grandchild"})).Get(ctx)
		}),
		As(parent, func(ctx workflow.Context, in string) (string, error) {
			if _, err := Wake.Receive(ctx); err != nil {
				return "", err
			}
			Parker.StartChild(ctx, in, workflow.WithQueue("bulk"), workflow.WithParentClose(workflow.ParentCloseAbandon),
				workflow.WithTags(map[string]string{"kind": "child", "left": "yes"}))
			return middle.StartChild(ctx, in, workflow.WithTags(map[string]string{"kind": "child"})).Get(ctx)
		}))
	var parents, others []*workflow.Run[string]
	for n := range 2 {
		parents = append(parents, Start(w, parent, "x", workflow.WithTags(map[string]string{"kind": "parent", "n": fmt.Sprint(n)})))
	}
	w.later()
	for n := range 4 {
		opts := []workflow.StartOption{workflow.WithTags(map[string]string{"kind": "other", "n": fmt.Sprint(n)})}
		if n == 3 {
			opts = append(opts, workflow.WithQueue("bulk"))
		}
		others = append(others, Start(w, Echo, "x", opts...))
	}
	w.later()
	for _, run := range parents {
		Order(w.T, Wake.Send(w.Ctx, run, "go"))
	}
	for _, run := range slices.Concat(parents, others[:3]) {
		_ = Result(w, run)
	}
	var ids []workflow.RunID
	w.Eventually("all children are there", func() bool {
		ids = w.List(workflow.Filter{})
		return len(ids) == 12
	})
	var all []workflow.RunInfo
	for _, id := range ids {
		info, err := w.Client.Run(id).Info(w.Ctx)
		Order(w.T, err)
		all = append(all, info)
	}
	slices.SortFunc(all, func(a, b workflow.RunInfo) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), cmp.Compare(b.ID, a.ID))
	})
	return all
}

// later waits until new runs have a later creation time than the existing runs.
func (w *World) later() {
	w.T.Helper()
	now := w.Store.Clock().Now()
	w.Eventually("the clock has gone on", func() bool { return !w.Store.Clock().Now().Before(now.Add(2 * time.Millisecond)) })
}

// OneOutage fails the test unless a worker has logged one outage, with at most one line for each
// cause and each doubling of tries. It also fails the test if another warning or error was logged.
func (w *World) OneOutage(causes int, tries int64) {
	w.T.Helper()
	w.Eventually("the store works again", func() bool { return len(w.Lines("store works again")) > 0 })
	if n := len(w.Lines("store works again")); n != 1 {
		w.T.Errorf("the store works again %d times", n)
	}
	begun := w.Lines("store fails: retrying")
	if most := causes * bits.Len64(uint64(tries)); len(begun) < 1 || len(begun) > most {
		w.T.Errorf("%d lines say that the store fails, want at most %d for %d tries and %d causes:\n%s", len(begun), most, tries, causes, strings.Join(begun, ""))
	}
	for line := range strings.Lines(w.Logs.String()) {
		if (strings.Contains(line, "level=ERROR") || strings.Contains(line, "level=WARN")) && !strings.Contains(line, `msg="store `) && !strings.Contains(line, `msg="the store is not set up`) {
			w.T.Errorf("another line: %s", line)
		}
	}
}

// AfterCrash creates a run whose log contains exactly the given events, as if its worker had died
// after it committed the last of them.
func AfterCrash[In, Out any](w *World, d workflow.Definition[In, Out], events []event.Event) *workflow.Run[Out] {
	w.T.Helper()
	run, cid := event.NewRunID(w.Store.Clock().Now(), event.RandomSlot()), event.NewCommitID()
	last := &events[len(events)-1]
	frame, err := event.AppendFrame(nil, &event.Frame{CommitID: cid, Time: last.Time, Events: slices.Clone(events)})
	Order(w.T, err)
	created, err := w.Store.Create(w.Ctx, []store.Create{{
		Run: run, Route: store.Route{Queue: workflow.DefaultQueue, Workflow: d.Name()}, Frame: frame, CommitID: cid, Seq: last.Seq,
	}})
	if err != nil || created[0].Err != nil {
		w.T.Fatal(err, created)
	}
	return d.Get(w.Client, run)
}

// BlockedAs waits until a run is blocked. It fails the test unless the reason contains all words.
func (w *World) BlockedAs(run Follows, words ...string) {
	w.T.Helper()
	w.Status(run, workflow.StatusBlocked)
	info := w.info(run)
	for _, word := range words {
		if !strings.Contains(info.Blocked, word) {
			w.T.Errorf("the run is blocked without saying %q:\n%s", word, info.Blocked)
		}
	}
	if strings.Contains(info.Blocked, "workflow.Version") {
		w.T.Errorf("the advice does not fit a name that was changed:\n%s", info.Blocked)
	}
}

// EndsBefore returns a client that delays some deliveries until their run has ended. These are the
// deliveries for which ends returns true.
func (w *World) EndsBefore(ends func(d store.Deliver) bool) *workflow.Client {
	st := &Between{Store: w.Store, Around: func(ctx context.Context, op string, req any, do func() error) error {
		if d, ok := req.(store.Deliver); ok && op == "deliver" && ends(d) {
			_, _ = Collects.Get(w.Client, d.Run).Result(ctx)
		}
		return do()
	}}
	return workflow.NewClient(st, workflow.ClientConfig{})
}

// Open returns the IDs of the runs that have not ended.
func (w *World) Open() (open []event.RunID) {
	for _, r := range w.Snapshot().Runs {
		if r.QueueState != store.StateEnded {
			open = append(open, r.Run)
		}
	}
	return open
}

// Accepted returns for each message the number of runs that have accepted it. The log of such a run
// contains the message as received, or the last event lists it as unread.
func (w *World) Accepted() map[event.ItemID]int {
	w.T.Helper()
	n := map[event.ItemID]int{}
	for _, r := range w.Snapshot().Runs {
		received, unread := map[event.ItemID]bool{}, map[event.ItemID]bool{}
		for _, e := range w.decode(r.Frames) {
			if e.Type == event.MessageReceived {
				received[e.Item] = true
				n[e.Item]++
			}
			for _, id := range e.Unread {
				unread[id] = true
			}
		}
		for id := range unread {
			if !received[id] {
				n[id]++
			}
		}
	}
	return n
}

// Nudge advances time in small steps until the log of a run contains n events of a type. One step
// may not suffice, because the worker may set its alarm after the step.
func (w *World) Nudge(run Follows, typ event.Type, n int) {
	w.T.Helper()
	w.Eventually("there are enough "+typ.String(), func() bool {
		w.Clock.Advance(20 * time.Millisecond)
		return len(Filter(w.Log(run), typ)) >= n
	})
}

// Unsound is a workflow whose code decides by the global variable Weather. Therefore a replay can
// differ from the log.
var (
	Unsound = Flow[int, int]("unsound")
	Weather = "fine"
)

// WhyBlocked starts a run with the code first, and wakes it with the code second, whose operations
// differ from the log. It returns the error of Result with a short timeout.
func (w *World) WhyBlocked(first, second Binding) error {
	w.T.Helper()
	before := w.Work(worker.Config{}, first)
	run := Start(w, Unsound, 0)
	w.Reach(run, event.WaitCreated, 2)
	before.Stop()
	Weather = "foul"
	w.T.Cleanup(func() { Weather = "fine" })
	w.Work(worker.Config{}, second)
	w.Send(run, 1)
	w.Eventually("the run is blocked", func() bool {
		info, err := run.Info(w.Ctx)
		return err != nil || info.Status == workflow.StatusBlocked && info.Blocked != ""
	})
	ctx, cancel := context.WithTimeout(w.Ctx, time.Millisecond)
	defer cancel()
	_, err := run.Result(ctx)
	return err
}

// Order fails the test if err is not nil. err is usually the error of a command.
func Order(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// IsInvalid reports whether err is a [workflow.InvalidError] about what, with a value of limited
// length.
func IsInvalid(err error, what string) bool {
	var invalid *workflow.InvalidError
	return errors.As(err, &invalid) && invalid.What == what && len(invalid.Value) <= 100
}

// Described waits until workers have described all named workflows. It returns the newest version
// of each.
func (w *World) Described(names iter.Seq[string]) map[string]store.CatalogVersion {
	w.T.Helper()
	wanted := slices.Collect(names)
	found := map[string]store.CatalogVersion{}
	w.Eventually("all is described", func() bool {
		all, err := ops.New(w.Client).Catalog(w.Ctx, ops.CatalogQuery{})
		Order(w.T, err)
		for _, e := range all {
			if slices.Contains(wanted, e.Workflow) {
				found[e.Workflow] = e.Versions[0]
			}
		}
		return len(found) == len(wanted)
	})
	return found
}
