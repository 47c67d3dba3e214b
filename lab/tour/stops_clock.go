package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/flowgen/flowgen/lab/tour/flows"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// schedules creates a schedule, changes it, and counts the runs of each tick.
func schedules(t *tour) (string, error) {
	name, s := t.id("bell"), ops.New(t.client).Schedules()
	plan := schedule.Spec{When: "every 1s", Overlap: schedule.Allow}
	if err := flows.Ring.Schedule(t.ctx, t.client, name, plan, "bell"); err != nil {
		return "", err
	}
	shows := func(what string, holds func(schedule.Info) bool) error {
		return t.eventually("the schedule has "+what, func() (bool, error) {
			info, err := s.Get(t.ctx, name)
			return err == nil && holds(info), err
		})
	}
	if err := shows("two ticks", func(i schedule.Info) bool { return i.Started >= 2 }); err != nil {
		return "", err
	}
	if err := s.Pause(t.ctx, name, "the tour shows something else"); err != nil {
		return "", err
	}
	triggered, err := s.Trigger(t.ctx, name)
	if err != nil {
		return "", err
	}
	err = t.eventually("the triggered run exists", func() (bool, error) {
		_, err := t.client.Run(triggered).Info(t.ctx)
		if errors.Is(err, workflow.ErrRunNotFound) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		return "", err
	}
	rung, err := flows.Ring.Get(t.client, triggered).Result(t.ctx)
	if err := errors.Join(err, expect("the triggered run", rung, "bell")); err != nil {
		return "", err
	}
	past := time.Date(2020, time.February, 29, 0, 0, 0, 0, time.UTC)
	err = errors.Join(s.Backfill(t.ctx, name, schedule.Backfill{From: past, To: past.Add(20 * time.Second)}), s.Resume(t.ctx, name))
	if err := errors.Join(err, shows("20 ticks of the past", func(i schedule.Info) bool { return i.Started >= 23 })); err != nil {
		return "", err
	}
	if err := s.Delete(t.ctx, name); err != nil {
		return "", err
	}
	// The log of the schedule contains its decisions. Its outbox creates the runs later.
	err = t.eventually("23 runs exist", func() (bool, error) {
		runs, ticks := 0, map[string]int{}
		for run, err := range t.client.List(t.ctx, workflow.Filter{Tags: map[string]string{workflow.TagSchedule: name}}) {
			if err != nil {
				return false, err
			}
			runs++
			if ticks[run.Tags[workflow.TagTick]]++; ticks[run.Tags[workflow.TagTick]] > 1 {
				return false, fmt.Errorf("tick %s has two runs", run.Tags[workflow.TagTick])
			}
		}
		return runs >= 23, nil
	})
	if err != nil {
		return "", err
	}
	return "ticks, a trigger in a pause and 20 ticks of the past started one run each", nil
}
