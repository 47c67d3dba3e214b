package redisstore

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// sent is a command that the release with format 2 has sent.
type sent struct {
	Op     string   // what a process does that is at work after the migration; empty: before it
	Script string   // empty: Args has the command, too
	Args   [][]byte // without the text of the script
}

// before is a prefix of format 2, as that release has written it. testdata/format2.json.gz has all that it has sent to a server, with
// the texts of its scripts: runs in every state and with everything that a run can have, and then one operation of each kind.
type before struct {
	*guarded

	scripts map[string]string
	sent    []sent
}

func openBefore(t *testing.T) *before {
	t.Helper()
	file, err := os.ReadFile("testdata/format2.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	var recorded struct {
		Scripts map[string]string
		Sent    []sent
	}
	if err := json.NewDecoder(r).Decode(&recorded); err != nil {
		t.Fatal(err)
	}
	b := &before{guarded: openGuarded(t), scripts: recorded.Scripts, sent: recorded.Sent}
	b.clock.Advance(time.Hour) // the leases are past
	b.send(func(s sent) bool { return s.Op == "" }, func(s sent, _ any, err error) {
		if err != nil && !errors.Is(err, redis.Nil) {
			t.Fatalf("%s %s: %v", s.Script, s.Args, err)
		}
	})
	return b
}

// send sends what was recorded, and shows the replies.
func (b *before) send(which func(sent) bool, show func(s sent, reply any, err error)) {
	b.t.Helper()
	for _, s := range b.sent {
		if !which(s) {
			continue
		}
		var args []any
		if s.Script != "" {
			args = append(args, "eval", b.scripts[s.Script])
		}
		for _, arg := range s.Args {
			args = append(args, bytes.ReplaceAll(arg, []byte("{old:"), []byte("{"+b.cfg.Prefix+":")))
		}
		reply, err := b.client.Do(b.ctx, args...).Result()
		show(s, reply, err)
	}
}

// values returns the values of all keys that begin with a tag.
func (b *before) values(tag string) map[string]string {
	b.t.Helper()
	all := map[string]string{}
	for _, key := range b.client.Keys(b.ctx, escaped(tag)+"*").Val() {
		all[key] = b.client.Dump(b.ctx, key).Val()
	}
	return all
}

// upToDate fails the test unless the prefix has what was in it before.
func (b *before) upToDate() {
	b.t.Helper()
	s, err := New(b.client, b.cfg)
	b.check(err)
	defer func() { b.check(s.Close()) }()
	counts, err := s.Count(b.ctx, store.Query{})
	b.check(err)
	want := map[event.Status]int{event.StatusPending: 19, event.StatusCompleted: 3, event.StatusFailed: 1, event.StatusCanceled: 1}
	if diff := cmp.Diff(want, counts.ByStatus()); diff != "" || !counts.Exact {
		b.t.Errorf("counts, exact %v (-want +got):\n%s", counts.Exact, diff)
	}
	listed := 0
	for q := (store.Query{Limit: 3}); ; {
		page, err := s.List(b.ctx, q)
		b.check(err)
		listed += len(page.Runs)
		if q.Cursor = page.Cursor; q.Cursor == "" {
			break
		}
	}
	if listed != counts.Total() {
		b.t.Errorf("listed %d runs, counted %d", listed, counts.Total())
	}
	scan, err := s.ScanPartition(b.ctx, 0)
	b.check(err)
	for _, d := range scan.Defects() {
		b.t.Errorf("fsck: %s", d.What)
	}
	for _, f := range fsck.Check(scan.Snapshot()) {
		b.t.Errorf("fsck: %v", f)
	}
}

func TestMigrate_KeepsAllThatTheReleaseBeforeHasWritten(t *testing.T) {
	b := openBefore(t)
	had := len(b.values(b.parts[0].tagBefore()))
	b.check(Migrate(b.ctx, b.client, b.cfg))
	b.upToDate()
	left := maps.Collect(maps.All(b.values(b.parts[0].tagBefore())))
	for key := range left {
		if name := strings.TrimPrefix(key, b.parts[0].tagBefore()); name != "format" && len(name) != 1 {
			t.Errorf("key %s has its old name", key)
		}
	}
	if had < 80 {
		t.Errorf("there were %d keys before, want some of each kind", had)
	}
}

// nothing are answers by which scripts say that they have done nothing.
var nothing = map[string]string{"finish": "0 <nil>", "close_session": "[0] <nil>"}

