package doctor

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// Maximum differences between the clocks of the servers, above which checkClocks fails or warns.
// Deadlines of requests between partitions tolerate a quarter of the horizon. A timer is late by at
// most the difference.
const (
	clocksFail = 30 * time.Second
	clocksWarn = time.Second
)

// checkClocks compares the clocks of the servers with each other. The clocks of the machines that
// run workers are not relevant.
func checkClocks(nodes []*node) []store.Finding {
	var first, last *node
	for _, n := range nodes {
		if !n.timed {
			continue
		}
		if first == nil || n.ahead < first.ahead {
			first = n
		}
		if last == nil || n.ahead > last.ahead {
			last = n
		}
	}
	if first == nil || len(nodes) < 2 {
		return nil
	}
	apart := last.ahead - first.ahead
	found := fmt.Sprintf("the clock of %s is %v ahead of that of %s", last.addr, apart.Round(time.Millisecond), first.addr)
	const fix = "Synchronise the clocks of the machines (chrony, ntpd); Redis has no CONFIG line for it."
	switch {
	case apart >= clocksFail:
		return []store.Finding{fail(found, "less than "+clocksWarn.String(), fix)}
	case apart >= clocksWarn:
		return []store.Finding{warn(found, "less than "+clocksWarn.String(), fix)}
	}
	return []store.Finding{fine(found)}
}

// slotsAll is the number of slots of a cluster.
const slotsAll = 16384

// slot returns the slot of a partition: the CRC-16 (XMODEM) of its hash tag.
func (p *Partition) slot() int {
	var crc uint16
	for _, b := range []byte(strings.Trim(p.Tag, "{}")) {
		crc ^= uint16(b) << 8
		for range 8 {
			if crc&0x8000 != 0 {
				crc = crc<<1 ^ 0x1021
			} else {
				crc <<= 1
			}
		}
	}
	return int(crc) % slotsAll
}

// checkSlots reports partitions whose slot is assigned to no node. It reads the slots from the
// first node that answers.
func (t *Target) checkSlots(ctx context.Context, nodes []*node) []store.Finding {
	i := slices.IndexFunc(nodes, func(n *node) bool { return n.down == nil })
	if i < 0 {
		return nil // every server has a finding that it does not answer
	}
	ranges, err := nodes[i].client.ClusterSlots(ctx).Result()
	if err != nil {
		return []store.Finding{warn("CLUSTER SLOTS is refused: "+err.Error(), "", fmt.Sprintf("Run ACL SETUSER %s +cluster|slots.", nodes[i].who()))}
	}
	var findings []store.Finding
	for _, p := range t.Partitions {
		if !slices.ContainsFunc(ranges, func(r redis.ClusterSlot) bool { return r.Start <= p.slot() && p.slot() <= r.End }) {
			findings = append(findings, fail(fmt.Sprintf("no master has slot %d, which is that of partition %d", p.slot(), p.Number), "a master for each slot",
				"Give the slot to a master with CLUSTER ADDSLOTS (redis-cli --cluster fix); there is no CONFIG line for it."))
		}
	}
	served := 0
	for _, r := range ranges {
		served += r.End - r.Start + 1
	}
	if served < slotsAll {
		findings = append(findings, warn(fmt.Sprintf("%d of %d slots are served", served, slotsAll), "all of them",
			"Run redis-cli --cluster fix; with CONFIG SET cluster-require-full-coverage no the others go on meanwhile."))
	}
	return orFine(findings, fmt.Sprintf("all %d slots are served, by %d masters", served, len(nodes)))
}

// checkCluster examines the state of the cluster that a node reports.
func checkCluster(ctx context.Context, n *node) []store.Finding {
	if !n.cluster {
		return nil
	}
	var findings []store.Finding
	text, err := n.client.ClusterInfo(ctx).Result()
	state := fields(text)
	switch {
	case err != nil:
		findings = append(findings, warn("CLUSTER INFO is refused: "+err.Error(), "",
			fmt.Sprintf("To have it looked at, run the doctor as a user with ACL SETUSER %s +cluster|info; the store itself can do without.", n.who())))
	case state["cluster_state"] != "ok":
		findings = append(findings, fail("cluster_state:"+state["cluster_state"], "cluster_state:ok",
			"Bring the masters that are away, or replicas of them, back; with CONFIG SET cluster-require-full-coverage no the others go on meanwhile."))
	}
	for _, name := range []string{"cluster_slots_pfail", "cluster_slots_fail"} {
		if atoi(state[name]) > 0 {
			findings = append(findings, fail(fmt.Sprintf("%s slots are of masters that do not answer (%s)", state[name], name), "0 slots",
				"Bring them back; a replica takes over after CONFIG GET cluster-node-timeout milliseconds, if there is one."))
		}
	}
	if strings.EqualFold(n.config["cluster-require-full-coverage"], "yes") {
		findings = append(findings, info("cluster-require-full-coverage yes: one master without a replica that is away stops all partitions", "no, for a store",
			"Run CONFIG SET cluster-require-full-coverage no, and write it into redis.conf: partitions need only their own master."))
	}
	if len(n.parts) == 0 {
		findings = append(findings, info("it has no partition of this store", "",
			"Move slots here with redis-cli --cluster reshard if the other masters are busy, or use more partitions for a new prefix; there is no CONFIG line for it."))
	}
	return orFine(findings, "cluster_state:ok")
}
