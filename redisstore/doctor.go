package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

var _ store.Doctor = (*Store)(nil)

// check is one thing to look at on a server. It leaves Check and Node to its
// caller.
type check struct {
	name string
	look func(ctx context.Context, n *node) []store.Finding
}

// checks are made in this order on each server that answers. docs/use/redis.md lists
// them.
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

// Examine looks at the server, at the master that Sentinels watch, or at all
// masters of a cluster: how each is set up, what its user may do, and whether
// runs are safe there. It writes nothing but scripts into the server's cache,
// works even where the store has never been used, and needs no permission beyond those
// of the store: what it may not see is a warning. docs/use/redis.md lists the checks.
//
// A server that does not answer is a finding, and the others are examined. It is
// an error if a cluster does not name its masters.
func (s *Store) Examine(ctx context.Context) (store.Report, error) {
	if err := s.enter(ctx); err != nil {
		return store.Report{}, fmt.Errorf("examine the store: %w", err)
	}
	nodes, err := s.nodes(ctx)
	if err != nil {
		return store.Report{}, fmt.Errorf("examine the store: %w", s.explain(ctx, err))
	}
	found := make([][]store.Finding, len(nodes))
	var all sync.WaitGroup
	for i, n := range nodes {
		all.Go(func() { found[i] = n.examine(ctx) })
	}
	all.Wait()
	if err := s.enter(ctx); err != nil {
		return store.Report{}, fmt.Errorf("examine the store: %w", err)
	}
	var report store.Report
	report.Findings = slices.Concat(found...)
	report.Findings = append(report.Findings, named("clocks", "", checkClocks(nodes))...)
	if _, ok := s.client.(*redis.ClusterClient); ok {
		report.Findings = append(report.Findings, named("slots", "", s.checkSlots(ctx, nodes))...)
	}
	return report, nil
}

// nodes returns the servers that hold the store, sorted by address.
func (s *Store) nodes(ctx context.Context) ([]*node, error) {
	cluster, ok := s.client.(*redis.ClusterClient)
	if !ok {
		n := &node{store: s, client: s.client, parts: s.parts}
		if client, ok := s.client.(*redis.Client); ok {
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
		byAddr[o.Addr] = &node{store: s, client: master, addr: o.Addr, user: o.Username, cluster: true}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, p := range s.parts {
		master, err := cluster.MasterForKey(ctx, p.hash) // any node, if nobody has the slot
		if err != nil {
			continue // checkSlots says so
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

// examine makes all checks on a server.
func (n *node) examine(ctx context.Context) []store.Finding {
	n.read(ctx)
	if n.down != nil {
		return named("reach", n.addr, []store.Finding{fail(n.down.Error(), "an answer to PING", reachFix(n.down))})
	}
	findings := named("reach", n.addr, []store.Finding{fine("it answers")})
	for _, c := range checks {
		findings = append(findings, named(c.name, n.addr, c.look(ctx, n))...)
	}
	return findings
}

// reachFix says what to do about a server that does not answer PING.
func reachFix(err error) string {
	for prefix, hint := range hints {
		if redis.HasErrorPrefix(err, prefix) {
			return upper(hint) + "."
		}
	}
	return "Start the server, and see that bind, port and protected-mode of its redis.conf let this machine in."
}

func upper(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// named says which check on which node findings are from.
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

// orFine returns the findings, or one that says that all is well.
func orFine(findings []store.Finding, found string) []store.Finding {
	if len(findings) == 0 {
		return []store.Finding{fine(found)}
	}
	return findings
}
