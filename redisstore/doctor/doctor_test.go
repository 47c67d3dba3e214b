package doctor

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

func TestDoctor_KnowsEveryCommandOfTheStore(t *testing.T) {
	var target Target
	for _, pattern := range []string{"../lua/*.lua", "../lua/part/*.lua"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range files {
			text, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			target.Scripts = append(target.Scripts, Script{Text: string(text)})
		}
	}
	used := target.commands()
	for _, name := range used {
		if _, ok := forms[name]; !ok {
			t.Errorf("%s is used by the store: add arguments that it takes to forms in access.go", name)
		}
	}
	if len(target.Scripts) < 16 || len(used) < 40 {
		t.Errorf("%d scripts with %d commands were found", len(target.Scripts), len(used))
	}
}

// TestDoctor_JudgesWhatServersSay proves that the checks judge answers of Redis and Valkey that a
// test cannot provoke from a real server.
func TestDoctor_JudgesWhatServersSay(t *testing.T) {
	for name, tt := range map[string]struct {
		look   func(context.Context, *node) []store.Finding
		info   string
		config map[string]string
		want   store.Severity
		found  string
	}{
		"an old server":    {checkVersion, "redis_version:6.2.14", nil, store.SeverityFail, "Redis 6.2.14"},
		"a new one":        {checkVersion, "redis_version:8.0.1", nil, store.SeverityOK, "Redis 8.0.1"},
		"valkey":           {checkVersion, "redis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:8.1.0", nil, store.SeverityOK, "Valkey 8.1.0"},
		"nameless":         {checkVersion, "x:y", nil, store.SeverityWarn, "no version"},
		"fragments":        {checkMemory, "used_memory:1073741824\r\nmaxmemory:8589934592\r\nmem_fragmentation_bytes:1073741824", nil, store.SeverityWarn, "1.0 GiB are lost"},
		"soon full":        {checkMemory, "used_memory:80\r\nmaxmemory:100", nil, store.SeverityWarn, "80 B of maxmemory 100 B"},
		"a full machine":   {checkMemory, "used_memory:80\r\nmaxmemory:0\r\ntotal_system_memory:100", nil, store.SeverityWarn, "no maxmemory"},
		"a full disk":      {checkPersistence, "aof_enabled:1\r\naof_last_write_status:err", nil, store.SeverityFail, "cannot be written"},
		"a growing file":   {checkPersistence, "aof_enabled:1\r\naof_last_bgrewrite_status:err", nil, store.SeverityWarn, "could not be rewritten"},
		"a slow disk":      {checkPersistence, "aof_enabled:1\r\naof_delayed_fsync:3", nil, store.SeverityWarn, "late 3 times"},
		"failed snapshot":  {checkPersistence, "rdb_last_bgsave_status:err", map[string]string{"save": "60 1"}, store.SeverityFail, "the last snapshot failed"},
		"unseen snapshots": {checkPersistence, "aof_enabled:0", nil, store.SeverityWarn, "would say whether"},
		"a late replica":   {checkReplicas, "connected_slaves:1\r\nslave0:ip=10.0.0.7,port=6379,state=online,offset=5,lag=11\r\nmaster_repl_offset:5", nil, store.SeverityWarn, "10.0.0.7:6379 has said nothing for 11 s"},
		"a small replica":  {checkReplicas, "connected_slaves:1\r\nslave0:ip=a,port=1,state=online,offset=5,lag=0\r\nmaster_repl_offset:50000000", nil, store.SeverityWarn, "lacks 47.7 MiB"},
		"a new replica":    {checkReplicas, "connected_slaves:1\r\nslave0:ip=a,port=1,state=wait_bgsave,offset=0,lag=0", nil, store.SeverityWarn, "wait_bgsave"},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{target: &Target{}, says: fields(tt.info), config: tt.config}
			for _, f := range tt.look(t.Context(), n) {
				if f.Severity == tt.want && strings.Contains(f.Found, tt.found) && (f.Severity == store.SeverityOK) == (f.Fix == "") {
					return
				}
			}
			t.Errorf("got %v, want %v with %q", tt.look(t.Context(), n), tt.want, tt.found)
		})
	}
}

func TestDoctor_ComparesTheClocksOfServersWithEachOther(t *testing.T) {
	at := func(ahead time.Duration) *node { return &node{addr: ahead.String(), ahead: ahead, timed: true} }
	for apart, want := range map[time.Duration]store.Severity{
		100 * time.Millisecond: store.SeverityOK, 2 * time.Second: store.SeverityWarn, 31 * time.Second: store.SeverityFail,
	} {
		got := checkClocks([]*node{at(time.Hour), {}, at(time.Hour + apart)})
		if len(got) != 1 || got[0].Severity != want {
			t.Errorf("clocks that are %v apart: got %v, want %v", apart, got, want)
		}
	}
	if got := checkClocks([]*node{at(time.Hour)}); len(got) != 0 {
		t.Errorf("one clock: got %v, want nothing", got)
	}
}

func TestDoctor_CallsALongWayToTheServerSlow(t *testing.T) {
	for trip, want := range map[time.Duration]store.Severity{time.Millisecond: store.SeverityOK, 20 * time.Millisecond: store.SeverityWarn} {
		if got := checkLatency(t.Context(), &node{trip: trip}); len(got) != 1 || got[0].Severity != want {
			t.Errorf("a round trip of %v: got %v, want %v", trip, got, want)
		}
	}
}
