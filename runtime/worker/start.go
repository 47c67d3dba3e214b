package worker

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/deploy"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker/internal/wait"
)

// declareAgain is the delay before a worker retries a failed declaration of schedules.
const declareAgain = 5 * time.Second

// declare creates or updates the schedules that the directives of the worker's workflows declare.
// It retries until it succeeds or ctx ends. Every worker calls it at its start. A declaration
// contains the start time of its worker, and the latest declaration takes precedence.
func (w *Worker) declare(ctx context.Context, began time.Time) {
	for {
		err := w.loop.client.Declare(ctx, w.code, began)
		bad, refused := errors.AsType[*schedule.Error](err)
		switch {
		case err == nil, ctx.Err() != nil, errors.Is(err, store.ErrClosed):
			return
		case refused: // the generator used another version of the schedule rules
			w.log.Error("a schedule of a directive is not valid", "worker", w.cfg.Name, "schedule", bad.Name, "error", err)
			return
		}
		w.log.Warn("schedules of directives cannot be created yet", "worker", w.cfg.Name, "error", err)
		if !wait.For(ctx, w.clock, declareAgain) {
			return
		}
	}
}

// describe writes the catalogue entry of each workflow to the store. It retries until it succeeds
// or ctx ends. Runs do not need the catalogue, so the worker does not wait for describe.
func (w *Worker) describe(ctx context.Context) {
	for {
		err := w.describeOnce(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, store.ErrClosed) {
			return
		}
		w.log.Warn("the description of a workflow cannot be stored yet", "worker", w.cfg.Name, "error", err)
		if !wait.For(ctx, w.clock, declareAgain) {
			return
		}
	}
}

// describeOnce writes the entries that differ from those of the store, up to the first error.
func (w *Worker) describeOnce(ctx context.Context) error {
	entries, ok := store.As[store.Entries](w.store)
	if !ok {
		return nil
	}
	for _, e := range w.code.Catalog() {
		v := e.Versions[0]
		v.Build = w.build
		err := store.Describe(ctx, entries, e.Workflow, v)
		if err != nil && !errors.As(err, new(*store.InvalidError)) { // An entry is invalid, for example, if a schema is too large. A retry would not help.
			return err
		}
	}
	return nil
}

// registerPatience bounds how long the start of a worker may wait for the registration of its build.
const registerPatience = 2 * time.Second

// registerBuild registers the build of the worker in the record of deployments, usually before the
// worker claims a run. The record then contains each build that has executed runs. In the
// background, registerBuild repeats this at intervals until ctx ends, so that the record contains
// when the build was last in use. If the build is retired, the first claim leaves what other builds
// serve. It does not register a worker that executes no code of a program, such as the worker of
// flowctl serve.
func (w *Worker) registerBuild(ctx context.Context) {
	entries, ok := store.As[store.Entries](w.store)
	if !ok || !slices.ContainsFunc(w.served.routes(), func(r store.Route) bool { return !event.RuntimeCode(r.Workflow) }) {
		return
	}
	seen := func(ctx context.Context) (retired bool, next time.Duration) {
		state, err := deploy.Seen(ctx, entries, w.build)
		if err == nil {
			return state.Retired(w.build), deploy.SeenEvery
		}
		if ctx.Err() == nil && !errors.Is(err, store.ErrClosed) {
			w.log.Warn("the build cannot be registered yet", "worker", w.cfg.Name, "build", w.build, "error", err)
		}
		return false, declareAgain
	}
	first, cancel := context.WithTimeout(ctx, registerPatience)
	defer cancel()
	retired, next := seen(first)
	if retired {
		w.newMover().begin(first)
	}
	w.work.Go(func() {
		for wait.For(ctx, w.clock, next) {
			_, next = seen(ctx)
		}
	})
}

// doctorPatience bounds how long a starting worker's check of its store may take.
const doctorPatience = 10 * time.Second

// consult logs the warnings of the store's doctor in one line, if the store has a doctor. It runs
// in the background and waits until a partition answers. If the worker lacks the permission for a
// check, the check is not logged, because the line would repeat at every start.
func (e *env) consult(ctx context.Context, answers func() bool) {
	doctor, ok := store.As[store.Doctor](e.store)
	if !ok {
		return
	}
	e.work.Go(func() {
		for !answers() {
			if !wait.For(ctx, e.clock, time.Second) {
				return // the worker stopped before any partition has answered
			}
		}
		ctx, cancel := context.WithTimeout(ctx, doctorPatience)
		defer cancel()
		report, err := doctor.Examine(ctx)
		if err != nil {
			return // outages are logged by the outage log
		}
		var warnings []string
		for _, f := range report.Findings {
			if f.Severity >= store.SeverityWarn && f.Check != store.CheckSight {
				warnings = append(warnings, f.String())
			}
		}
		if len(warnings) > 0 {
			e.log.Warn("the store is not set up as it should be", "worker", e.cfg.Name, "findings", len(warnings), "what", strings.Join(warnings, "; "))
		}
	})
}
