package redisstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

// refusal keeps a server from writing for a while.
type refusal struct {
	settings []string
	harm     func(o *outage, server *redistest.Server)
}

var refusals = map[string]refusal{
	"OOM": {nil, func(o *outage, server *redistest.Server) {
		set(o.t, server, "maxmemory", "1mb")
		o.met(": OOM ")
		set(o.t, server, "maxmemory", "0")
	}},
	"READONLY": {nil, func(o *outage, server *redistest.Server) {
		replicate(o.t, server, "127.0.0.1", "1") // where there is no server
		o.met(": READONLY ")
		replicate(o.t, server, "no", "one")
	}},
	"NOREPLICAS": {nil, func(o *outage, server *redistest.Server) {
		set(o.t, server, "min-replicas-to-write", "1")
		o.met(": NOREPLICAS ")
		set(o.t, server, "min-replicas-to-write", "0")
	}},
	"MISCONF": {[]string{"--save", "3600 1000000"}, func(o *outage, server *redistest.Server) {
		inTheWay := filepath.Join(server.Dir(), "dump.rdb")
		if err := os.Mkdir(inTheWay, 0o700); err != nil { // a file cannot take its place
			o.t.Error(err)
		}
		snapshot(o.t, server, "err")
		o.met(": MISCONF ")
		if err := os.Remove(inTheWay); err != nil {
			o.t.Error(err)
		}
		snapshot(o.t, server, "ok")
	}},
	"LOADING": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, func(o *outage, server *redistest.Server) {
		fill(o.t, server, 2000)
		if err := server.Client(o.t).BgRewriteAOF(o.ctx).Err(); err != nil {
			o.t.Error(err)
		}
		says(o.t, server, "aof_rewrite_in_progress:0")
		server.Kill()
		server.RestartWith(o.t, "--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")
		o.met("the server is still reading its data")
	}},
	"SCRIPT FLUSH": {nil, func(o *outage, server *redistest.Server) {
		for range 5 {
			if err := server.Client(o.t).ScriptFlush(o.ctx).Err(); err != nil {
				o.t.Error(err)
			}
			o.busy()
		}
	}},
	"CLIENT KILL": {nil, func(o *outage, server *redistest.Server) {
		admin := server.Client(o.t)
		eventually(o.t, "a connection is killed while it is used", func() bool {
			for _, kind := range []string{"normal", "pubsub"} {
				if err := admin.Do(o.ctx, "client", "kill", "type", kind).Err(); err != nil {
					o.t.Error(err)
				}
			}
			o.busy()
			return o.has(killed...)
		})
	}},
	"no answer": {nil, func(o *outage, server *redistest.Server) {
		server.Signal(o.t, syscall.SIGSTOP)
		o.met("timeout")
		server.Signal(o.t, syscall.SIGCONT)
	}},
}

// While a server refuses writes nothing is lost, and nothing is done twice: runs
// go on by themselves once it takes them again.
func TestSTORE4_RunsGoOnByThemselvesAfterEachRefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range refusals {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, tt.settings...)
			o := newOutage(t, server.URL())
			o.through(func() { tt.harm(o, server) })
			o.done(true)
		})
	}
}

// replicate is REPLICAOF.
func replicate(t testing.TB, server *redistest.Server, host, port string) {
	t.Helper()
	if err := server.Client(t).ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Error(err)
	}
}

// says waits until INFO says something about persistence.
func says(t testing.TB, server *redistest.Server, what string) {
	t.Helper()
	client := server.Client(t)
	eventually(t, "the server says "+what, func() bool {
		text, err := client.Info(context.Background(), "persistence").Result()
		return err == nil && strings.Contains(text, what)
	})
}

// snapshot has the server save, until that has ended as wanted.
func snapshot(t testing.TB, server *redistest.Server, status string) {
	t.Helper()
	_ = server.Client(t).BgSave(context.Background()) // one may be under way
	says(t, server, "rdb_last_bgsave_status:"+status)
}
