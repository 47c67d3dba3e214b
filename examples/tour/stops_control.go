package main

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/flowgen/flowgen/examples/tour/flows"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// whole plays have these lines.
var acts = []string{"act 0", "cue go", "act 1"}

func (t *tour) play(book string, opts ...workflow.StartOption) (*workflow.Run[[]string], error) {
	return flows.Perform.Start(t.ctx, t.client, flows.Play{Book: t.id(book), Acts: 2, Cue: 1}, opts...)
}

// atCue starts a play and waits until it waits for its cue.
func (t *tour) atCue(book string, opts ...workflow.StartOption) (*workflow.Run[[]string], error) {
	run, err := t.play(book, opts...)
	if err != nil {
		return nil, err
	}
	return run, t.waits(run.Handle)
}

// waits waits until a run waits for a message.
func (t *tour) waits(run *workflow.Handle) error {
	for _, err := range run.Events(t.ctx, workflow.Types(event.WaitCreated)) {
		return err
	}
	return errors.New("the run has ended before it waited")
}

// ends gives a play its cue, and looks at what came of it.
func (t *tour) ends(run *workflow.Run[[]string]) error {
	if err := flows.Cue.Send(t.ctx, run, "go", workflow.IdempotencyKey("go")); err != nil {
		return err
	}
	got, err := run.Result(t.ctx)
	return errors.Join(err, expect("the play", got, acts))
}

// startOptions starts runs with options, and finds them by these.
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

// statuses sees a run in different statuses.
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

// followers follow a run from before it begins.
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

// cancels cancels a play, twice, which cleans up.
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

// held releases one run, and lets another one wait for too long.
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

// resumed continues a canceled play in a new run.
func resumed(t *tour) (string, error) {
	run, err := t.atCue("resumed", workflow.WithID(t.id("resumed")))
	if err != nil {
		return "", err
	}
	if err := run.Cancel(t.ctx, "by mistake"); err != nil {
		return "", err
	}
	if _, err := run.Result(t.ctx); !errors.Is(err, workflow.ErrCanceled) {
		return "", fmt.Errorf("a canceled play: %w", err)
	}
	again, err := run.ResumeAsNew(t.ctx)
	if err != nil {
		return "", err
	}
	if err := t.ends(again); err != nil {
		return "", err
	}
	info, err := run.Info(t.ctx)
	lines, read := t.book(t.id("resumed"))
	return "a cancelled run stayed cancelled; a new one went on, and executed nothing again",
		errors.Join(err, read, expect("the old run", info.Status, workflow.StatusCanceled), expect("book", lines, []string{"act 0", "sweep the stage", "act 1"}))
}

// forked forks, restarts and retries runs.
func forked(t *tour) (string, error) {
	run, err := t.atCue("forked")
	if err == nil {
		err = t.ends(run)
	}
	if err != nil {
		return "", err
	}
	fork, err := run.Fork(t.ctx, "perform/tour.note#2")
	if err != nil {
		return "", err
	}
	got, err := fork.Result(t.ctx) // the message is taken over, too
	if err := errors.Join(err, expect("the fork", got, acts)); err != nil {
		return "", err
	}
	again, err := run.Restart(t.ctx)
	if err == nil {
		err = t.ends(again)
	}
	if err != nil {
		return "", err
	}
	lines, err := t.book(t.id("forked"))
	if err := errors.Join(err, expect("acts of three runs", len(lines), 2+1+2)); err != nil {
		return "", err
	}
	return "forked at a step with what was before it, restarted from the beginning, tried again after a failure", t.retried()
}

// retried lets a run fail, mends the reason, and tries again.
func (t *tour) retried() error {
	book := t.id("shop")
	run, err := flows.OpenShop.Start(t.ctx, t.client, book)
	if err != nil {
		return err
	}
	if _, err := run.Result(t.ctx); !errors.Is(err, flows.ErrNotYet) {
		return fmt.Errorf("a shop without a permit: %w", err)
	}
	if _, err := t.bank.DB.ExecContext(t.ctx, `INSERT INTO notes (book, line, key) VALUES ($1, 'permit', $1)`, book); err != nil {
		return err
	}
	again, err := run.Retry(t.ctx)
	if err != nil {
		return err
	}
	got, err := again.Result(t.ctx)
	lines, read := t.book(book)
	return errors.Join(err, read, expect("the shop", got, "unlock, open"), expect("book", lines, []string{"unlock", "permit"}))
}

