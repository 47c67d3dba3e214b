package redisstore_test

import (
	"strconv"
	"testing"

	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
)

// keyedRuns returns limitedRuns that use limit all and one key of limit tenant. Run n of a request
// uses key(n).
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
		if f.Invariant > 1 { // invariant 1 is excluded because the frames of these runs contain no valid events
			l.t.Fatalf("fsck found %v, want nothing", f)
		}
	}
}

// TestCost_ALimitWithManyLinesIsSetByShortScripts proves that setting a limit with many limiter
// queues takes several short scripts. A long script would block the server.
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
		{"tenant", store.LimitConfig{AtOnce: 1, Paused: true}, 2*lines/each + 1}, // each queue uses another part of the limit
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
