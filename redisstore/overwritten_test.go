package redisstore_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/store/storetest"
	"github.com/flowgen/flowgen/runtime/worker"
	"github.com/flowgen/flowgen/runtime/workflow"
)

var (
	napper = shim.NewWorkflow[string, string]("overwritten.napper", "in", shim.WorkflowPolicy{})
	parent = shim.NewWorkflow[string, string]("overwritten.parent", "in", shim.WorkflowPolicy{})
	child  = shim.NewWorkflow[string, string]("overwritten.child", "in", shim.WorkflowPolicy{})
)

// noted is the output of a logger that can be read while it is written.
type noted struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *noted) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(b)
}

// aside matches lines that depend on the speed of the machine. For example, a heartbeat may arrive
// before the answer to a claim.
var aside = regexp.MustCompile(`level=INFO|msg="the store is not set up|msg="releasing a run that was claimed without an answer`)

// with returns the log lines of level Warn and above that contain text.
func (l *noted) with(text string) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []string
	for line := range strings.Lines(l.text.String()) {
		if strings.Contains(line, text) && !aside.MatchString(line) {
			all = append(all, line)
		}
	}
	return all
}

// scene is a store with one partition and 21 runs, one of which is the victim.
type scene struct {
	*fleet
	root   redis.UniversalClient
	prefix string
	log    *noted
	runs   []*workflow.Run[string] // the first run is the victim

}

func (s *scene) tag() string   { return "{" + s.prefix + ":0}1" }
func (s *scene) short() string { return strings.TrimPrefix(string(s.runs[0].ID()), "wrun_") }

// staff starts a worker and returns a function that stops it.
func (s *scene) staff(st store.Store) (stop func()) {
	s.t.Helper()
	client := workflow.NewClient(st, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(s.log, nil))})
	w := worker.New(client, worker.Config{Heartbeat: 50 * time.Millisecond, ClaimExpiry: time.Second, NoLocalStart: true})
	reserve.Bind(w, done)
	shim.BindWorkflow(w, napper, func(ctx workflow.Context, in string) (string, error) {
		if err := workflow.Sleep(ctx, 300*time.Millisecond); err != nil {
			return "", err
		}
		return call(ctx, reserve, in)
	})
	shim.BindWorkflow(w, parent, func(ctx workflow.Context, in string) (string, error) { return child.Child(ctx, in) })
	shim.BindWorkflow(w, child, func(ctx workflow.Context, in string) (string, error) { return call(ctx, reserve, in) })
	ctx, cancel := context.WithCancel(s.ctx)
	worked := make(chan error, 1)
	go func() { worked <- w.Run(ctx) }()
	var once sync.Once
	stop = func() {
		once.Do(func() {
			cancel()
			if err := errors.Join(<-worked, client.Close()); err != nil {
				s.t.Errorf("worker: %v", err)
			}
		})
	}
	s.t.Cleanup(stop)
	return stop
}

// fallAsleep waits until all runs have begun to sleep, and makes a run that is still asleep the
// victim. On a busy machine, some runs complete before the last run begins to sleep.
func (s *scene) fallAsleep() {
	s.t.Helper()
	stop := s.staff(s.store)
	s.until("all sleep, or have slept", func() bool {
		for _, r := range s.runs {
			if info, err := r.Info(s.ctx); err != nil || info.Events < 2 {
				return false
			}
		}
		return true
	})
	stop()
	asleep := slices.IndexFunc(s.runs, func(r *workflow.Run[string]) bool {
		info, err := r.Info(s.ctx)
		return err == nil && info.EndedAt.IsZero()
	})
	if asleep < 0 {
		s.runs = append(s.runs, must(napper.Start(s.ctx, s.client, "again")))
		s.runs[0], s.runs[len(s.runs)-1] = s.runs[len(s.runs)-1], s.runs[0]
		s.fallAsleep()
		return
	}
	s.runs[0], s.runs[asleep] = s.runs[asleep], s.runs[0]
}

