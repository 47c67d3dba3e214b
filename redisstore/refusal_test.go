package redisstore_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// refusal is a fault that makes a server refuse writes temporarily.
type refusal struct {
	settings []string
	harm     func(o *outage, server *redistest.Server)
}

// denials are the states of a server in which it refuses writes with an error of the given kind, and
// executes reads.
var denials = map[string]struct {
	settings     []string
	deny, permit func(t testing.TB, server *redistest.Server)
}{
	"OOM": {
		deny:   func(t testing.TB, server *redistest.Server) { set(t, server, "maxmemory", "1mb") },
		permit: func(t testing.TB, server *redistest.Server) { set(t, server, "maxmemory", "0") },
	},
	"READONLY": {
		deny:   func(t testing.TB, server *redistest.Server) { replicate(t, server, "127.0.0.1", "1") }, // no server listens at this address
		permit: func(t testing.TB, server *redistest.Server) { replicate(t, server, "no", "one") },
	},
	"NOREPLICAS": {
		deny:   func(t testing.TB, server *redistest.Server) { set(t, server, "min-replicas-to-write", "1") },
		permit: func(t testing.TB, server *redistest.Server) { set(t, server, "min-replicas-to-write", "0") },
	},
	"MISCONF": {
		settings: []string{"--save", "3600 1000000"},
		deny: func(t testing.TB, server *redistest.Server) {
			if err := os.Mkdir(filepath.Join(server.Dir(), "dump.rdb"), 0o700); err != nil { // the server cannot replace a directory by its file
				t.Error(err)
			}
			snapshot(t, server, "err")
		},
		permit: func(t testing.TB, server *redistest.Server) {
			if err := os.Remove(filepath.Join(server.Dir(), "dump.rdb")); err != nil {
				t.Error(err)
			}
			snapshot(t, server, "ok")
		},
	},
}

// denied returns the fault that the server refuses writes with an error of the given kind.
func denied(kind string) refusal {
	d := denials[kind]
	return refusal{d.settings, func(o *outage, server *redistest.Server) {
		d.deny(o.t, server)
		o.met(": " + kind + " ")
		d.permit(o.t, server)
	}}
}

var refusals = map[string]refusal{
	"OOM":        denied("OOM"),
	"READONLY":   denied("READONLY"),
	"NOREPLICAS": denied("NOREPLICAS"),
	"MISCONF":    denied("MISCONF"),
	"LOADING": {[]string{"--appendonly", "yes", "--appendfsync", "always"}, func(o *outage, server *redistest.Server) {
		fill(o.t, server, 2000)
		if err := server.Client(o.t).BgRewriteAOF(o.ctx).Err(); err != nil {
			o.t.Error(err)
		}
		says(o.t, server, "aof_rewrite_in_progress:0")
		server.Kill()
		server.RestartWith(o.t, "--key-load-delay", "300", "--loading-process-events-interval-bytes", "1024")
		o.met("the server is still loading its data")
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

// TestSTORE4_RunsGoOnByThemselvesAfterEachRefusal proves that nothing is lost or executed twice if
// a server refuses writes temporarily, and that runs continue when the server accepts writes.
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

// TestSTORE4_ABatchThatTheServerRefusesWritesNothing proves that each operation of a batch gets the
// error of a server that refuses writes, that the batch writes nothing, and that it can be repeated
// when the server accepts writes.
func TestSTORE4_ABatchThatTheServerRefusesWritesNothing(t *testing.T) {
	t.Parallel()
	for kind, d := range denials {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			server := redistest.Start(t, d.settings...)
			st := openURL(t, server.URL())
			defer st.Close()
			st.BatchEverything()
			w := newWriter(t, st, st, 8)
			w.write(2, 1)
			commits := make([]store.Commit, len(w.runs))
			for i, r := range w.runs {
				commits[i] = r.log.Commit(r.fence, r.log.Work()...)
				if i%2 == 0 {
					commits[i] = r.log.Commit(r.fence, r.log.End(event.StatusCompleted)...)
					commits[i].Effect, commits[i].Status = store.EffectFinish, event.StatusCompleted
				}
			}
			l := w.log()
			creates := []store.Create{l.Create(), w.log().Create()}
			creates[0].Owner = &store.Owner{Session: w.by[int(l.Run.Slot())%len(w.by)], Token: event.NewToken()}
			before := must(st.Inspect(w.ctx))
			d.deny(t, server)
			committed, failed := st.Commit(w.ctx, commits)
			refusedWith(t, kind, "commit", failed, len(commits), func(i int) error { return committed[i].Err })
			created, failed := st.Create(w.ctx, creates)
			refusedWith(t, kind, "create", failed, len(creates), func(i int) error { return created[i].Err })
			d.permit(t, server)
			after := must(st.Inspect(w.ctx))
			before.Now = after.Now
			if diff := cmp.Diff(before, after, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("the refused batches have changed something (-before +after):\n%s", diff)
			}
			w.settle(w.runs, commits, func() ([]store.Committed, error) { return st.Commit(w.ctx, commits) })
			for i, a := range must(st.Create(w.ctx, creates)) {
				if a.Err != nil || !a.New {
					t.Errorf("create %d again: got %+v, want a new run", i, a)
				}
			}
			w.verify(st)
		})
	}
}

// refusedWith fails the test unless each of n requests of a call has failed with the given kind of
// error. A call returns an error of its own if it has answered none of its requests.
func refusedWith(t *testing.T, kind, what string, failed error, n int, failure func(i int) error) {
	t.Helper()
	for i := range n {
		err := failed
		if failed == nil {
			err = failure(i)
		}
		if err == nil || !strings.Contains(err.Error(), ": "+kind+" ") || !store.Unknown(err) {
			t.Errorf("%s %d: got error %v, want %s, with which the request can be repeated", what, i, err, kind)
		}
	}
}

// TestSTORE4_AClaimSaysWhyTheServerHasRefusedIt proves that the error of a claim contains the
// reason of the server. A claim skips a run that causes an error, but an error of the server must
// end the claim.
func TestSTORE4_AClaimSaysWhyTheServerHasRefusedIt(t *testing.T) {
	for setting, want := range map[string]string{"maxmemory": "memory limit", "min-replicas-to-write": "replicas"} {
		l := newLimitedRuns(t, 0)
		l.create(2)
		claim := store.Claim{Session: l.session, Token: event.NewToken(), Routes: []store.Route{l.route}, Max: 2}
		if err := l.server.ConfigSet(t.Context(), setting, "1").Err(); err != nil {
			t.Fatal(err)
		}
		if _, err := l.st.Claim(t.Context(), claim); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("with %s a claim says %v, want the reason", setting, err)
		}
		if err := l.server.ConfigSet(t.Context(), setting, "0").Err(); err != nil {
			t.Fatal(err)
		}
		if got, err := l.st.Claim(t.Context(), claim); err != nil || len(got.Runs) != 2 {
			t.Errorf("without %s a claim is given %d runs, %v, want 2", setting, len(got.Runs), err)
		}
	}
}