// A process of the older release that is still at work, or that wakes up after days: whatever it does, nothing changes that this
// release reads, and it is not told that it was done.
func TestMigrate_NoOperationOfTheReleaseBeforeWritesAnyMore(t *testing.T) {
	late := func(s sent) bool { return s.Op != "" }
	control := openBefore(t)
	defer func() {
		control.check(control.client.Del(control.ctx, control.client.Keys(control.ctx, "{"+control.cfg.Prefix+":*").Val()...).Err())
	}()
	replies, changed := map[string]string{}, control.values(control.parts[0].tagBefore())
	control.send(late, func(s sent, reply any, err error) {
		now := control.values(control.parts[0].tagBefore())
		if maps.Equal(changed, now) && nothing[s.Script] != fmt.Sprint(reply, err) && s.Op != "confirm" && s.Op != "mark" {
			t.Errorf("%s (%s) changes nothing without a migration, either: it proves nothing", s.Op, s.Script)
		}
		replies[s.Op+s.Script], changed = fmt.Sprint(reply, err), now
	})
	b := openBefore(t)
	b.check(Migrate(b.ctx, b.client, b.cfg))
	was := b.values(b.parts[0].tag)
	b.send(late, func(s sent, reply any, err error) {
		if now := b.values(b.parts[0].tag); !maps.Equal(was, now) {
			t.Errorf("%s (%s) has written", s.Op, s.Script)
			was = now
		}
		if got := fmt.Sprint(reply, err); got == replies[s.Op+s.Script] && got != nothing[s.Script] {
			t.Errorf("%s (%s) is answered %q, as before the migration", s.Op, s.Script, got)
		}
	})
	b.upToDate()
}

// stopping lets so many commands through, and fails the others, as for a process that was killed.
type stopping struct {
	left atomic.Int64
}

var errStopped = errors.New("the process is dead")

func (s *stopping) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s *stopping) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if s.left.Add(-1) < 0 {
			cmd.SetErr(errStopped)
			return errStopped
		}
		return next(ctx, cmd)
	}
}

func (s *stopping) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if s.left.Add(-1) < 0 {
			for _, cmd := range cmds {
				cmd.SetErr(errStopped)
			}
			return errStopped
		}
		return next(ctx, cmds)
	}
}

// A server carries out a command as a whole or not at all. So a process that is killed leaves what it leaves between two
// of them.
func TestMigrate_KilledAfterAnyCommandCanBeRepeated(t *testing.T) {
	for n := int64(0); ; n++ {
		b := openBefore(t)
		stop := &stopping{}
		stop.left.Store(n)
		client := redistest.Shared(t).Client(t)
		client.AddHook(stop)
		s, err := New(client, b.cfg)
		b.check(err)
		err = s.migrate(b.ctx, 7)
		b.check(s.Close())
		if err == nil {
			if n < 10 {
				t.Errorf("it took %d commands, want a migration in many steps", n)
			}
			b.upToDate()
			return
		}
		moved := []string{b.markOf(unlabelled), b.mark()}
		if _, err := b.List(b.ctx, store.Query{}); !errors.As(err, new(*store.OldFormatError)) && !slices.Contains(moved, b.client.Get(b.ctx, b.parts[0].format()).Val()) {
			t.Errorf("list after a kill before command %d: got %v, want an OldFormatError", n, err)
		}
		b.check(Migrate(b.ctx, b.client, b.cfg))
		b.upToDate()
	}
}

func TestMigrate_SeveralProcessesAtOnceAllSucceed(t *testing.T) {
	for range 5 {
		b := openBefore(t)
		done := make(chan error, 4)
		for range cap(done) {
			client := redistest.Shared(t).Client(t)
			go func() {
				s, err := New(client, b.cfg)
				if err == nil {
					err = errors.Join(s.migrate(b.ctx, 3), s.Close())
				}
				done <- err
			}()
		}
		for range cap(done) {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		b.upToDate()
	}
}

func TestMigrate_ReplacesNoKeyThatIsThereAlready(t *testing.T) {
	b := openBefore(t)
	key := b.parts[0].routes()
	b.check(b.client.Set(b.ctx, key, "of somebody else", 0).Err())
	if err := Migrate(b.ctx, b.client, b.cfg); !errors.As(err, new(*takenError)) || !strings.Contains(err.Error(), key) {
		t.Errorf("got %v, want an error that names key %s", err, key)
	}
	if got := b.client.Get(b.ctx, key).Val(); got != "of somebody else" {
		t.Errorf("the key is %q now", got)
	}
	b.check(b.client.Del(b.ctx, key).Err())
	b.check(Migrate(b.ctx, b.client, b.cfg))
	b.upToDate()
}
