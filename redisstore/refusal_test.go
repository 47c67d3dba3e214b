package redisstore_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

// While a server refuses writes nothing is lost, and nothing is done twice: runs
// go on by themselves once it takes them again.
func TestSTORE4_RunsGoOnByThemselvesAfterEachRefusal(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		settings []string
		harm     func(t *testing.T, server *redistest.Server)
		met      string
	}{
		"OOM": {nil, func(t *testing.T, server *redistest.Server) {
			set(t, server, "maxmemory", "1mb")
			pause(300 * time.Millisecond)
			set(t, server, "maxmemory", "0")
		}, ": OOM "},
		"READONLY": {nil, func(t *testing.T, server *redistest.Server) {
			demote(t, server, "127.0.0.1", "1") // where there is no server
			pause(300 * time.Millisecond)
			demote(t, server, "no", "one")
		}, ": READONLY "},
		"NOREPLICAS": {nil, func(t *testing.T, server *redistest.Server) {
			set(t, server, "min-replicas-to-write", "1")
			pause(300 * time.Millisecond)
			set(t, server, "min-replicas-to-write", "0")
		}, ": NOREPLICAS "},
		"MISCONF": {[]string{"--save", "3600 1000000"}, func(t *testing.T, server *redistest.Server) {
			inTheWay := filepath.Join(server.Dir(), "dump.rdb")
			if err := os.Mkdir(inTheWay, 0o700); err != nil { // a file cannot take its place
				t.Error(err)
			}
			snapshot(t, server, "err")
			pause(300 * time.Millisecond)
			if err := os.Remove(inTheWay); err != nil {
				t.Error(err)
			}
			snapshot(t, server, "ok")
		}, ": MISCONF "},
		"LOADING": {[]string{"--appendonly", "yes"}, func(t *testing.T, server *redistest.Server) {
			fill(t, server, 2000)
			if err := server.Client(t).BgRewriteAOF(t.Context()).Err(); err != nil {
				t.Error(err)
			}
			says(t, server, "aof_rewrite_in_progress:0")
			server.Kill()
			server.RestartWith(t, "--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")
			says(t, server, "\nloading:0")
		}, "the server is still reading its data"},
		"SCRIPT FLUSH": {nil, func(t *testing.T, server *redistest.Server) {
			for range 50 {
				if err := server.Client(t).ScriptFlush(t.Context()).Err(); err != nil {
					t.Error(err)
				}
				pause(5 * time.Millisecond)
			}
		}, ""},
		"CLIENT KILL": {nil, func(t *testing.T, server *redistest.Server) {
			for range 30 {
				for _, kind := range []string{"normal", "pubsub"} {
					if err := server.Client(t).Do(t.Context(), "client", "kill", "type", kind).Err(); err != nil {
						t.Error(err)
					}
				}
				pause(5 * time.Millisecond)
			}
		}, "EOF"},
		"no answer": {nil, func(t *testing.T, server *redistest.Server) {
			server.Signal(t, syscall.SIGSTOP)
			pause(2300 * time.Millisecond) // longer than clients wait for an answer
			server.Signal(t, syscall.SIGCONT)
		}, "timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, tt.settings...)
			o := newOutage(t, server.URL())
			o.through(func() { tt.harm(t, server) })
			o.done(true)
			o.met(tt.met)
		})
	}
}

// demote is REPLICAOF.
func demote(t testing.TB, server *redistest.Server, host, port string) {
	t.Helper()
	if err := server.Client(t).SlaveOf(context.Background(), host, port).Err(); err != nil {
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
