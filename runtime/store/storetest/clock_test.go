package storetest_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/store/storetest"
)

func TestClock_StandsStillUntilItAdvances(t *testing.T) {
	c := storetest.NewClock()
	begin := c.Now()
	if !c.Now().Equal(begin) || !storetest.NewClock().Now().Equal(begin) {
		t.Fatal("a new clock does not show the same fixed time")
	}
	c.Advance(time.Hour)
	if got := c.Now().Sub(begin); got != time.Hour {
		t.Errorf("advanced by %v, want 1h", got)
	}
}

func TestClock_AdvanceCallsInOrderEachAtItsTime(t *testing.T) {
	c := storetest.NewClock()
	begin := c.Now()
	type call struct {
		Name string
		At   time.Duration
	}
	var got []call
	note := func(name string) func() {
		return func() { got = append(got, call{name, c.Now().Sub(begin)}) }
	}
	c.AfterFunc(2*time.Second, note("second"))
	c.AfterFunc(time.Second, func() {
		note("first")()
		c.AfterFunc(time.Millisecond, note("nested"))
	})
	c.AfterFunc(2*time.Second, note("second again"))
	c.AfterFunc(3*time.Second, note("late"))
	c.Advance(2 * time.Second)
	want := []call{{"first", time.Second}, {"nested", time.Second + time.Millisecond}, {"second", 2 * time.Second}, {"second again", 2 * time.Second}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("calls (-want +got)\n%s", diff)
	}
}

func TestClock_StopPreventsTheCall(t *testing.T) {
	c := storetest.NewClock()
	called := 0
	stop := c.AfterFunc(time.Second, func() { called++ })
	late := c.AfterFunc(time.Second, func() { called += 10 })
	if !stop() || stop() {
		t.Error("stop: want true once, then false")
	}
	c.Advance(time.Minute)
	if late() {
		t.Error("stop after the call: got true")
	}
	if called != 10 {
		t.Errorf("calls: got %d, want only the one that was not stopped", called)
	}
}

func TestClock_CallsAtOnceWhatIsDueAlready(t *testing.T) {
	c := storetest.NewClock()
	done := make(chan struct{})
	if stop := c.AfterFunc(0, func() { close(done) }); stop() {
		t.Error("stop: got true for a call that has begun")
	}
	<-done
}

func TestClock_AwaitAlarmReturnsOnceSomebodyWaits(t *testing.T) {
	c := storetest.NewClock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := c.AwaitAlarm(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("await nobody: got %v", err)
	}
	go c.AfterFunc(time.Second, func() {})
	if err := c.AwaitAlarm(t.Context()); err != nil {
		t.Errorf("await: %v", err)
	}
}
