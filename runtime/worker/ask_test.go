package worker

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/runloop"
	"github.com/flowgen/flowgen/runtime/store"
)

var errOutcome = errors.New("the partition does not answer")

// partial is a store that does not answer requests about one run.
type partial struct {
	store.Store
	silent event.RunID
}

func (p *partial) Commit(_ context.Context, all []store.Commit) ([]store.Committed, error) {
	got := make([]store.Committed, len(all))
	for i := range all {
		if all[i].Run == p.silent {
			got[i].Err = errOutcome
		}
	}
	return got, nil
}

func (p *partial) Load(_ context.Context, all []store.Load) ([]store.Loaded, error) {
	got := make([]store.Loaded, len(all))
	for i := range all {
		if all[i].Run == p.silent {
			got[i].Err = errOutcome
		}
	}
	return got, nil
}

// answered records the requests of a run that were answered.
type answered struct{ commits, loads int }

func (a *answered) committed(*runloop.Commit) { a.commits++ }
func (a *answered) loaded(*load)              { a.loads++ }

// TestREC10_AnAnswerIsPassedOnBesideOneThatIsLost proves that a request without an answer does not
// make the worker send the other requests of its batch again, although they were answered.
func TestREC10_AnAnswerIsPassedOnBesideOneThatIsLost(t *testing.T) {
	runs := []event.RunID{"wrun_1", "wrun_2", "wrun_3"}
	for i, silent := range runs {
		e := &env{store: &partial{silent: silent}}
		e.io = t.Context()
		var commits []sending
		var loads []*load
		answers := make([]answered, len(runs))
		for j, run := range runs {
			c := &runloop.Commit{}
			c.Req.Run = run
			commits = append(commits, sending{Commit: c, by: &answers[j]})
			loads = append(loads, &load{run: run, by: &answers[j]})
		}
		again, err := (&committer{env: e}).ask(commits)
		if len(again) != 1 || again[0].Req.Run != silent || !errors.Is(err, errOutcome) {
			t.Errorf("commits: got %d to send again and error %v, want that of %s", len(again), err, silent)
		}
		unread, err := (&loader{env: e}).ask(loads)
		if len(unread) != 1 || unread[0].run != silent || !errors.Is(err, errOutcome) {
			t.Errorf("loads: got %d to send again and error %v, want that of %s", len(unread), err, silent)
		}
		want := []answered{{1, 1}, {1, 1}, {1, 1}}
		want[i] = answered{}
		if !slices.Equal(answers, want) {
			t.Errorf("answers passed on: got %v, want %v", answers, want)
		}
	}
}
