package redisstore_test

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
)

func examine(t testing.TB, st *redisstore.Store) store.Report {
	t.Helper()
	doctor, ok := store.As[store.Doctor](st)
	if !ok {
		t.Fatal("the store is no doctor")
	}
	report, err := doctor.Examine(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range report.Findings {
		if f.Severity > store.SeverityOK && f.Fix == "" {
			t.Errorf("a finding without a fix: %v", f)
		}
		if f.Check == "" || f.Found == "" {
			t.Errorf("a finding that says nothing: %v", f)
		}
	}
	return report
}

// symptom is an expected finding, with a part of its text.
type symptom struct {
	check    string
	severity store.Severity
	found    string
	fix      string
}

// expect fails the test unless the report contains the symptom for at least one node.
func expect(t testing.TB, report store.Report, want symptom) store.Finding {
	t.Helper()
	for _, f := range report.Findings {
		if f.Check == want.check && f.Severity == want.severity && strings.Contains(f.Found, want.found) && strings.Contains(f.Fix, want.fix) {
			return f
		}
	}
	t.Errorf("no finding %v %s with %q and fix %q in:\n%s", want.severity, want.check, want.found, want.fix, lines(report))
	return store.Finding{}
}

func lines(report store.Report) string {
	var b strings.Builder
	for _, f := range report.Findings {
		fmt.Fprintln(&b, f)
	}
	return b.String()
}

// above returns the findings that are more severe than s.
func above(report store.Report, s store.Severity) []string {
	var all []string
	for _, f := range report.Findings {
		if f.Severity > s {
			all = append(all, f.String())
		}
	}
	return all
}

// sane contains server settings for which the doctor reports no problem.
var sane = []string{
	"--appendonly", "yes", "--appendfsync", "always", "--maxmemory", "1gb", "--stream-node-max-bytes", "1024",
	"--repl-diskless-sync-delay", "0",
}

// replicaOf starts a replica and waits until it has received a write. The master reports a replica
// as online before it sends the first write.
func replicaOf(t testing.TB, master *redistest.Server) *redistest.Server {
	t.Helper()
	return replicaThrough(t, master, master.Addr)
}

// replicaThrough is like replicaOf, but the replica reaches its master through the proxy addr.
func replicaThrough(t testing.TB, master *redistest.Server, addr string) *redistest.Server {
	t.Helper()
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		t.Fatal(err)
	}
	replica := redistest.Start(t, "--replicaof", host+" "+port, "--repl-diskless-sync-delay", "0")
	conn := master.Client(t).Conn()
	defer func() { _ = conn.Close() }()
	eventually(t, "the replica receives what is written", func() bool {
		ctx := context.Background()
		return conn.Set(ctx, "probe", "x", 0).Err() == nil && conn.Del(ctx, "probe").Err() == nil && conn.Wait(ctx, 1, 100*time.Millisecond).Val() > 0
	})
	return replica
}

// eventually calls done until it returns true, for at most 20 seconds; then it fails the test and
// returns. Any goroutine of the test may call it.
func eventually(t testing.TB, what string, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(20 * time.Second); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Errorf("waited for 20 s in vain: %s", what)
			return
		}
	}
}

func TestSTORE4_TheDoctorHasNothingAgainstASaneServer(t *testing.T) {
	master := redistest.Start(t, append(sane, "--min-replicas-to-write", "1")...)
	replicaOf(t, master)
	st := openURL(t, with(master.URL(), "wait_replicas=1"))
	defer st.Close()
	eventually(t, "the replica is close enough", func() bool {
		return strings.Contains(master.Client(t).Info(t.Context(), "replication").Val(), "min_slaves_good_slaves:1")
	})
	report := examine(t, st)
	if got := above(report, store.SeverityOK); len(got) > 0 {
		t.Errorf("findings about a sane server:\n%s", strings.Join(got, "\n"))
	}
	expect(t, report, symptom{check: "version", found: "Redis 7."})
	expect(t, report, symptom{check: "commands", found: "on 16 partitions"})
	expect(t, report, symptom{check: "scripts", found: "can be loaded"})
	if keys := master.Client(t).DBSize(t.Context()).Val(); keys != 0 {
		t.Errorf("the doctor has written %d keys", keys)
	}
}

