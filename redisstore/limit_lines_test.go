package redisstore_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// keyedRuns is limitedRuns that use a key of a limit and one for all keys. Each run has its own key,
// unless key names another one.
func keyedRuns(t *testing.T, key func(n int) string) *limitedRuns {
	l := newLimitedRuns(t, 1, store.Use{LimitID: store.LimitID{Name: "all"}, Weight: 1})
	l.change = func(n int, c *store.Create) {
		c.Uses = []store.Use{{LimitID: store.LimitID{Name: "all"}, Weight: 1}, {LimitID: store.LimitID{Name: "tenant", Key: key(n)}, Weight: 1}}
	}
	return l
}

func (l *limitedRuns) set(name, key string, config store.LimitConfig, code bool) {
	l.t.Helper()
	if err := l.st.SetLimits(l.t.Context(), 0, []store.SetLimit{{LimitID: store.LimitID{Name: name, Key: key}, Config: config, Default: code}}); err != nil {
		l.t.Fatal(err)
	}
}

func (l *limitedRuns) sound() {
	l.t.Helper()
	for _, f := range fsck.Check(must(l.st.Inspect(l.t.Context()))) {
		if f.Invariant > 1 { // the frames of these runs are not such
			l.t.Fatalf("fsck found %v, want nothing", f)
		}
	}
}

// forgetStanding leaves what a release has written that does not know where lines count.
func (l *limitedRuns) forgetStanding() (lines int) {
	l.t.Helper()
	ctx := l.t.Context()
	for _, key := range l.server.Keys(ctx, "*").Val() {
		if kept, ok := strings.CutSuffix(key, "\x00\x00"); ok && strings.Contains(key, "F:") {
			members := l.server.ZRangeWithScores(ctx, key, 0, -1).Val()
			lines += len(members)
			l.server.ZAdd(ctx, kept, members...)
			l.server.Del(ctx, key)
		}
		if strings.HasSuffix(key, "F") && l.server.Type(ctx, key).Val() == "hash" {
			l.server.Del(ctx, key)
		}
	}
	return lines
}

func TestSetLimits_BringsLinesOfAnEarlierReleaseIntoOrder(t *testing.T) {
	t.Parallel()
	key := "a"
	l := keyedRuns(t, func(int) string { return key })
	l.set("tenant", "a", store.LimitConfig{Paused: true}, false)
	l.create(2)
	l.claim(10, 0)
	if n := l.forgetStanding(); n != 1 {
		t.Fatalf("%d lines do not count at a limit, want 1", n)
	}
	key = "b"
	l.create(1)
	want := l.created
	l.sound()
	l.set("all", "", store.LimitConfig{AtOnce: 1}, true)
	l.claim(10, 1)
	if got := l.owned[0].Run; got != want {
		t.Errorf("claimed %s, want %s of the other key", got, want)
	}
	l.sound()
}

// A script that visits very many lines would keep all others from the server.
func TestCost_ALimitWithManyLinesIsSetByShortScripts(t *testing.T) {
	const lines, each = 1200, 500
	keys := 0
	l := keyedRuns(t, func(int) string { keys++; return strconv.Itoa(keys) })
	l.create(lines + 1)
	l.claim(1, 1)
	for asked := 0; asked < lines; asked += 20 {
		l.claim(1000, 0)
	}
	for _, set := range []struct {
		name    string
		config  store.LimitConfig
		scripts int
	}{
		{"all", store.LimitConfig{AtOnce: 1}, lines/each + 1},
		{"all", store.LimitConfig{AtOnce: 1, Paused: true}, lines/each + 1},
		{"all", store.LimitConfig{AtOnce: 1}, lines/each + 1},
		{"tenant", store.LimitConfig{AtOnce: 1, Paused: true}, 2*lines/each + 1}, // a part of each
		{"tenant", store.LimitConfig{AtOnce: 1}, 2*lines/each + 1},
	} {
		scripts := l.counted.scripts
		commands, _ := counts(t, l.server)
		l.set(set.name, "", set.config, false)
		after, _ := counts(t, l.server)
		if got := l.counted.scripts - scripts; got != set.scripts {
			t.Errorf("set %s to %+v: got %d scripts, want %d", set.name, set.config, got, set.scripts)
		}
		if per := (after - commands) / lines; per > 22 {
			t.Errorf("set %s to %+v: got %.1f commands per line, want 22 at most", set.name, set.config, per)
		}
		l.sound()
	}
}
