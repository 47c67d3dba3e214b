package worker

import (
	"testing"
	"testing/synctest"
	"time"
)

// stuck is a run whose code blocks.
type stuck struct{ free chan struct{} }

func (s stuck) execute(e *executor) {
	e.enter()
	<-s.free
	e.leave()
}

func (s stuck) shown() *inputs { return nil }

// passing is a run that sends the time at which it is executed.
type passing struct{ at chan time.Time }

func (p passing) execute(*executor) { p.at <- time.Now() }

func (p passing) shown() *inputs { return nil }

// waitsBehind returns how long a run waits for an executor behind runs whose code blocks. The
// parameter blocked is the number of these runs. Their code began the duration after later than a
// check of the watchdog.
func waitsBehind(t *testing.T, executing, blocked int, after, blockedAfter time.Duration) (took time.Duration) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		all := &executors{ready: newQueue[runnable]()}
		for range executing {
			all.start()
		}
		w := newWatchdog(&env{cfg: Config{BlockedAfter: blockedAfter}}, all, newSlots(1))
		go w.run()
		time.Sleep(after)
		free, last, begun := make(chan struct{}), passing{make(chan time.Time, 1)}, time.Now()
		for range blocked {
			all.ready.push(stuck{free})
		}
		all.ready.push(last)
		took = (<-last.at).Sub(begun)
		close(free)
		w.stop()
		all.ready.close()
	})
	return took
}

// TestREC11_BlockedCodeDelaysOthersByAsMuchAsIsStated proves the bound stated in
// docs/use/workers.md. With p executors, n runs whose code blocks delay another run by n/p times 50
// ms, plus the interval of the checks, 25 ms. Beyond 256 runs the delay is BlockedAfter.
func TestREC11_BlockedCodeDelaysOthersByAsMuchAsIsStated(t *testing.T) {
	const blockedAfter = 5 * time.Second
	for blocked, rounds := range map[int]int{3: 0, 4: 1, 8: 2, 40: 10, 256: 64} {
		for _, after := range []time.Duration{0, time.Millisecond, 24 * time.Millisecond} {
			took := waitsBehind(t, 4, blocked, after, blockedAfter)
			if least, most := time.Duration(rounds)*spareAfter, time.Duration(rounds)*spareAfter*3/2; took < least || took > most {
				t.Errorf("behind %d blocked runs on 4 executors: waited %v, want from %v to %v", blocked, took, least, most)
			}
		}
	}
	if took := waitsBehind(t, 4, 256+4, time.Millisecond, blockedAfter); took < blockedAfter || took > blockedAfter+75*time.Millisecond {
		t.Errorf("behind more than %d: waited %v, want BlockedAfter, %v", mostSpare, took, blockedAfter)
	}
}