// completes waits until a run has completed. If the test times out, it reports the state of the run
// and the log.
func (s *scene) completes(which string, r *workflow.Run[string]) {
	s.t.Helper()
	got, err := r.Result(s.ctx)
	if err != nil {
		info, unread := r.Info(context.Background())
		s.t.Fatalf("%s: %v\n%+v, %v\n%s", which, err, info, unread, strings.Join(s.log.with(""), ""))
	}
	if got != "done" {
		s.t.Errorf("%s: got %q", which, got)
	}
}

// until waits until done returns true.
func (s *scene) until(what string, done func() bool) {
	s.t.Helper()
	for !done() {
		select {
		case <-s.ctx.Done():
			s.t.Fatalf("waited in vain until %s\n%s", what, strings.Join(s.log.with(""), ""))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// scenes contains the states of the runs when a key is overwritten, with the letters of the keys
// that exist in each state.
var scenes = map[string]struct {
	keys    string
	met     string // letters of the keys that an operation accesses
	fairKey workflow.Definition[string, string]
	setUp   func(s *scene)
}{
	"ready":  {"mlisnjxgOBS", "ml", napper, func(*scene) {}},
	"asleep": {"mlisnjxgOBS", "mli", napper, (*scene).fallAsleep},
	"owned by a worker that died": {"mlisnjxgOBS", "mlj", napper, func(s *scene) {
		route := store.Route{Queue: workflow.DefaultQueue, Workflow: "overwritten.napper"}
		dead := store.Session{ID: "dead", Worker: "dead", TTL: 200 * time.Millisecond, Routes: []store.Route{route}}
		if err := s.store.OpenSession(s.ctx, dead); err != nil {
			s.t.Fatal(err)
		}
		got, err := s.store.Claim(s.ctx, store.Claim{Session: "dead", Token: event.NewToken(), Routes: dead.Routes, Max: 100})
		if err != nil || len(got.Runs) != len(s.runs) {
			s.t.Fatalf("claimed %d runs: %v", len(got.Runs), err)
		}
	}},
	"with a record in the outbox": {"mOB", "mOB", parent, func(s *scene) {
		stop := s.staff(storetest.Mute{Store: s.store})
		s.until("all have sent a record", func() bool {
			return s.root.ZCard(s.ctx, s.tag()+"D").Val() == int64(len(s.runs))
		})
		stop()
	}},
}

// TestREC10_AnOverwrittenKeyOfOneRunKeepsNoOther proves that all other runs complete if a key of
// one run is overwritten with a value of another type. The damage is reported once, and a repair
// corrects it.
func TestREC10_AnOverwrittenKeyOfOneRunKeepsNoOther(t *testing.T) {
	for name, sc := range scenes {
		for _, letter := range sc.keys {
			t.Run(fmt.Sprintf("%s/%c", name, letter), func(t *testing.T) {
				t.Parallel()
				server, prefix := redistest.Shared(t), redistest.Prefix()
				s := &scene{fleet: newFleet(t, openURL(t, with(server.URL(), "partitions=1&prefix="+prefix))), root: server.Client(t), prefix: prefix, log: &noted{}}
				for n := range 21 {
					s.runs = append(s.runs, must(sc.fairKey.Start(s.ctx, s.client, fmt.Sprint(n))))
				}
				sc.setUp(s)
				key := s.tag() + string(letter) + ":" + s.short()
				overwrite(s, key)
				stop := s.staff(s.store)
				for _, r := range s.runs[1:] {
					s.completes("an innocent run", r)
				}
				s.told(key, strings.ContainsRune(sc.met, letter))
				s.repaired(key, letter == 'l', stop)
			})
		}
	}
}

// TestREC10_ADamagedRunIsLeftOutOfLists proves that lists and counts omit a run that cannot be
// read, and that one log line reports the run.
func TestREC10_ADamagedRunIsLeftOutOfLists(t *testing.T) {
	for name, damage := range map[string]struct {
		naming string // text that the log line must contain
		do     func(s *scene, tag, run string)
	}{
		"its metadata is overwritten": {"m:", func(s *scene, tag, run string) { overwrite(s, tag+"m:"+run) }},
		"its tags are overwritten":    {"x:", func(s *scene, tag, run string) { overwrite(s, tag+"x:"+run) }},
		"its tags are lost":           {"wrun_", func(s *scene, tag, run string) { s.root.Del(s.ctx, tag+"x:"+run) }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, prefix := redistest.Shared(t), redistest.Prefix()
			s := &scene{fleet: newFleet(t, openURL(t, with(server.URL(), "partitions=1&prefix="+prefix))), root: server.Client(t), prefix: prefix, log: &noted{}}
			client := workflow.NewClient(s.store, workflow.ClientConfig{Logger: slog.New(slog.NewTextHandler(s.log, nil))})
			for n := range 5 {
				s.runs = append(s.runs, must(napper.Start(s.ctx, client, fmt.Sprint(n), workflow.WithTags(map[string]string{"long": strings.Repeat("x", 500)}))))
			}
			damage.do(s, s.tag(), s.short())
			counted := 4
			if name == "its tags are overwritten" || name == "its tags are lost" {
				counted = 5 // a count needs only the route and the status
			}
			for range 2 {
				var got []event.RunID
				for info, err := range client.List(s.ctx, workflow.Filter{}) {
					if err != nil {
						t.Fatal(err)
					}
					got = append(got, info.ID)
				}
				var want []event.RunID
				for _, r := range s.runs[1:] {
					want = append(want, r.ID())
				}
				slices.Sort(got)
				slices.Sort(want)
				if !slices.Equal(got, want) {
					t.Errorf("listed %q, want %q", got, want)
				}
				counts, err := client.Count(s.ctx, workflow.Filter{})
				if err != nil || counts.Total() != counted || counts.ByStatus()[workflow.StatusPending] != counted {
					t.Errorf("counted %v, %v, want %d pending", counts, err, counted)
				}
			}
			if all := s.log.with(""); len(all) != 1 || !strings.Contains(all[0], damage.naming+s.short()) {
				t.Errorf("want one line that names %s%s:\n%s", damage.naming, s.short(), strings.Join(all, ""))
			}
		})
	}
}

// overwrite replaces a key by a value of another type.
func overwrite(s *scene, key string) {
	s.t.Helper()
	other := []any{"set", key, "x"}
	if wrongType(key) == "list" {
		other = []any{"rpush", key, "x"}
	}
	_, err := s.root.TxPipelined(s.ctx, func(tx redis.Pipeliner) error { // in a transaction, because a worker could write between the two commands
		tx.Do(s.ctx, "del", key)
		tx.Do(s.ctx, other...)
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
}

// wrongType returns the type that overwrite uses for a key.
func wrongType(key string) string {
	_, name, _ := strings.Cut(key, "}1")
	if name == "c" || strings.HasPrefix(name, "x:") {
		return "list" // the correct type of these keys is string
	}
	return "string"
}

// told checks that exactly one log line reports the damaged key if an operation has accessed it,
// and that the line contains the fix. A record that waits for a damaged receiver is reported
// repeatedly, at increasing intervals.
func (s *scene) told(key string, met bool) {
	s.t.Helper()
	var naming []string
	s.until("the damage is told", func() bool {
		naming = s.log.with(key)
		return !met || len(naming) > 0
	})
	for i, line := range naming {
		if !strings.Contains(line, "another program has overwritten it") || !strings.Contains(line, "package fsck") || i > 0 && !strings.Contains(line, "a record of the outbox") {
			s.t.Errorf("line %d of key %s: %s", i, key, line)
		}
	}
	if all := s.log.with(""); len(all) > len(naming) || len(all) > 5 {
		s.t.Errorf("%d lines, %d of them name key %s:\n%s", len(all), len(naming), key, strings.Join(all, ""))
	}
}

// repaired repairs the store and waits until the victim completes. If the log of the victim is
// lost, it checks the result of the repair only.
func (s *scene) repaired(key string, lost bool, stop func()) {
	s.t.Helper()
	report, err := fsck.Repair(s.ctx, s.store, fsck.Options{})
	if err != nil {
		s.t.Fatal(err)
	}
	if is := s.root.Type(s.ctx, key).Val(); is == wrongType(key) {
		s.t.Errorf("the repair has left key %s, which is a %s: %+v", key, is, report)
	}
	stop() // the next worker with the same build may try a blocked run only after the session of this worker has ended
	if lost {
		return
	}
	s.staff(s.store)
	s.completes("the victim", s.runs[0])
	if report, err = fsck.Repair(s.ctx, s.store, fsck.Options{}); err != nil || len(report.Remaining) > 0 {
		s.t.Errorf("after the repair: %+v, %v", report.Remaining, err)
	}
}

// TestREC10_AnOverwrittenKeyOfAPartitionKeepsNoOther proves that the other partitions continue if a
// key of one partition is overwritten while a worker executes runs. A worker that starts afterwards
// also continues. The log names the key, and a repair corrects it.
func TestREC10_AnOverwrittenKeyOfAPartitionKeepsNoOther(t *testing.T) {
	for _, name := range []string{"t", "e", "A", "w", "k", "u", "v", "p:", "f:", "d", "G", "D", "h", "T", "c", "r:", "b:", "z:", "o:", "a:"} {
		t.Run(strings.TrimSuffix(name, ":"), func(t *testing.T) {
			t.Parallel()
			server, prefix := redistest.Shared(t), redistest.Prefix()
			s := &scene{fleet: newFleet(t, openURL(t, with(server.URL(), "partitions=3&prefix="+prefix))), root: server.Client(t), prefix: prefix, log: &noted{}}
			first := s.staff(s.store)
			s.start(3)
			var key string
			s.until("there is such a key", func() bool {
				key = s.keyOf(name)
				return key != ""
			})
			overwrite(s, key)
			stop := s.staff(s.store)
			s.start(1)
			for _, r := range s.runs {
				if int(r.ID().Slot())%3 == 1 {
					continue
				}
				if got := result(s.fleet, r); got != "done" {
					t.Errorf("a run of another partition: got %q", got)
				}
			}
			s.until("the damage is told", func() bool {
				return slices.Contains([]string{"G", "T", "h", "k", "f:"}, name) || len(s.log.with(key)) > 0
			})
			if all := s.log.with(""); len(all) > 40 {
				t.Errorf("%d lines:\n%s", len(all), strings.Join(all[:40], ""))
			}
			t.Logf("%d lines, %d name the key", len(s.log.with("")), len(s.log.with(key)))
			if _, err := fsck.Repair(s.ctx, s.store, fsck.Options{}); err != nil {
				t.Fatal(err)
			}
			for _, r := range s.runs {
				if got := result(s.fleet, r); got != "done" {
					t.Errorf("after the repair: got %q", got)
				}
			}
			first()
			stop()
		})
	}
}

// start starts runs in all three partitions except partition but.
func (s *scene) start(but int) {
	for n := range 30 {
		if id := fmt.Sprintf("%d-%d", len(s.runs), n); int(event.SlotOf(id))%3 != but {
			s.runs = append(s.runs, must(napper.Start(s.ctx, s.client, id, workflow.WithID(id))))
		}
	}
}

// keyOf returns the key of partition 1 with the given name. The key may belong to a route or a
// session. It is empty if there is no such route or session.
func (s *scene) keyOf(name string) string {
	tag := "{" + s.prefix + ":1}1"
	switch name {
	case "r:", "b:":
		for code := range s.root.HGetAll(s.ctx, tag+"k").Val() {
			return tag + name + code
		}
		return ""
	case "p:", "f:":
		for _, set := range s.root.Keys(s.ctx, tag+name+"*").Val() {
			return set
		}
		return ""
	case "z:", "o:", "a:":
		for _, session := range s.root.Keys(s.ctx, tag+"z:*").Val() {
			return strings.Replace(session, "}1z:", "}1"+name, 1)
		}
		return ""
	}
	return tag + name
}
