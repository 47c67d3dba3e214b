package worker_test

import (
	"bytes"
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/flowtest"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// requested records the commits that a worker has requested.
type requested struct {
	mu      sync.Mutex
	commits []store.Commit
}

func (w *requested) add(commits []store.Commit) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.commits = append(w.commits, commits...)
}

func (w *requested) all() []store.Commit {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]store.Commit(nil), w.commits...)
}

// TestF3_ACommitThatWasRefusedIsNotSentUnderTheSameCommitID proves that the commit after one
// refused because of unread items has a new commit ID. The store has not applied the refused
// commit, and the next commit holds another frame.
func TestF3_ACommitThatWasRefusedIsNotSentUnderTheSameCommitID(t *testing.T) {
	mem := memstore.New()
	st := &mute{flowtest.Between{Store: mem}} // The refusal is the only notification of unread items.
	var asked requested
	var mailed atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		if op != "commit" || len(commits) == 0 {
			return do()
		}
		asked.add(commits)
		if c := commits[0]; c.Effect == store.EffectFinish && !mailed.Swap(true) {
			body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: "late", Payload: []byte("1")})
			if err == nil {
				_, err = mem.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "late", Body: body}})
			}
			if err != nil {
				return err
			}
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 2)); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	frames := map[event.CommitID][]byte{}
	ends := 0
	for _, c := range asked.all() {
		if before, used := frames[c.CommitID]; used && !bytes.Equal(before, c.Frame) {
			t.Errorf("two frames are named %s", c.CommitID)
		}
		frames[c.CommitID] = c.Frame
		if c.Effect == store.EffectFinish {
			ends++
		}
	}
	if ends != 2 {
		t.Errorf("%d commits that end the run, want a second one once the inbox was read", ends)
	}
	w.Healthy()
}

// TestW3_TheSameBytesAreSentUntilThereIsAnAnswer proves that a worker without an answer to a commit
// sends the same bytes again, and no other commit of the run, until there is an answer.
func TestW3_TheSameBytesAreSentUntilThereIsAnAnswer(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var asked requested
	var tries, inFlight atomic.Int64
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		commits, _ := req.([]store.Commit)
		if op != "commit" {
			return do()
		}
		if inFlight.Add(1) > 1 {
			t.Error("a run has two commits in flight")
		}
		defer inFlight.Add(-1)
		asked.add(commits)
		switch tries.Add(1) % 4 {
		case 1:
			return errNoAnswer // the commit was not executed
		case 2:
			if err := do(); err != nil {
				return err
			}
			return errNoAnswer
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, n int) (int, error) {
		for range 3 {
			var err error
			if n, err = flowtest.AttackStep.Call(ctx, n); err != nil {
				return 0, err
			}
		}
		return n, nil
	}))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 8 {
		t.Errorf("result: got %d, want 8", got)
	}
	behind := map[event.CommitID]store.Commit{}
	for _, c := range asked.all() {
		before, tried := behind[c.Prev]
		if tried && (before.CommitID != c.CommitID || !bytes.Equal(before.Frame, c.Frame)) {
			t.Errorf("behind frame %s two commits were sent: %s and %s", c.Prev, before.CommitID, c.CommitID)
		}
		behind[c.Prev] = c
	}
	w.Healthy()
}

// TestW3_ARunHasOneCommitInFlight proves that events that occur while a commit is in flight are
// committed only after its answer.
func TestW3_ARunHasOneCommitInFlight(t *testing.T) {
	mem := memstore.New()
	st := &flowtest.Between{Store: mem}
	var once, held atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if op == "commit" && held.Load() {
			t.Error("a second commit is sent before the first one is answered")
		}
		c := starting(op, req)
		if c == nil || once.Swap(true) {
			return do()
		}
		held.Store(true)
		defer held.Store(false)
		body, err := event.AppendItem(nil, &event.Event{Type: event.MessageReceived, Name: "early", Payload: []byte("1")})
		if err != nil {
			return err
		}
		reads := st.Count("load")
		if _, err := mem.Deliver(ctx, store.Deliver{Run: c.Run, Item: store.Item{ID: "early", Body: body}}); err != nil {
			return err
		}
		for st.Count("load") == reads && ctx.Err() == nil {
			runtime.Gosched()
		}
		return errors.Join(pause(ctx, 50*time.Millisecond), do()) // The run has read a message that it must commit.
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	run := flowtest.Start(w, flowtest.AttackOnce, 2)
	if got := flowtest.Result(w, run); got != 4 {
		t.Errorf("result: got %d, want 4", got)
	}
	if n := len(flowtest.Filter(w.Log(run), event.MessageReceived)); n != 1 {
		t.Errorf("%d messages were received, want one: the test proves nothing", n)
	}
	w.Healthy()
}

// TestREC4_AnAttemptThatWasStartedIsNoProgress proves that the start of an attempt does not count
// as progress. The attempt itself may kill the worker.
func TestREC4_AnAttemptThatWasStartedIsNoProgress(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var asked requested
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if commits, ok := req.([]store.Commit); ok && op == "commit" {
			asked.add(commits)
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.AttackStep.As(twice), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1))
	starts := 0
	for _, c := range asked.all() {
		f, err := event.DecodeFrame(c.Frame)
		if err != nil {
			t.Fatal(err)
		}
		began := len(flowtest.Filter(f.Events, event.RunStarted, event.StepCreated, event.StepStarted)) == len(f.Events)
		if began {
			starts++
		}
		if c.Progress == began {
			t.Errorf("progress of a commit of %d events, the first of which is %s: got %t", len(f.Events), f.Events[0].Type, c.Progress)
		}
	}
	if starts == 0 {
		t.Error("no commit has only begun something: the test proves nothing")
	}
}

