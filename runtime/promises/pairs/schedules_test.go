package pairs_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/schedule"
)

// scheduleStates contains the states of schedules. The functions bring a schedule into the state.
var scheduleStates = map[string]func(s *stage, name string) error{
	"active": func(*stage, string) error { return nil },
	"paused": func(s *stage, name string) error {
		return ops.New(s.Client).Schedules().Pause(s.Ctx, name, "by the test")
	},
	"deleted": func(s *stage, name string) error { return ops.New(s.Client).Schedules().Delete(s.Ctx, name) },
}

// owedSchedules lists pairs of a state and a verb that violate rule R23.
var owedSchedules = []string{}

func TestPairs_ACommandToAScheduleWorksInEveryStateOfIt(t *testing.T) {
	for state, bring := range scheduleStates {
		for _, verb := range admin.ScheduleActions() {
			t.Run(state+" "+verb, func(t *testing.T) {
				s := onMemory(t, true, byWorkers)
				const name = "nightly"
				err := plain.Schedule(s.carrying("tick"), s.Client, name, schedule.Spec{When: "every 1h", Overlap: schedule.Allow}, work{Do: "complete", Key: "tick"})
				if err == nil {
					s.pass(10 * time.Minute)
					err = bring(s, name)
				}
				if err != nil {
					t.Fatal(err)
				}
				broken := s.scheduleBreaks(name, state, verb)
				if known := slices.Contains(owedSchedules, state+" "+verb); broken != "" && !known {
					t.Errorf("R23: %s", broken)
				} else if broken == "" && known {
					t.Error("follows R23 now: remove the row of owedSchedules")
				}
			})
		}
	}
}

// scheduleBreaks sends a command to a schedule. It describes the effect that is missing, or returns
// "".
func (s *stage) scheduleBreaks(name, state, verb string) string {
	now := s.Store.Clock().Now()
	a := admin.ScheduleAction{Verb: verb}
	switch verb {
	case "update":
		a.Timing = &admin.Timing{When: "every 2h"}
	case "backfill":
		a.Fill = &admin.Backfill{From: now.Add(-3 * time.Hour), To: now.Add(-time.Minute), Overlap: string(schedule.Allow)}
	}
	_, err := s.service.ActOnSchedule(s.Ctx, name, a)
	if state == "deleted" {
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeNotFound {
			return fmt.Sprintf("got %v, want notFound", err)
		}
		return ""
	}
	if err != nil {
		return fmt.Sprintf("it is refused: %v", err)
	}
	var info schedule.Info
	shows := func() bool {
		var err error
		info, err = ops.New(s.Client).Schedules().Get(s.Ctx, name)
		if verb == "delete" {
			return err != nil
		}
		switch verb {
		case "pause":
			return info.Paused
		case "resume":
			return !info.Paused
		case "trigger", "backfill":
			return info.Started > 0
		case "update":
			return info.When == "every 2h"
		}
		return false
	}
	most := most
	if slices.Contains(owedSchedules, state+" "+verb) {
		most = grace
	}
	if !s.until(most, shows) {
		return fmt.Sprintf("%s has no effect: %+v", verb, info)
	}
	if state == "paused" && verb != "resume" && verb != "delete" && !info.Paused {
		return verb + " ends the pause"
	}
	return ""
}