func TestSTORE4_TheDoctorFindsEachSettingThatIsWrong(t *testing.T) {
	server := redistest.Start(t, sane...)
	admin := server.Client(t)
	st := openURL(t, server.URL())
	defer st.Close()
	for name, tt := range map[string]struct {
		set  []string // alternating names and values
		want symptom
	}{
		"eviction":            {[]string{"maxmemory-policy", "allkeys-lru"}, symptom{"eviction", store.SeverityFail, "allkeys-lru", "CONFIG SET maxmemory-policy noeviction"}},
		"no limit":            {[]string{"maxmemory", "0"}, symptom{"memory", store.SeverityInfo, "no maxmemory", "CONFIG SET maxmemory"}},
		"limit of dreams":     {[]string{"maxmemory", "1024gb"}, symptom{"memory", store.SeverityWarn, "the machine has", "CONFIG SET maxmemory"}},
		"at the limit":        {[]string{"maxmemory", "1mb"}, symptom{"memory", store.SeverityFail, "of maxmemory 1.0 MiB", "CONFIG SET maxmemory"}},
		"writes at the limit": {[]string{"maxmemory", "1mb"}, symptom{"commands", store.SeverityFail, "OOM", "CONFIG SET maxmemory"}},
		"nothing kept":        {[]string{"appendonly", "no"}, symptom{"persistence", store.SeverityFail, "nothing is kept", "CONFIG SET appendonly yes"}},
		"snapshots":           {[]string{"appendonly", "no", "save", "3600 1"}, symptom{"persistence", store.SeverityWarn, "snapshots only", "CONFIG SET appendonly yes"}},
		"everysec":            {[]string{"appendfsync", "everysec"}, symptom{"persistence", store.SeverityInfo, "last 2 seconds", "CONFIG SET appendfsync always"}},
		"no fsync":            {[]string{"appendfsync", "no"}, symptom{"persistence", store.SeverityWarn, "half a minute", "CONFIG SET appendfsync everysec"}},
		"no fsync on rewrite": {[]string{"no-appendfsync-on-rewrite", "yes"}, symptom{"persistence", store.SeverityWarn, "while the file is rewritten", "CONFIG SET no-appendfsync-on-rewrite no"}},
		"no replicas left":    {[]string{"min-replicas-to-write", "1"}, symptom{"replicas", store.SeverityFail, "writes are refused", "CONFIG SET min-replicas-to-write 0"}},
		"no write allowed":    {[]string{"min-replicas-to-write", "1"}, symptom{"commands", store.SeverityFail, "NOREPLICAS", "CONFIG SET min-replicas-to-write 0"}},
		"no replicas":         {nil, symptom{"replicas", store.SeverityInfo, "no replicas", "replicaof"}},
		"hash values":         {[]string{"hash-max-listpack-value", "16"}, symptom{"encodings", store.SeverityWarn, "hash-max-listpack-value 16", "CONFIG SET hash-max-listpack-value 64"}},
		"hash entries":        {[]string{"hash-max-listpack-entries", "8"}, symptom{"encodings", store.SeverityWarn, "four times", "CONFIG SET hash-max-listpack-entries 128"}},
		"stream nodes":        {[]string{"stream-node-max-bytes", "4096"}, symptom{"encodings", store.SeverityInfo, "stream-node-max-bytes 4096", "CONFIG SET stream-node-max-bytes 1024"}},
		"timeout":             {[]string{"timeout", "5"}, symptom{"connections", store.SeverityInfo, "timeout 5", "CONFIG SET timeout 0"}},
		"keepalive":           {[]string{"tcp-keepalive", "0"}, symptom{"connections", store.SeverityInfo, "tcp-keepalive 0", "CONFIG SET tcp-keepalive 300"}},
		"few connections":     {[]string{"maxclients", "2"}, symptom{"connections", store.SeverityWarn, "2 of 2 connections", "CONFIG SET maxclients 4"}},
		"small buffers":       {[]string{"client-output-buffer-limit", "pubsub 1000 1000 60"}, symptom{"output buffers", store.SeverityWarn, "pubsub 1000 1000 60", "CONFIG SET client-output-buffer-limit"}},
		"endless buffers":     {[]string{"client-output-buffer-limit", "pubsub 0 0 0"}, symptom{"output buffers", store.SeverityWarn, "without a limit", "CONFIG SET client-output-buffer-limit"}},
	} {
		t.Run(name, func(t *testing.T) {
			for i := 0; i+1 < len(tt.set); i += 2 {
				before := admin.ConfigGet(t.Context(), tt.set[i]).Val()[tt.set[i]]
				if err := admin.ConfigSet(t.Context(), tt.set[i], tt.set[i+1]).Err(); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := admin.ConfigSet(context.Background(), tt.set[i], before).Err(); err != nil {
						t.Error(err)
					}
				}()
			}
			expect(t, examine(t, st), tt.want)
		})
	}
	// The server must have no child process that writes a file, because such a process would
	// outlive the server and the test.
	says(t, server, "aof_rewrite_in_progress:0\r\naof_rewrite_scheduled:0")
	if got := above(examine(t, st), store.SeverityInfo); len(got) > 0 {
		t.Errorf("findings once all is repaired:\n%s", strings.Join(got, "\n"))
	}
}

