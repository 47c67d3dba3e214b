package replay

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/event"
)

func sleeper(b *Branch, s *Scope, _ []byte) Ending {
	_ = b.Sleep(s, t0.Add(time.Hour))
	return done("1")
}

func TestEV7_EventThatNothingConsumesIsAnErrorThatNamesIt(t *testing.T) {
	h := begin(t, sleeper)
	tests := map[string]struct {
		extra event.Event
		want  string
	}{
		"a hook nobody asked for":    {event.Event{Type: event.HookCreated, Key: "k", Name: "paid"}, "event 4 of its log is hook_created paid (key k)"},
		"a step nobody asked for":    {event.Event{Type: event.StepCreated, Key: "flow/p.s#1", Name: "p.s"}, "event 4 of its log is step_created p.s (key flow/p.s#1)"},
		"a value nobody asked for":   {event.Event{Type: event.ValueRecorded, Key: "flow/record#1"}, "event 4 of its log is value_recorded (key flow/record#1)"},
		"an attempt of nothing":      {event.Event{Type: event.StepStarted, Ref: 2, Attempt: 1}, "event 4 (step_started)"},
		"a result of a wait":         {event.Event{Type: event.StepCompleted, Ref: 3}, "event 4 (step_completed)"},
		"an end of nothing":          {event.Event{Type: event.WaitCompleted, Ref: 1, Outcome: event.OutcomeDue}, "event 4 (wait_completed)"},
		"an end that nobody signed":  {event.Event{Type: event.RunFailed}, "event 4 of its log is run_failed"},
		"a second start":             {event.Event{Type: event.RunStarted}, "event 4 (run_started)"},
		"a type of a newer release":  {event.Event{Type: 250}, "event 4 (type(250))"},
		"a cancel that no code made": {event.Event{Type: event.WaitCompleted, Ref: 3, Outcome: event.OutcomeCanceled}, "event 4 of its log is wait_completed cancelled of event 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			again := load(t, sleeper)
			tt.extra.Seq, tt.extra.Time = 4, t0
			err := again.run.Replay(append(slices.Clone(h.log), tt.extra))
			if err == nil || again.run.Err() != err {
				t.Fatalf("replay gives %v", err)
			}
			wantText(t, err.Error(), string(testRun), tt.want)
			if n := again.run.Branches(); n > 0 {
				t.Errorf("%d branches are left", n)
			}
		})
	}
}

func TestEV7_EventAfterTheEndIsAnError(t *testing.T) {
	h := begin(t, func(*Branch, *Scope, []byte) Ending { return done("1") })
	again := load(t, func(*Branch, *Scope, []byte) Ending { return done("1") })
	err := again.run.Replay(append(slices.Clone(h.log), event.Event{Seq: 4, Type: event.MessageReceived, Key: "k"}))
	if !errors.Is(err, event.ErrCorrupt) {
		t.Fatalf("replay gives %v, want ErrCorrupt", err)
	}
	wantText(t, err.Error(), `event 4 (message_received, key "k") follows the end of the run`)
}

func TestReplay_GapInTheLogIsAnError(t *testing.T) {
	h := recorded(t)
	err := load(t, sleeper).run.Replay(slices.Delete(slices.Clone(h.log), 1, 2))
	if !errors.Is(err, event.ErrCorrupt) {
		t.Fatalf("replay gives %v, want ErrCorrupt", err)
	}
	wantText(t, err.Error(), "event 3 (step_created) stands at 2")
}

func TestApply_RefusesWhatOnlyCodeMayAskForAndWritesNothing(t *testing.T) {
	for name, e := range map[string]event.Event{
		"step":            {Type: event.StepCreated, Name: "p.s", Key: "k"},
		"canceled wait":   {Type: event.WaitCompleted, Ref: 3, Outcome: event.OutcomeCanceled},
		"unsigned ending": {Type: event.RunFailed},
		"illegal":         {Type: event.RunStarted},
	} {
		t.Run(name, func(t *testing.T) {
			h := begin(t, sleeper)
			if err := h.run.Apply(e); err == nil || h.run.Err() == nil {
				t.Fatalf("apply gives %v, want an error", err)
			}
			if out := h.run.Take(); len(out) > 0 || h.run.State().Seq != 3 {
				t.Errorf("%d events were written", len(out))
			}
		})
	}
}

func TestApply_OnARunThatEndedChangesNothing(t *testing.T) {
	h := begin(t, func(*Branch, *Scope, []byte) Ending { return done("1") })
	err := h.run.Apply(event.Event{Type: event.CancelRequested})
	var te *event.TransitionError
	if !errors.As(err, &te) || te.From != event.StateCompleted {
		t.Errorf("apply gives %v, want a *TransitionError", err)
	}
	if h.run.Err() != nil || !h.run.Ended() || len(h.run.Take()) > 0 {
		t.Errorf("the ended run was changed: %v", h.run.Err())
	}
}

