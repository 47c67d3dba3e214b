package redisstore_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// lostMaster is a cluster without one of its masters, and a fleet that uses the cluster. The
// cluster serves the other partitions, because full coverage is not required.
type lostMaster struct {
	*fleet
	cluster *redistest.Cluster
	url     string
	lost    *redistest.Server
	gone    map[int]bool // partitions of the lost master
	names   int
}

func newLostMaster(t *testing.T) *lostMaster {
	t.Helper()
	l := &lostMaster{cluster: redistest.StartCluster(t, false), gone: map[int]bool{}}
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Second)
	t.Cleanup(cancel)
	prefix := redistest.Prefix()
	client := l.cluster.Client(t)
	for _, s := range l.cluster.Masters {
		if err := s.Client(t).ConfigSet(ctx, "cluster-require-full-coverage", "no").Err(); err != nil {
			t.Fatal(err)
		}
	}
	l.lost = l.cluster.Masters[1]
	for p := range redisstore.DefaultPartitions {
		master, err := client.MasterForKey(ctx, fmt.Sprintf("{%s:%d}:", prefix, p))
		if err != nil {
			t.Fatal(err)
		}
		l.gone[p] = master.Options().Addr == l.lost.Addr
	}
	l.url = with(l.cluster.URL(), "prefix="+prefix+"&read_timeout=1s&dial_timeout=1s")
	l.fleet = newFleet(t, openURL(t, l.url))
	l.ctx = ctx
	return l
}

// caughtOrder is the prefix of the workflow IDs in lost partitions.
const caughtOrder = "caught-"

// start starts a run in a lost partition if lost is set, and in another partition otherwise. A start
// whose answer does not arrive in time is repeated, as by a client: on a busy machine, a master may
// need longer than the timeout.
func (l *lostMaster) start(lost bool) (*workflow.Run[string], error) {
	for {
		l.names++
		name := fmt.Sprintf("order-%d", l.names)
		if lost {
			name = fmt.Sprintf("%s%d", caughtOrder, l.names)
		}
		if l.gone[int(event.SlotOf(name))%redisstore.DefaultPartitions] == lost {
			for {
				run, err := Fulfil.Start(l.ctx, l.client, name, workflow.WithID(name))
				if !store.Unknown(err) || l.ctx.Err() != nil {
					return run, err
				}
			}
		}
	}
}

// complete starts the given number of runs in partitions that are not lost, and waits until they
// complete. together is the number of concurrent runs.
func (l *lostMaster) complete(runs, together int) {
	l.t.Helper()
	var all sync.WaitGroup
	var mu sync.Mutex
	completed, began := 0, time.Now()
	for range together {
		all.Go(func() {
			for range runs / together {
				mu.Lock()
				run, err := l.start(false)
				mu.Unlock()
				if err == nil {
					_, err = run.Result(l.ctx)
				}
				if err != nil {
					l.t.Errorf("a run of a partition that is not lost: %v", err)
					return
				}
				mu.Lock()
				completed++
				mu.Unlock()
			}
		})
	}
	all.Wait()
	l.t.Logf("%d runs of the other partitions completed in %v", completed, time.Since(began).Round(time.Millisecond))
}

// lostMasters contains faults of a master and their remedies. A nil remedy means that the fault is
// permanent.
var lostMasters = map[string]struct {
	harm, heal func(t *testing.T, s *redistest.Server)
}{
	"killed": {func(_ *testing.T, s *redistest.Server) { s.Kill() }, nil},
	"hung": {
		func(t *testing.T, s *redistest.Server) { s.Signal(t, syscall.SIGSTOP) },
		func(t *testing.T, s *redistest.Server) { s.Signal(t, syscall.SIGCONT) },
	},
	"refuses writes": {
		func(t *testing.T, s *redistest.Server) { configure(t, s, "min-replicas-to-write", "1") },
		func(t *testing.T, s *redistest.Server) { configure(t, s, "min-replicas-to-write", "0") },
	},
}

func configure(t *testing.T, s *redistest.Server, name, value string) {
	t.Helper()
	client := redis.NewClient(&redis.Options{Addr: s.Addr})
	defer func() { _ = client.Close() }()
	if err := client.ConfigSet(context.Background(), name, value).Err(); err != nil {
		t.Fatal(err)
	}
}

func TestFleet_TheOtherPartitionsGoOnWhileAMasterIsLost(t *testing.T) {
	for name, h := range lostMasters {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLostMaster(t)
			own := openURL(t, l.url)
			t.Cleanup(func() { _ = own.Close() })
			release := make(chan struct{})
			l.work(own, worker.Config{Heartbeat: time.Second, ClaimExpiry: 20 * time.Second}, func(ctx context.Context, order string) (string, error) {
				if strings.HasPrefix(order, caughtOrder) {
					select { // these steps are in progress when the master is lost
					case <-release:
					case <-ctx.Done():
					}
				}
				return "done", nil
			})
			busy := l.cluster.Masters[0]
			busy.Signal(t, syscall.SIGSTOP) // for longer than the timeout of a request
			time.AfterFunc(1500*time.Millisecond, func() { busy.Signal(t, syscall.SIGCONT) })
			l.complete(40, 8)
			var caught []*workflow.Run[string]
			for range 5 {
				caught = append(caught, must(l.start(true)))
			}
			h.harm(t, l.lost)
			l.complete(80, 8)

			second := openURL(t, l.url) // this store is opened during the outage
			t.Cleanup(func() { _ = second.Close() })
			var executed atomic.Int64
			l.work(second, worker.Config{Heartbeat: time.Second, ClaimExpiry: 20 * time.Second}, func(context.Context, string) (string, error) {
				executed.Add(1)
				return "done", nil
			})
			for executed.Load() == 0 && l.ctx.Err() == nil {
				l.complete(16, 8)
			}

			close(release)
			if h.heal == nil {
				return
			}
			h.heal(t, l.lost)
			for _, run := range caught {
				result(l.fleet, run)
			}
			for range 5 {
				result(l.fleet, must(l.start(true)))
			}
			sound(t, l.store)
		})
	}
}
