package redisstore_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// killed contains parts of the errors that clients get if the server is killed.
var killed = []string{"EOF", "refused", "reset", "broken pipe"}

// TestSTORE4_RunsGoOnAfterAServerWasKilled proves that runs complete after the server was killed.
// With appendfsync everysec, a kill can lose acknowledged writes: during an fsync, the server
// delays writes to the file by up to two seconds.
func TestSTORE4_RunsGoOnAfterAServerWasKilled(t *testing.T) {
	t.Parallel()
	for policy, lossless := range map[string]bool{"everysec": false, "always": true} {
		t.Run(policy, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--appendonly", "yes", "--appendfsync", policy)
			o := newOutage(t, server.URL())
			o.through(func() {
				server.Kill()
				o.met(killed...)
				server.Restart(t)
			})
			o.done(lossless)
		})
	}
}

// TestSTORE4_RunsGoOnAfterALossOfPowerThatCostTheLastWrites proves that runs complete after a power
// failure. A power failure loses the end of the append-only file, from any byte.
func TestSTORE4_RunsGoOnAfterALossOfPowerThatCostTheLastWrites(t *testing.T) {
	t.Parallel()
	for _, bytes := range []int64{1, 20_000} {
		t.Run(fmt.Sprint(bytes), func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, "--appendonly", "yes")
			o := newOutage(t, server.URL())
			o.through(func() {
				server.Kill()
				o.met(killed...)
				server.LoseTail(t, bytes)
				server.Restart(t)
			})
			o.done(false)
		})
	}
}

func TestSTORE4_RunsGoOnFromTheLastSnapshot(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := newOutage(t, server.URL())
	for range 10 {
		o.begin()
	}
	if err := server.Client(t).Save(o.ctx).Err(); err != nil {
		t.Fatal(err)
	}
	o.through(func() {
		server.Kill()
		o.met(killed...)
		server.Restart(t)
	})
	o.done(false)
}

func TestSTORE4_WorkersGoOnWithAServerThatHasLostEverything(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	o := newOutage(t, server.URL())
	slept := must(Sleep.Start(o.ctx, o.client, time.Hour))
	o.begin()
	o.awaitResult(o.runs[0], "order-0 shipped")
	server.Kill()
	server.Restart(t)
	insist(o, func() (struct{}, error) {
		_, err := slept.Info(o.ctx)
		if errors.Is(err, workflow.ErrRunNotFound) {
			return struct{}{}, nil
		}
		return struct{}{}, fmt.Errorf("a run that the server has lost: got %w, want ErrRunNotFound", err)
	})
	o.done(false)
	o.met("session expired")
	// Without the mark, the server would accept another release or another number of partitions.
	client := server.Client(t)
	eventually(t, "the store is marked again", func() bool {
		return client.Get(context.Background(), "{flowgen:0}:format").Val() == "flowgen 1 16"
	})
}

// pair is a master and its replica. Clients reach the current master through proxy, and the replica
// reaches its master through link.
type pair struct {
	t               *testing.T
	master, replica *redistest.Server
	proxy, link     *redistest.Proxy
}

func newPair(t *testing.T) *pair {
	t.Helper()
	p := &pair{t: t, master: redistest.Start(t, "--repl-diskless-sync-delay", "0")}
	p.link = redistest.NewProxy(t, p.master.Addr)
	p.replica = replicaThrough(t, p.master, p.link.Addr)
	p.proxy = redistest.NewProxy(t, p.master.Addr)
	return p
}

// cut interrupts the replication permanently.
func (p *pair) cut() {
	p.link.Do(func(bool, []byte) redistest.Verdict { return redistest.Drop })
	p.link.Sever()
}

// promote makes the replica a master.
func (p *pair) promote() { replicate(p.t, p.replica, "no", "one") }

func TestSTORE4_RunsLoseNothingWhenAReplicaIsPromotedThatWasWaitedFor(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	spare := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	o := newOutage(t, "redis://"+p.proxy.Addr+"?wait_replicas=1&wait_timeout=500ms")
	o.through(func() {
		p.cut() // from here on, the master confirms no write
		o.met("wait for replicas: 0 of 1")
		p.master.Kill()
		p.promote()
		p.proxy.Redirect(p.replica.Addr)
		host, port, _ := net.SplitHostPort(p.replica.Addr)
		replicate(t, spare, host, port) // provides the replica that WAIT requires
	})
	o.done(true)
}

