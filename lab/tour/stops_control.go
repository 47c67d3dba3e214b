package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// acts contains the lines that a complete play writes to its book.
var acts = []string{"act 0", "cue go", "act 1"}

func (t *tour) play(book string, opts ...workflow.StartOption) (*workflow.Run[[]string], error) {
	return flows.Perform.Start(t.ctx, t.client, flows.Play{Book: t.id(book), Acts: 2, Cue: 1}, opts...)
}

// atCue starts a play. It returns when the play waits for its cue.
func (t *tour) atCue(book string, opts ...workflow.StartOption) (*workflow.Run[[]string], error) {
	run, err := t.play(book, opts...)
	if err != nil {
		return nil, err
	}
	return run, t.standsBy(run.Handle)
}

// standsBy waits until a run waits for a message.
func (t *tour) standsBy(run *workflow.Handle) error {
	for _, err := range run.Events(t.ctx, workflow.Types(event.WaitCreated)) {
		return err
	}
	return errors.New("the run has ended before it waited")
}

// ends sends a play its cue and checks its result.
func (t *tour) ends(run *workflow.Run[[]string]) error {
	if err := flows.Cue.Send(t.ctx, run, "go", workflow.IdempotencyKey("go")); err != nil {
		return err
	}
	got, err := run.Result(t.ctx)
	return errors.Join(err, expect("the play", got, acts))
}

// startOptions starts runs with options and finds the runs by these options.
func startOptions(t *tour) (string, error) {
	tag := map[string]string{"tour": t.name}
	before := time.Now()
	run, err := t.play("options", workflow.WithID(t.id("options")), workflow.WithTags(tag), workflow.WithDelay(200*time.Millisecond),
		workflow.WithPriority(3), workflow.WithRunTimeout(time.Hour), workflow.WithRetention(time.Hour))
	if err != nil {
		return "", err
	}
	same, err := t.play("options", workflow.WithID(t.id("options")))
	if err != nil || same.Created() || same.ID() != run.ID() {
		return "", fmt.Errorf("a second start of the same workflow id: run %v, %w", same, err)
	}
	found := 0
	for info, err := range t.client.List(t.ctx, workflow.Filter{Tags: tag}) {
		if err != nil || info.ID != run.ID() {
			return "", fmt.Errorf("found run %s by its tag: %w", info.ID, err)
		}
		found++
	}
	if err := errors.Join(expect("runs with the tag", found, 1), t.ends(run)); err != nil {
		return "", err
	}
	if d := time.Since(before); d < 200*time.Millisecond {
		return "", fmt.Errorf("it began before its delay was over: it took %v", d)
	}
	return "a delayed run with a workflow id, tags, priority, time limit and retention was started once, and found by its tag", nil
}

// statuses checks the status of a run in different states.
func statuses(t *tour) (string, error) {
	run, err := t.play("statuses", workflow.WithHold())
	if err != nil {
		return "", err
	}
	var seen []workflow.Status
	see := func(want workflow.Status) error {
		seen = append(seen, want)
		return t.reaches(run.Handle, want)
	}
	err = errors.Join(see(workflow.StatusHeld), run.Release(t.ctx), see(workflow.StatusWaiting), run.Pause(t.ctx), see(workflow.StatusPaused),
		run.Resume(t.ctx), see(workflow.StatusWaiting), t.ends(run), see(workflow.StatusCompleted))
	return fmt.Sprintf("a run was %v", seen), err
}

// followers follows a run from before its beginning to its end.
func followers(t *tour) (string, error) {
	run, err := t.play("followers", workflow.WithHold())
	if err != nil {
		return "", err
	}
	got := make([][]uint64, 3)
	errs := make(chan error, len(got))
	begun := make(chan struct{}, len(got))
	for i := range got {
		go func() {
			for e, err := range run.Events(t.ctx) {
				if err != nil {
					errs <- err
					return
				}
				if got[i] = append(got[i], e.Seq); len(got[i]) == 1 {
					begun <- struct{}{}
				}
			}
			errs <- nil
		}()
	}
	for range got {
		select {
		case <-begun:
		case err := <-errs:
			return "", err
		}
	}
	err = errors.Join(run.Release(t.ctx), t.ends(run))
	for range got {
		err = errors.Join(err, <-errs)
	}
	for i := range got {
		for j, seq := range got[i] {
			if seq != uint64(j+1) {
				return "", fmt.Errorf("follower %d got event %d as number %d", i, seq, j+1)
			}
		}
	}
	return fmt.Sprintf("%d followers that came before the start saw %d events each, from the first on", len(got), len(got[0])),
		errors.Join(err, expect("events", len(got[1]), len(got[0])), expect("events", len(got[2]), len(got[0])))
}