func TestSTORE4_TheDoctorLooksAtReplicas(t *testing.T) {
	master := redistest.Start(t, sane...)
	replica := replicaOf(t, master)
	st := openURL(t, master.URL())
	defer st.Close()
	expect(t, examine(t, st), symptom{"replicas", store.SeverityWarn, "a master that is cut off continues", "CONFIG SET min-replicas-to-write 1"})
	admin := master.Client(t)
	for _, set := range [][2]string{{"min-replicas-to-write", "1"}, {"min-replicas-max-lag", "600"}} {
		if err := admin.ConfigSet(t.Context(), set[0], set[1]).Err(); err != nil {
			t.Fatal(err)
		}
	}
	expect(t, examine(t, st), symptom{"replicas", store.SeverityWarn, "min-replicas-max-lag 600", "CONFIG SET min-replicas-max-lag 10"})
	careful := openURL(t, with(master.URL(), "wait_replicas=2"))
	defer careful.Close()
	expect(t, examine(t, careful), symptom{"replicas", store.SeverityFail, "1 replicas, and the store waits for 2", "lower wait_replicas"})

	wrong := openURL(t, replica.URL())
	defer wrong.Close()
	report := examine(t, wrong)
	f := expect(t, report, symptom{"role", store.SeverityFail, "slave", "REPLICAOF NO ONE"})
	if !strings.Contains(f.Fix, master.Addr) {
		t.Errorf("the fix does not name the master %s: %s", master.Addr, f.Fix)
	}
	expect(t, report, symptom{"commands", store.SeverityFail, "READONLY", "REPLICAOF NO ONE"})
}

