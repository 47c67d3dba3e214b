package redisstore

import (
	"testing"
	"time"
)

func TestClock_ShowsTheTimeOfTheServer(t *testing.T) {
	c := &serverClock{}
	now := time.Now()
	c.observe(now.Add(time.Hour+time.Millisecond), now, now.Add(2*time.Millisecond))
	if off := time.Until(c.Now()) - time.Hour; off.Abs() > time.Millisecond {
		t.Errorf("the clock is %v off", off)
	}
	c.observe(now, now, now.Add(time.Second)) // an answer that took long says little
	if off := time.Until(c.Now()) - time.Hour; off.Abs() > time.Millisecond {
		t.Errorf("the clock is %v off after a slow answer", off)
	}
	later := now.Add(3 * clockAge)
	c.observe(later.Add(2*time.Hour+500*time.Millisecond), later, later.Add(time.Second))
	if off := time.Until(c.Now()) - 2*time.Hour; off.Abs() > time.Millisecond {
		t.Errorf("the clock is %v off: it never trusts a slow answer", off)
	}
}
