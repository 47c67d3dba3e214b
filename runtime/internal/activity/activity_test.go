package activity_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/internal/activity"
)

func TestBusy_EndsWithTheLastActivity(t *testing.T) {
	c := &activity.Counter{}
	if c.Busy() != nil {
		t.Fatal("a new counter is busy")
	}
	c.Begin()
	c.Begin()
	busy := c.Busy()
	c.End()
	select {
	case <-busy:
		t.Error("told to be idle while one activity is under way")
	default:
	}
	if c.Count() != 1 || c.Begun() != 2 {
		t.Errorf("%d of %d under way, want 1 of 2", c.Count(), c.Begun())
	}
	c.End()
	<-busy
	if c.Busy() != nil {
		t.Error("busy without an activity")
	}
}

func TestCounter_NilCountsNothing(t *testing.T) {
	var c *activity.Counter
	c.Begin()
	c.End()
}
