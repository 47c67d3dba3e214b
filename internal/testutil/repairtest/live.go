package repairtest

import (
	"fmt"
	"sync"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Lives fails the test if a repair finds damage in a healthy store with active workers, or changes
// a run. The repairs are executed while the workers execute runs.
func (w *World) Lives(runs int) {
	w.T.Helper()
	defer w.Work()()
	defer w.Work()()
	done := make(chan struct{})
	var repairs sync.WaitGroup
	for n := range 3 {
		repairs.Go(func() { w.repairUntil(done, n) })
	}
	var scenes []*Scene
	for n := range runs {
		name := fmt.Sprintf("run-%d", n)
		s := w.Created(workflow.WithID(name))
		next := w.Created(workflow.WithID(name), workflow.WithIDPolicy(workflow.IDPolicy{Active: workflow.CancelActive}))
		asks := started(w, asking, "is", "that is it")
		w.send(asks.Run, "that", "one")
		w.send(asks.Run, "it", "two")
		scenes = append(scenes, started(w, begetting, time.Second, "the child slept"), started(w, looping, loop{2, time.Second}, "looped"))
		s.Want = "" // the outcome is unknown: the next run cancels this run, unless it has completed
		scenes = append(scenes, s, next, asks)
	}
	got := map[event.RunID]string{}
	want := map[event.RunID]string{}
	for _, s := range scenes {
		outcome := s.Finish()
		if s.Want != "" {
			got[s.Run], want[s.Run] = outcome, s.Want
		}
	}
	close(done)
	repairs.Wait()
	if diff := cmp.Diff(want, got); diff != "" {
		w.T.Errorf("outcomes (-want +got)\n%s", diff)
	}
	w.sound(nil)
}

// repairUntil repairs the store again and again until done is closed. n identifies the repairer.
func (w *World) repairUntil(done <-chan struct{}, n int) {
	for {
		report, err := fsck.Repair(w.Ctx, w.Store, fsck.Options{By: store.SessionID(fmt.Sprintf("fsck-%d", n))})
		if err != nil || len(report.Fixes) > 0 || len(report.Remaining) > 0 {
			w.T.Errorf("a repair of a healthy store: %v, %+v", err, report)
			return
		}
		select {
		case <-done:
			return
		default:
		}
	}
}