func TestSTORE4_TheDoctorSaysWhatItMayNotSeeAndGoesOn(t *testing.T) {
	server, prefix := redistest.Shared(t), redistest.Prefix()
	admin := server.Client(t)
	as := func(name string, rules ...string) store.Report {
		t.Helper()
		args := []any{"acl", "setuser", name, "reset"}
		for _, rule := range append(aclRules(t, prefix), rules...) {
			args = append(args, rule)
		}
		if err := admin.Do(t.Context(), args...).Err(); err != nil {
			t.Fatal(err)
		}
		st := openURL(t, with("redis://"+name+":secret@"+server.Addr, "prefix="+prefix))
		defer st.Close()
		return examine(t, st)
	}
	// A user with the permissions of docs/use/redis.md may execute all commands of the store. Only
	// some settings cannot be read.
	report := as(prefix + "a")
	expect(t, report, symptom{"sight", store.SeverityWarn, "CONFIG GET is refused: NOPERM", "ACL SETUSER " + prefix + "a +config|get"})
	expect(t, report, symptom{check: "commands", found: "on 16 partitions"})
	expect(t, report, symptom{check: "scripts", found: "can be loaded"})
	expect(t, report, symptom{check: "eviction", found: "noeviction"})

	report = as(prefix+"b", "-info", "-time", "-script|load")
	expect(t, report, symptom{"sight", store.SeverityWarn, "INFO is refused", "+info"})
	expect(t, report, symptom{"sight", store.SeverityWarn, "TIME is refused", "+time"})
	expect(t, report, symptom{"scripts", store.SeverityWarn, "SCRIPT LOAD is refused", "+script|load"})
	expect(t, report, symptom{"commands", store.SeverityFail, "time refused on partition 0: NOPERM", "+time"})

	report = as(prefix+"c", "-hset", "-xadd", "-subscribe")
	expect(t, report, symptom{"commands", store.SeverityFail, "hset, subscribe, xadd refused", "+hset +subscribe +xadd"})
	report = as(prefix+"d", "resetkeys", "~{"+prefix+":3}*", "~{"+prefix+":0}*")
	expect(t, report, symptom{"commands", store.SeverityFail, "exists, setnx refused on partition 1, 2, 4", "~{" + prefix + ":*"})
	report = as(prefix+"e", "resetchannels")
	expect(t, report, symptom{"commands", store.SeverityFail, "publish, subscribe refused", "&{" + prefix + ":*"})
	report = as(prefix+"f", "-@scripting")
	expect(t, report, symptom{"commands", store.SeverityFail, "eval, evalsha refused", "+eval +evalsha"})
	report = as(prefix+"g", "-@transaction")
	expect(t, report, symptom{"commands", store.SeverityFail, "MULTI is refused", "+@transaction"})
	if keys, err := admin.Keys(t.Context(), "{"+prefix+":*").Result(); err != nil || len(keys) > 0 {
		t.Errorf("the doctor has written %v, %v", keys, err)
	}
}

func TestSTORE4_TheDoctorRecognisesOtherFormats(t *testing.T) {
	server := redistest.Shared(t)
	admin := server.Client(t)
	for name, tt := range map[string]struct {
		key, value string
		want       symptom
	}{
		"another number": {":format", "flowgen 1 4", symptom{"format", store.SeverityFail, "has 4 partitions", "partitions=4"}},
		"newer":          {":format", "flowgen 9 16", symptom{"format", store.SeverityFail, "format version 9", "newer release"}},
		"older":          {":format", "flowgen 0 16", symptom{"format", store.SeverityFail, "format version 0", "another store"}},
		"foreign":        {":format", "hello", symptom{"format", store.SeverityFail, "not a flowgen store", "another prefix"}},
		"ours":           {":format", "flowgen 1 16", symptom{check: "format", found: "flowgen 1 16"}},
		"new":            {":other", "x", symptom{check: "format", found: "no store has used prefix"}},
		"lost":           {"1k", "x", symptom{"format", store.SeverityWarn, "has lost data", "persistence"}},
	} {
		t.Run(name, func(t *testing.T) {
			prefix := redistest.Prefix()
			if err := admin.Set(t.Context(), "{"+prefix+":0}"+tt.key, tt.value, 0).Err(); err != nil {
				t.Fatal(err)
			}
			st := openURL(t, with(server.URL(), "prefix="+prefix))
			defer st.Close()
			expect(t, examine(t, st), tt.want)
		})
	}
}

