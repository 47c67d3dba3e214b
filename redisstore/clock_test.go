package redisstore

import (
	"testing"
	"time"
)

// machine simulates the wall clock and the monotonic clock of a process.
type machine struct {
	wall    time.Time
	elapsed time.Duration
}

func (m *machine) clock() *serverClock {
	return &serverClock{wall: func() time.Time { return m.wall }, elapsed: func() time.Duration { return m.elapsed }}
}

// pass advances both clocks by d.
func (m *machine) pass(d time.Duration) { m.wall, m.elapsed = m.wall.Add(d), m.elapsed+d }

var epoch = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func shows(t *testing.T, c *serverClock, want time.Time, when string) {
	t.Helper()
	if off := c.Now().Sub(want); off.Abs() > time.Millisecond {
		t.Errorf("%s: the clock shows %v, want %v (%v off)", when, c.Now(), want, off)
	}
}

func TestClock_ShowsTheTimeOfTheServer(t *testing.T) {
	m := &machine{wall: epoch}
	c := m.clock()
	shows(t, c, epoch, "before the first answer")
	server := epoch.Add(time.Hour)
	m.pass(2 * time.Millisecond)
	c.observe(server.Add(time.Millisecond), 0, m.elapsed)
	shows(t, c, server.Add(2*time.Millisecond), "after the first answer")

	m.pass(time.Second) // an answer that takes a second is too imprecise to replace the estimate
	c.observe(epoch, m.elapsed-time.Second, m.elapsed)
	shows(t, c, server.Add(1002*time.Millisecond), "after a slow answer")

	m.pass(3 * clockAge)
	server = m.wall.Add(2 * time.Hour)
	c.observe(server.Add(-500*time.Millisecond), m.elapsed-time.Second, m.elapsed)
	shows(t, c, server, "after a slow answer, when the last one is old")
}

// TestClock_AStepOfTheMachinesClockMovesNoTimer proves that the store keeps the time of the server
// if the wall clock of the machine changes by an hour.
func TestClock_AStepOfTheMachinesClockMovesNoTimer(t *testing.T) {
	for _, step := range []time.Duration{time.Hour, -time.Hour} {
		m := &machine{wall: epoch}
		c := m.clock()
		c.observe(epoch, 0, 0)
		m.wall = m.wall.Add(step)
		m.pass(10 * time.Second)
		shows(t, c, epoch.Add(10*time.Second), "after the step")
		if !c.old() {
			t.Error("the clocks of the machine differ, and the server is not asked")
		}
		c.observe(epoch.Add(10*time.Second), m.elapsed, m.elapsed)
		shows(t, c, epoch.Add(10*time.Second), "compared after the step")
		if c.old() {
			t.Error("the server is asked again, though nothing has happened since")
		}
		m.pass(clockAge + time.Second)
		shows(t, c, epoch.Add(41*time.Second), "later")
		if !c.old() {
			t.Error("the clock is never compared again")
		}
	}
}

// TestClock_AMachineThatHasSleptAsksTheServer proves that the store reads the time of the server
// after a suspend, in which the monotonic clock of a machine may stop.
func TestClock_AMachineThatHasSleptAsksTheServer(t *testing.T) {
	m := &machine{wall: epoch}
	c := m.clock()
	c.observe(epoch, 0, 0)
	m.wall = m.wall.Add(time.Hour)
	if !c.old() {
		t.Fatal("the server is not asked")
	}
	m.pass(time.Second) // the server answers after a second
	c.observe(m.wall.Add(-500*time.Millisecond), 0, m.elapsed)
	shows(t, c, m.wall, "after it was asked")
}
