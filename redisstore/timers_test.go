package redisstore_test

import (
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var timers = flag.Int("timers", 2_000, "number of timers that TestREC6_TimersAreOnTimeAmongManyOthers sets besides")

// lateBound is what a loaded machine under the race detector keeps, too. The figure of
// a quiet one is in the log of the test.
const lateBound = 2 * time.Second

func TestREC6_TimersAreOnTimeAmongManyOthers(t *testing.T) {
	const naps, nap = 300, 2 * time.Second
	server := redistest.Start(t)
	f := newFleet(t, openURL(t, server.URL()))
	later := make([]workflow.StartRequest[time.Duration], 1000)
	for i := range later {
		later[i] = workflow.StartRequest[time.Duration]{Input: time.Second, Options: []workflow.StartOption{workflow.WithDelay(time.Hour)}}
	}
	for n := 0; n < *timers; n += len(later) {
		for _, started := range must(Sleep.StartMany(f.ctx, f.client, later)) {
			if started.Err != nil {
				t.Fatal(started.Err)
			}
		}
	}
	own, err := redisstore.Open(server.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = own.Close() })
	f.work(own, worker.Config{}, done)
	var runs []*workflow.Run[string]
	for i := range naps {
		runs = append(runs, must(Sleep.Start(f.ctx, f.client, nap+time.Duration(i)*10*time.Millisecond)))
	}
	var late []time.Duration
	for _, run := range runs {
		result(f, run)
		due := map[uint64]time.Time{}
		for e, err := range run.Events(f.ctx) {
			if err != nil {
				t.Fatal(err)
			}
			switch e.Type {
			case event.WaitCreated:
				due[e.Seq] = e.Due
			case event.WaitCompleted:
				late = append(late, e.Time.Sub(due[e.Ref]))
			}
		}
	}
	slices.Sort(late)
	p99 := late[len(late)*99/100]
	t.Logf("%d timers besides: %d fired, late by %v (median), %v (p99), %v (most)", *timers, len(late), late[len(late)/2], p99, late[len(late)-1])
	if len(late) != naps || late[0] < 0 || p99 > lateBound {
		t.Errorf("%d of %d timers fired, between %v and %v after their time", len(late), naps, late[0], late[len(late)-1])
	}
}