// TestREC10_AClaimThatHasRoomLeavesOutARunWhoseMetadataIsGone proves that a claim with local limits
// skips a run that cannot be read, as a claim without local limits does.
func TestREC10_AClaimThatHasRoomLeavesOutARunWhoseMetadataIsGone(t *testing.T) {
	for what, harm := range map[string]func(l *limitedRuns, key string) error{
		"lost": func(l *limitedRuns, key string) error { return l.server.Del(l.t.Context(), key).Err() },
		"overwritten": func(l *limitedRuns, key string) error {
			return errors.Join(l.server.Del(l.t.Context(), key).Err(), l.server.Set(l.t.Context(), key, "x", 0).Err())
		},
	} {
		t.Run(what, func(t *testing.T) {
			l := newLimitedRuns(t, 0)
			l.create(1)
			if err := harm(l, must(l.server.Keys(t.Context(), "*}1m:*").Result())[0]); err != nil {
				t.Fatal(err)
			}
			l.create(1)
			got, err := l.st.Claim(t.Context(), store.Claim{
				Session: l.session, Token: event.NewToken(), Routes: []store.Route{l.route}, Max: 2, FreeCapacity: []store.FreeCapacity{{Limit: "own", Free: 1, Most: 1}},
			})
			if err != nil || len(got.Runs) != 1 || got.Runs[0].Run != l.created {
				t.Errorf("a claim is given %+v, %v, want the run that can be read", got.Runs, err)
			}
		})
	}
}

// replicate sends the command REPLICAOF.
func replicate(t testing.TB, server *redistest.Server, host, port string) {
	t.Helper()
	if err := server.Client(t).ReplicaOf(context.Background(), host, port).Err(); err != nil {
		t.Error(err)
	}
}

// says waits until the answer to INFO persistence contains what.
func says(t testing.TB, server *redistest.Server, what string) {
	t.Helper()
	client := server.Client(t)
	eventually(t, "the server says "+what, func() bool {
		text, err := client.Info(context.Background(), "persistence").Result()
		return err == nil && strings.Contains(text, what)
	})
}

// snapshot starts saves until a save ends with the given status.
func snapshot(t testing.TB, server *redistest.Server, status string) {
	t.Helper()
	_ = server.Client(t).BgSave(context.Background()) // fails if another save is in progress
	says(t, server, "rdb_last_bgsave_status:"+status)
}