func TestApply_SignedEndingEndsTheRunWithoutItsCode(t *testing.T) {
	h := begin(t, sleeper)
	h.apply(event.Event{Type: event.RunFailed, By: "w", Failure: &event.Failure{Code: event.CodePoisoned}})
	if !h.run.Ended() || h.run.Branches() != 0 {
		t.Errorf("ended %v, %d branches", h.run.Ended(), h.run.Branches())
	}
	h.replay(sleeper)
}

func TestSkip_FollowsTheLogWithoutRunningCode(t *testing.T) {
	h := recorded(t)
	again := load(t, func(*Branch, *Scope, []byte) Ending { t.Error("the code ran"); return done("") })
	if err := again.run.Skip(h.log); err != nil || again.run.State().Seq != 8 {
		t.Fatalf("skip gives %v at event %d", err, again.run.State().Seq)
	}
	again.apply(event.Event{Type: event.RunFailed, By: "w"})
	if !again.run.Ended() {
		t.Error("the run did not end")
	}
}

func TestApply_TimesNeverFallAndAreWhatALogKeeps(t *testing.T) {
	var seen []time.Time
	code := func(b *Branch, s *Scope, _ []byte) Ending {
		for {
			seen = append(seen, b.Now())
			_, _ = b.Receive(s, "a", time.Time{})
		}
	}
	h := begin(t, code)
	zone := time.FixedZone("elsewhere", 3600)
	for _, at := range []time.Duration{1500 * time.Microsecond, -time.Hour, 2 * time.Millisecond} {
		h.apply(event.Event{Type: event.MessageReceived, Name: "a", Time: t0.Add(at).In(zone)})
	}
	want := []time.Time{t0, t0.Add(time.Millisecond), t0.Add(time.Millisecond), t0.Add(2 * time.Millisecond)}
	if !slices.Equal(seen, want) { // a comparison of the values includes the time zone, which must be the same in a replay
		t.Errorf("the code saw %v, want %v", seen, want)
	}
	for i := range h.log[1:] {
		if h.log[i+1].Time.Before(h.log[i].Time) {
			t.Errorf("time falls at event %d", i+2)
		}
	}
}

func TestEvents_ReferToTheEntityThatTheyAreAbout(t *testing.T) {
	h := begin(t, func(b *Branch, s *Scope, _ []byte) Ending {
		spawn(b, s, func(b *Branch) any { return doStep(b, s, "p.s", "1") })
		_, _, _ = b.Select(s, []Case{{Topic: "a"}, {Due: t0.Add(time.Hour)}})
		b.Record(func() ([]byte, *event.Failure) { return nil, nil })
		return done("1")
	})
	h.now = h.now.Add(time.Second)
	h.complete(h.start(), "1")
	h.send("a", "1")
	for _, e := range h.log {
		want, since := uint64(0), time.Time{}
		switch {
		case e.Type == event.RunCreated:
		case e.Type.Creates():
			want, since = e.Seq, e.Time
		case e.Type.Entity() == event.EntityStep, e.Type.Entity() == event.EntityWait:
			want, since = e.Ref, h.log[e.Ref-1].Time
			if !h.log[e.Ref-1].Type.Creates() || h.log[e.Ref-1].Type.Entity() != e.Type.Entity() {
				t.Errorf("event %d (%s) refers to %s", e.Seq, e.Type, h.log[e.Ref-1].Type)
			}
		}
		if e.Ref != want || !e.Since.Equal(since) {
			t.Errorf("event %d (%s) refers to %d since %v, want %d since %v", e.Seq, e.Type, e.Ref, e.Since, want, since)
		}
	}
}

// TestPayloads_OfMessagesAndRecordsBelongToTheLog proves that code which changes its copy of a payload
// does not change the log.
func TestPayloads_OfMessagesAndRecordsBelongToTheLog(t *testing.T) {
	spoil := func(p []byte) {
		for i := range p {
			p[i] = 'x'
		}
	}
	code := func(b *Branch, s *Scope, in []byte) Ending {
		result := string(in) + string(doStep(b, s, "p.s", "1").Payload)
		e, _ := b.Receive(s, "a", time.Time{})
		result += string(e.Payload)
		spoil(e.Payload)
		v, _ := b.Record(func() ([]byte, *event.Failure) { return []byte("3"), nil })
		result += string(v)
		spoil(v)
		return done(result)
	}
	h := begin(t, code)
	h.complete(h.start(), "1")
	h.send("a", "2")
	want := []string{"step_created p.s (key flow/p.s#1) 1", "step_started of event 3", "step_completed of event 3 1",
		"wait_created message of topic a (key flow/receive.a#1)", "message_received a 2", "wait_completed received of event 6",
		"value_recorded (key flow/record#1) 3", `run_completed "input"123`}
	h.want(want...)
	h.replay(code)
	h.replay(code)
	h.want(want...)
}