func TestSTORE4_TheDoctorFindsTheBadNodeOfACluster(t *testing.T) {
	t.Parallel()
	cluster := redistest.StartCluster(t, false)
	st := openURL(t, cluster.URL())
	defer st.Close()
	report := examine(t, st)
	if got := above(report, store.SeverityWarn); len(got) != 3 { // one finding per node: persistence is off
		t.Errorf("failures of a cluster of three:\n%s", strings.Join(got, "\n"))
	}
	expect(t, report, symptom{check: "slots", found: "all 16384 slots are served, by 3 masters"})
	expect(t, report, symptom{check: "clocks", found: "ahead of"})
	expect(t, report, symptom{check: "cluster", severity: store.SeverityInfo, found: "full-coverage yes", fix: "CONFIG SET cluster-require-full-coverage no"})
	expect(t, report, symptom{check: "replicas", severity: store.SeverityWarn, found: "no replicas", fix: "CLUSTER REPLICATE"})

	bad := cluster.Masters[1]
	if err := bad.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "allkeys-random").Err(); err != nil {
		t.Fatal(err)
	}
	f := expect(t, examine(t, st), symptom{check: "eviction", severity: store.SeverityFail, found: "allkeys-random"})
	if f.Node != bad.Addr {
		t.Errorf("the finding is about %s, want %s", f.Node, bad.Addr)
	}

	slot := cluster.Client(t).ClusterKeySlot(t.Context(), "{flowgen:5}:").Val()
	for _, s := range cluster.Masters {
		_ = s.Client(t).ClusterDelSlots(t.Context(), int(slot)) // a node returns an error if it does not have the owner of the slot in its tables
	}
	report = examine(t, st)
	expect(t, report, symptom{"slots", store.SeverityFail, fmt.Sprintf("no master has slot %d, which is that of partition 5", slot), "CLUSTER ADDSLOTS"})
	expect(t, report, symptom{"slots", store.SeverityWarn, "16383 of 16384 slots", "cluster-require-full-coverage no"})
	expect(t, report, symptom{check: "cluster", severity: store.SeverityFail, found: "cluster_state:fail", fix: "cluster-require-full-coverage no"})
	expect(t, report, symptom{check: "commands", severity: store.SeverityFail, found: "CLUSTERDOWN"})

	bad.Kill()
	report = examine(t, st)
	f = expect(t, report, symptom{check: "reach", severity: store.SeverityFail, found: "connection refused"})
	if f.Node != bad.Addr {
		t.Errorf("the finding is about %s, want %s", f.Node, bad.Addr)
	}
	expect(t, report, symptom{check: "reach", found: "it answers"})
}

func TestSTORE4_TheDoctorExaminesTheMasterThatSentinelWatches(t *testing.T) {
	master := redistest.Start(t, sane...)
	sentinel := redistest.StartSentinel(t, "main", master)
	st := openURL(t, "redis+sentinel://"+sentinel.Addr+"?master_name=main")
	defer st.Close()
	report := examine(t, st)
	if got := report.Findings[0].Node; got != master.Addr {
		t.Errorf("the findings are about %s, want %s", got, master.Addr)
	}
	if got := above(report, store.SeverityInfo); len(got) > 0 {
		t.Errorf("findings about a sane server:\n%s", strings.Join(got, "\n"))
	}
}

func TestSTORE4_TheDoctorReportsAServerThatIsAway(t *testing.T) {
	server := redistest.Start(t)
	st := openURL(t, with(server.URL(), "dial_timeout=1s"))
	server.Kill()
	report := examine(t, st)
	want := []string{"reach"}
	var got []string
	for _, f := range report.Findings {
		got = append(got, f.Check)
	}
	if diff := cmp.Diff(want, got); diff != "" || report.Worst() != store.SeverityFail {
		t.Errorf("checks of a server that is away (-want +got):\n%s", diff)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := st.Examine(t.Context()); err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("examine a closed store: got %v", err)
	}
}

func TestSTORE4_TheDoctorReportsAServerThatIsLoading(t *testing.T) {
	t.Parallel()
	server := redistest.Start(t)
	fill(t, server, 2000)
	server.RestartSlowly(t, time.Millisecond)
	st := openURL(t, server.URL())
	defer st.Close()
	expect(t, examine(t, st), symptom{"reach", store.SeverityFail, "LOADING", "still loading its data"})
}

// fill writes the given number of keys.
func fill(t testing.TB, server *redistest.Server, keys int) {
	t.Helper()
	_, err := server.Client(t).Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for n := range keys {
			p.Set(t.Context(), fmt.Sprintf("fill%d", n), "x", 0)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