// TestEngine_NothingIsDoneBeforeItsCauseIsDurable proves that no effect happens before its cause is
// in the log.
func TestEngine_NothingIsDoneBeforeItsCauseIsDurable(t *testing.T) {
	st := &flowtest.Between{Store: memstore.New()}
	var begun, early atomic.Int64
	var held atomic.Bool
	st.Around = func(ctx context.Context, op string, req any, do func() error) error {
		if starting(op, req) != nil && !held.Swap(true) {
			if err := pause(ctx, 50*time.Millisecond); err != nil {
				return err
			}
			early.Add(begun.Load())
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.AttackStep.As(func(_ context.Context, n int) (int, error) {
		begun.Add(1)
		return 2 * n, nil
	}), flowtest.As(flowtest.AttackOnce, flowtest.AttackStep.Call))
	if got := flowtest.Result(w, flowtest.Start(w, flowtest.AttackOnce, 1)); got != 2 {
		t.Errorf("result: got %d, want 2", got)
	}
	if !held.Load() || early.Load() != 0 {
		t.Errorf("%d attempts were begun before the log said so, want none (held: %t)", early.Load(), held.Load())
	}
}

// relabeling is a store whose second claim of a run reports another commit ID for the last frame.
// This happens if a failover loses the frame and another worker then continues the run.
type relabeling struct {
	flowtest.Between

	claims atomic.Int64
}

func (s *relabeling) Claim(ctx context.Context, c store.Claim) (store.Claimed, error) {
	got, err := s.Between.Claim(ctx, c)
	for i := range got.Runs {
		if s.claims.Add(1) == 2 {
			got.Runs[i].Last = event.NewCommitID()
		}
	}
	return got, err
}

// TestF4_ACachedRunIsKnownByItsCommitIDNotByItsLength proves that a worker resumes a run from
// memory only if the log still ends with the same commit. An equal length of the log is not
// sufficient.
func TestF4_ACachedRunIsKnownByItsCommitIDNotByItsLength(t *testing.T) {
	st := &relabeling{Between: flowtest.Between{Store: memstore.New()}}
	var logs atomic.Int64
	st.Around = func(_ context.Context, op string, req any, do func() error) error {
		if reads, ok := req.([]store.Load); ok && op == "load" && reads[0].Limit == 0 {
			logs.Add(1)
		}
		return do()
	}
	w := flowtest.NewWorld(t, st, workflow.ClientConfig{})
	w.Work(worker.Config{}, flowtest.As(flowtest.AttackOnce, func(ctx workflow.Context, _ int) (int, error) {
		return flowtest.AttackTopic.Receive(ctx)
	}))
	run := flowtest.Start(w, flowtest.AttackOnce, 1)
	w.Eventually("it is parked", func() bool { return w.Parked(run) })
	before := logs.Load()
	if err := flowtest.AttackTopic.Send(w.Ctx, run, 7); err != nil {
		t.Fatal(err)
	}
	if got := flowtest.Result(w, run); got != 7 {
		t.Errorf("result: got %d, want 7", got)
	}
	if logs.Load() == before {
		t.Error("it was resumed from memory: its log was not read")
	}
}

// unchained is a store that returns logs whose second frame does not refer to the first.
type unchained struct{ flowtest.Between }

func (s *unchained) Load(ctx context.Context, runs []store.Load) ([]store.Loaded, error) {
	got, err := s.Between.Load(ctx, runs)
	for i := range got {
		if len(got[i].Frames) < 2 {
			continue
		}
		f, err := event.DecodeFrame(got[i].Frames[1])
		if err != nil {
			return nil, err
		}
		f.Prev = event.NewCommitID()
		frames := append([][]byte(nil), got[i].Frames...)
		if frames[1], err = event.AppendFrame(nil, f); err != nil {
			return nil, err
		}
		got[i].Frames = frames
	}
	return got, err
}

func TestDecode_LogWhoseFramesDoNotContinueOneAnotherBlocksTheRun(t *testing.T) {
	mem := memstore.New()
	w := flowtest.NewWorld(t, mem, workflow.ClientConfig{})
	code := flowtest.As(flowtest.AttackSleep, func(ctx workflow.Context, n int) (int, error) {
		return n, workflow.Sleep(ctx, 100*time.Millisecond)
	})
	first := w.Work(worker.Config{}, code)
	run := flowtest.Start(w, flowtest.AttackSleep, 1)
	w.Reach(run, event.WaitCreated, 1)
	first.Stop() // The next worker has no run in memory.
	w.WorkOn(&unchained{flowtest.Between{Store: mem}}, worker.Config{}, code)
	w.Eventually("the run is blocked", func() bool {
		info, err := run.Info(w.Ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.Status.Terminal() {
			t.Fatal("the run went on with a damaged log")
		}
		return info.Status == workflow.StatusBlocked
	})
}