// paused pauses one run, and executes another one operation by operation.
func paused(t *tour) (string, error) {
	run, err := t.atCue("paused")
	if err != nil {
		return "", err
	}
	err = errors.Join(run.Pause(t.ctx), t.reaches(run.Handle, workflow.StatusPaused), flows.Cue.Send(t.ctx, run, "go", workflow.IdempotencyKey("go")))
	if err != nil {
		return "", err
	}
	for _, err := range run.Events(t.ctx, workflow.Types(event.MessageReceived)) { // it is recorded, and nothing comes of it
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

// stepped executes a play one operation at a time, and returns how many there were.
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
		if info.Status == workflow.StatusWaiting { // for its cue
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

// moved waits until a run has done what it was told, and stands still again.
func (t *tour) moved(run *workflow.Run[[]string], events uint64) error {
	return t.eventually("the command is executed", func() (bool, error) {
		info, err := run.Info(t.ctx)
		still := slices.Contains([]workflow.Status{workflow.StatusPaused, workflow.StatusWaiting, workflow.StatusCompleted}, info.Status)
		return still && info.Events > events+1, err
	})
}

// elsewhere lets steps be executed on other queues.
func elsewhere(t *tour) (string, error) {
	run, err := flows.Places.Start(t.ctx, t.client, "step")
	if err != nil {
		return "", err
	}
	got, err := run.Result(t.ctx)
	if err := errors.Join(err, expect("places", got, []string{"default step", "far step", "far step"})); err != nil {
		return "", err
	}
	chunks, attempts := 0, 0
	for c, err := range flows.Lines.Read(t.ctx, run) {
		if err != nil || c.Value != "far: step" {
			return "", fmt.Errorf("the stream of the caller has %q: %w", c.Value, err)
		}
		chunks++
		attempts = c.Attempt
	}
	if chunks == 0 || chunks > attempts {
		return "", fmt.Errorf("%d chunks of %d attempts", chunks, attempts)
	}
	return "one step by its directive and one by an option were executed by a worker of another queue; it wrote to the stream of the caller", nil
}

// deposits brings money to a SQL database, each part exactly once.
func deposits(t *tour) (string, error) {
	const runs, parts = 10, 20
	account := t.id("account")
	var all []*workflow.Run[int64]
	for range runs {
		run, err := flows.Save.Start(t.ctx, t.client, flows.SaveInput{Account: account, Parts: parts})
		if err != nil {
			return "", err
		}
		all = append(all, run)
	}
	for _, run := range all {
		if _, err := run.Result(t.ctx); err != nil {
			return "", err
		}
	}
	var cents int
	err := t.bank.DB.QueryRowContext(t.ctx, `SELECT cents FROM accounts WHERE name = $1`, account).Scan(&cents)
	return fmt.Sprintf("%d transactions of steps, each exactly once", runs*parts), errors.Join(err, expect("balance", cents, runs*parts))
}

// versions follows a run over changes of its code.
func versions(t *tour) (string, error) {
	got, err := flows.Change.Execute(t.ctx, t.client, 3)
	return "a run kept the version of a change that it had met first, and took the newest of those that came later",
		errors.Join(err, expect("versions", got, []int{1, 1, 1, 2, 1, 3}))
}

// toils lets runs take steps whose effects are noted in order.
func toils(t *tour) (string, error) {
	const runs, steps = 20, 10
	book := func(i int) string { return t.id(fmt.Sprint("toil-", i)) }
	var all []*workflow.Run[int]
	for i := range runs {
		run, err := flows.Toil.Start(t.ctx, t.client, flows.ToilInput{Book: book(i), Steps: steps})
		if err != nil {
			return "", err
		}
		all = append(all, run)
	}
	var want []string
	for n := range steps {
		want = append(want, fmt.Sprint("step ", n))
	}
	for i, run := range all {
		if _, err := run.Result(t.ctx); err != nil {
			return "", err
		}
		lines, err := t.book(book(i))
		if err := errors.Join(err, expect("book", lines, want)); err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%d runs of %d steps, all in order and each effect once", runs, 2*steps), nil
}