// cancels cancels a play twice and checks that the play cleans up once.
func cancels(t *tour) (string, error) {
	run, err := t.atCue("cancels")
	if err != nil {
		return "", err
	}
	if err := errors.Join(run.Cancel(t.ctx, "rain"), run.Cancel(t.ctx, "snow")); err != nil {
		return "", err
	}
	_, err = run.Result(t.ctx)
	if !errors.Is(err, workflow.ErrCanceled) {
		return "", fmt.Errorf("a canceled play: %w", err)
	}
	var reasons []string
	for e, err := range run.Events(t.ctx, workflow.Types(event.CancelRequested)) {
		if err != nil {
			return "", err
		}
		reasons = append(reasons, e.Reason)
	}
	lines, err := t.book(t.id("cancels"))
	return "canceled twice with a reason, recorded once, cleaned up under a detached context",
		errors.Join(err, expect("reasons", reasons, []string{"rain"}), expect("book", lines, []string{"act 0", "sweep the stage"}))
}

// held checks that a held run begins when it is released, and that another one fails because it is
// not released in time.
func held(t *tour) (string, error) {
	run, err := t.play("held", workflow.WithHold())
	if err != nil {
		return "", err
	}
	late, err := t.play("held for too long", workflow.WithHoldFor(100*time.Millisecond))
	if err != nil {
		return "", err
	}
	_, err = late.Result(t.ctx)
	if failed, ok := errors.AsType[*workflow.RunError](err); !ok || failed.Code != event.CodeNotReleased {
		return "", fmt.Errorf("a run that nobody releases: %w", err)
	}
	lines, err := t.book(t.id("held"))
	if err := errors.Join(err, expect("book before the release", len(lines), 0)); err != nil {
		return "", err
	}
	return "a held run began when it was released; one that nobody released failed", errors.Join(run.Release(t.ctx), t.ends(run))
}

// paused pauses a run, and executes another one operation by operation.
func paused(t *tour) (string, error) {
	run, err := t.atCue("paused")
	if err != nil {
		return "", err
	}
	err = errors.Join(run.Pause(t.ctx), t.reaches(run.Handle, workflow.StatusPaused), flows.Cue.Send(t.ctx, run, "go", workflow.IdempotencyKey("go")))
	if err != nil {
		return "", err
	}
	for _, err := range run.Events(t.ctx, workflow.Types(event.MessageReceived)) { // The message was recorded, but has no effect while the run is paused.
		if err != nil {
			return "", err
		}
		break
	}
	lines, err := t.book(t.id("paused"))
	if err := errors.Join(err, t.reaches(run.Handle, workflow.StatusPaused), expect("book", lines, []string{"act 0"})); err != nil {
		return "", err
	}
	if err := errors.Join(run.Resume(t.ctx), t.ends(run)); err != nil {
		return "", err
	}
	steps, err := t.stepped()
	return fmt.Sprintf("a paused run recorded a message and stood still until it was resumed; another one took %d commands for its 3 operations", steps), err
}

// stepped executes a play one operation at a time and returns the number of operations.
func (t *tour) stepped() (int, error) {
	run, err := t.play("stepped", workflow.WithDebug())
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		info, err := run.Info(t.ctx)
		if err != nil {
			return n, err
		}
		if info.Status == workflow.StatusWaiting { // The play waits for its cue.
			err = flows.Cue.Send(t.ctx, run, "go", workflow.IdempotencyKey("go"))
		}
		if err == nil {
			err = t.eventually("it stands still or has ended", func() (bool, error) {
				info, err = run.Info(t.ctx)
				return slices.Contains([]workflow.Status{workflow.StatusPaused, workflow.StatusWaiting, workflow.StatusCompleted}, info.Status), err
			})
		}
		switch {
		case err != nil:
			return n, err
		case info.Status == workflow.StatusCompleted:
			got, err := run.Result(t.ctx)
			return n, errors.Join(err, expect("the play", got, acts), expect("commands", n, 3))
		case info.Status == workflow.StatusWaiting:
			n--
			continue
		}
		if err := run.Step(t.ctx); err != nil {
			return n, err
		}
		if err := t.moved(run, info.Events); err != nil {
			return n, err
		}
	}
}

// moved waits until a run has executed one operation and is paused again.
func (t *tour) moved(run *workflow.Run[[]string], events uint64) error {
	return t.eventually("the command is executed", func() (bool, error) {
		info, err := run.Info(t.ctx)
		still := slices.Contains([]workflow.Status{workflow.StatusPaused, workflow.StatusWaiting, workflow.StatusCompleted}, info.Status)
		return still && info.Events > events+1, err
	})
}
