package redisstore_test

import (
	"flag"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var timers = flag.Int("timers", 2_000, "number of timers that TestREC6_TimersAreOnTimeAmongManyOthers sets besides")

// lateBound is the maximum delay of timers (99th percentile) on an idle system.
const lateBound = 50 * time.Millisecond

// hops is the maximum number of scheduling delays and round trips between the due time of a timer
// and the event that records it. The wake, the claim, the load and the commit each involve two
// processes.
const hops = 10

// punctual measures the delay of the machine at the given times, with an alarm of this process and
// one round trip to the server. The delay is close to zero on an idle machine. Timers of the store
// cannot be more punctual than that.
func punctual(t *testing.T, server *redis.Client, times []time.Time) (wait func() time.Duration) {
	t.Helper()
	late := make([]time.Duration, len(times))
	var alarms sync.WaitGroup
	for i, at := range times {
		alarms.Go(func() {
			<-time.After(time.Until(at))
			if err := server.Ping(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			late[i] = time.Since(at)
		})
	}
	return func() time.Duration {
		alarms.Wait()
		slices.Sort(late)
		return late[len(late)*99/100]
	}
}

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
	var times []time.Time
	for i := range naps {
		d := nap + time.Duration(i)*10*time.Millisecond
		runs = append(runs, must(Sleep.Start(f.ctx, f.client, d)))
		times = append(times, time.Now().Add(d))
	}
	machine := punctual(t, server.Client(t), times)
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
	own99 := machine()
	t.Logf("%d timers besides: %d fired, late by %v (median), %v (p99), %v (most); the machine itself by %v (p99)",
		*timers, len(late), late[len(late)/2], p99, late[len(late)-1], own99)
	if len(late) != naps || late[0] < 0 || p99 > lateBound+hops*own99 {
		t.Errorf("%d of %d timers fired, between %v and %v after their time, p99 %v, want at most %v and %d times the %v by which the machine itself is late",
			len(late), naps, late[0], late[len(late)-1], p99, lateBound, hops, own99)
	}
}