func TestSTORE4_RunsGoOnAfterAPromotionThatLostWrites(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	o := newOutage(t, "redis://"+p.proxy.Addr)
	o.through(func() {
		p.cut() // from here on, acknowledged writes are lost
		o.busy()
		p.master.Kill()
		p.promote()
		p.proxy.Redirect(p.replica.Addr)
	})
	o.done(false)
	if o.lost == 0 {
		t.Error("no run was lost: the test proves nothing")
	}
}

// TestSTORE4_RunsGoOnAfterTwoMastersWereWrittenTo proves that runs complete after a failover in
// which both masters accepted writes, and the writes to one of them are lost.
func TestSTORE4_RunsGoOnAfterTwoMastersWereWrittenTo(t *testing.T) {
	t.Parallel()
	p := newPair(t)
	o := newOutage(t, "redis://"+p.proxy.Addr)
	o.through(func() {
		p.promote()
		o.busy()
		p.proxy.Redirect(p.replica.Addr)
		o.busy()
		p.proxy.Redirect(p.master.Addr) // the writes to the promoted replica are lost
		o.busy()
	})
	o.done(false)
	if o.lost == 0 {
		t.Error("no run was lost: the test proves nothing")
	}
}

func TestSTORE4_RunsGoOnWhenSentinelPromotesAReplica(t *testing.T) {
	t.Parallel()
	master := redistest.Start(t, "--repl-diskless-sync-delay", "0")
	replica := replicaOf(t, master)
	sentinel := redistest.StartSentinel(t, "main", master)
	eventually(t, "Sentinel knows the replica", func() bool {
		info, err := sentinel.Client(t).Info(context.Background(), "sentinel").Result()
		return err == nil && strings.Contains(info, "slaves=1")
	})
	o := newOutage(t, "redis+sentinel://"+sentinel.Addr+"?master_name=main")
	o.through(func() {
		master.Kill()
		o.met(killed...)
		eventually(t, "the replica is promoted", func() bool {
			info, err := replica.Client(t).Info(context.Background(), "replication").Result()
			return err == nil && strings.Contains(info, "role:master")
		})
	})
	o.done(false)
}

func TestSTORE4_RunsGoOnWhenAClusterPromotesAReplica(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, true)
	o := newOutage(t, cluster.URL())
	o.through(func() {
		cluster.Masters[0].Kill()
		o.met(killed...)
		eventually(t, "the replica is promoted", func() bool {
			info, err := cluster.Replicas[0].Client(t).Info(context.Background(), "replication").Result()
			return err == nil && strings.Contains(info, "role:master")
		})
	})
	o.done(false)
}

// TestWatch_ReturnsIfTheServerHasLostFrames proves that Watch returns if the server has lost frames
// that the caller has read. The run may end with fewer frames than the caller has read.
func TestWatch_ReturnsIfTheServerHasLostFrames(t *testing.T) {
	for name, lose := range map[string]func(header string) string{
		"the log is shorter":        redisstore.HeaderWithFrames(1),
		"the run has ended earlier": redisstore.HeaderInState(store.StateEnded),
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.Start(t)
			f := newFleet(t, openURL(t, with(server.URL(), "partitions=1")))
			stop := f.work(f.store, worker.Config{}, done)
			run := must(Sleep.Start(f.ctx, f.client, time.Hour))
			eventually(t, "it sleeps", func() bool { return must(run.Info(f.ctx)).Status == workflow.StatusSleeping })
			stop()
			ended := make(chan error, 1)
			go func() { ended <- f.store.Watch(f.ctx, run.ID(), 2) }()
			admin, meta := server.Client(t), "{flowgen:0}1m:"+string(run.ID())[5:]
			eventually(t, "somebody watches", func() bool { return admin.HExists(f.ctx, meta, "y").Val() })
			if err := admin.HSet(f.ctx, meta, "H", lose(admin.HGet(f.ctx, meta, "H").Val())).Err(); err != nil {
				t.Fatal(err)
			}
			// A failover closes the connection, and Watch then rechecks the run.
			if err := admin.Do(f.ctx, "client", "kill", "type", "pubsub").Err(); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Errorf("watch: %v", err)
			}
		})
	}
}
