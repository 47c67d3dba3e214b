// Package doctor examines the Redis servers that hold a store: their configuration, the permissions
// of the user, and the safety of the data. It needs no permission beyond the permissions of the
// store. If a setting cannot be read, the doctor reports a warning. docs/use/redis.md lists the
// checks.
//
// doctor.go contains the list of checks, and node.go reads everything that several checks use. The
// other files contain the checks by subject: access.go permissions, commands and scripts, format.go
// the mark of the store, cluster.go clocks and slots, loss.go persistence and replicas, memory.go
// memory and encodings.
package doctor

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// Target contains the properties of a store that the doctor needs to examine it.
type Target struct {
	Client       redis.UniversalClient
	Prefix       string // prefix of the keys of the store
	WaitReplicas int    // number of replicas that must confirm each write
	Partitions   []*Partition
	Scripts      []Script
	// Mark is the value that the key Format of partition 0 must have. If the database has another
	// mark, JudgeMark returns the reason why the store must not use the database, and the fix. An
	// empty fix means that the store needs another prefix.
	Mark      string
	JudgeMark func(mark string) (fix string, err error)
	// Hints contains the fixes for errors of the server. The key is the first word of the error.
	Hints map[string]string
}

// Partition contains the keys and channels of a partition that the checks need.
type Partition struct {
	Number         int
	Tag            string // hash tag of the keys, with braces
	Never          string // a key that never exists
	Format         string // key of the mark of the store
	Routes, Leases string // keys that exist if the partition contains runs
	Hints          string // channel for hints to waiting processes
}

// Script is a script of the store as it is sent to the server. SHA is the hash by which the server
// identifies it.
type Script struct{ Name, Text, SHA string }

// check is one check of a server. The look function leaves Check and Node of its findings empty;
// examine sets them.
type check struct {
	name string
	look func(ctx context.Context, n *node) []store.Finding
}

// checks lists the checks in the order in which they are made on each server that answers.
// docs/use/redis.md describes them.
var checks = []check{
	{"version", checkVersion},
	{"role", checkRole},
	{store.CheckSight, checkSight},
	{"eviction", checkEviction},
	{"memory", checkMemory},
	{"persistence", checkPersistence},
	{"replicas", checkReplicas},
	{"commands", checkCommands},
	{"scripts", checkScripts},
	{"format", checkFormatMark},
	{"latency", checkLatency},
	{"connections", checkConnections},
	{"output buffers", checkBuffers},
	{"encodings", checkEncodings},
	{"cluster", checkCluster},
}

// Examine makes all checks on the servers that hold the store. It changes no data, but adds the
// scripts to the caches of the servers. A server that does not answer is reported as a finding.
// Examine returns an error if a cluster does not name its masters.
func Examine(ctx context.Context, t *Target) (store.Report, error) {
	nodes, err := t.nodes(ctx)
	if err != nil {
		return store.Report{}, err
	}
	found := make([][]store.Finding, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { found[i] = n.examine(ctx) })
	}
	all.Wait()
	var report store.Report
	report.Findings = slices.Concat(found...)
	report.Findings = append(report.Findings, named("clocks", "", checkClocks(nodes))...)
	if _, ok := t.Client.(*redis.ClusterClient); ok {
		report.Findings = append(report.Findings, named("slots", "", t.checkSlots(ctx, nodes))...)
	}
	return report, nil
}

// nodes returns the servers that hold the store, sorted by address.
func (t *Target) nodes(ctx context.Context) ([]*node, error) {
	cluster, ok := t.Client.(*redis.ClusterClient)
	if !ok {
		n := &node{target: t, client: t.Client, parts: t.Partitions}
		if client, ok := t.Client.(*redis.Client); ok {
			n.addr, n.user = client.Options().Addr, client.Options().Username
		}
		return []*node{n}, nil
	}
	var mu sync.Mutex
	byAddr := map[string]*node{}
	err := cluster.ForEachMaster(ctx, func(_ context.Context, master *redis.Client) error {
		mu.Lock()
		defer mu.Unlock()
		o := master.Options()
		byAddr[o.Addr] = &node{target: t, client: master, addr: o.Addr, user: o.Username, cluster: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range t.Partitions {
		master, err := cluster.MasterForKey(ctx, p.Tag) // any node if the slot is assigned to none
		if err != nil {
			continue // checkSlots reports it
		}
		if n := byAddr[master.Options().Addr]; n != nil {
			n.parts = append(n.parts, p)
		}
	}
	var nodes []*node
	for _, n := range byAddr {
		nodes = append(nodes, n)
	}
	slices.SortFunc(nodes, func(a, b *node) int { return cmp.Compare(a.addr, b.addr) })
	return nodes, nil
}

// examine makes all checks on the server and returns their findings.
func (n *node) examine(ctx context.Context) []store.Finding {
	n.read(ctx)
	if n.down != nil {
		return named("reach", n.addr, []store.Finding{fail(n.down.Error(), "an answer to PING", n.reachFix(n.down))})
	}
	findings := named("reach", n.addr, []store.Finding{fine("it answers")})
	for _, c := range checks {
		findings = append(findings, named(c.name, n.addr, c.look(ctx, n))...)
	}
	return findings
}

// reachFix returns the fix for a server that does not answer PING.
func (n *node) reachFix(err error) string {
	for prefix, hint := range n.target.Hints {
		if redis.HasErrorPrefix(err, prefix) {
			return upper(hint) + "."
		}
	}
	return "Start the server, and see that bind, port and protected-mode of its redis.conf let this machine in."
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// named sets Check and Node of the findings and returns them.
func named(check, addr string, findings []store.Finding) []store.Finding {
	for i := range findings {
		findings[i].Check, findings[i].Node = check, addr
	}
	return findings
}

func fine(found string) store.Finding { return store.Finding{Found: found} }

func info(found, want, fix string) store.Finding {
	return store.Finding{Severity: store.SeverityInfo, Found: found, Want: want, Fix: fix}
}

func warn(found, want, fix string) store.Finding {
	return store.Finding{Severity: store.SeverityWarn, Found: found, Want: want, Fix: fix}
}

func fail(found, want, fix string) store.Finding {
	return store.Finding{Severity: store.SeverityFail, Found: found, Want: want, Fix: fix}
}

// orFine returns the findings. If there are none, it returns a finding that reports success, with
// the text found.
func orFine(findings []store.Finding, found string) []store.Finding {
	if len(findings) == 0 {
		return []store.Finding{fine(found)}
	}
	return findings
}
