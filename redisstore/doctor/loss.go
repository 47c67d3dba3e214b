package doctor

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkPersistence reports which data would survive a restart of the server.
func checkPersistence(_ context.Context, n *node) []store.Finding {
	if n.says == nil {
		return nil
	}
	var findings []store.Finding
	if n.says["aof_enabled"] == "1" {
		findings = append(findings, n.appended()...)
	} else {
		findings = append(findings, n.snapshots())
	}
	if status := n.says["rdb_last_bgsave_status"]; status == "err" && n.config["save"] != "" {
		findings = append(findings, fail("the last snapshot failed", "rdb_last_bgsave_status:ok",
			"See the log of the server, make room in the directory of CONFIG GET dir, and run BGSAVE; until then writes are refused unless CONFIG SET stop-writes-on-bgsave-error no."))
	}
	return findings
}

// appended judges the settings of the append-only file.
func (n *node) appended() []store.Finding {
	var findings []store.Finding
	if n.says["aof_last_write_status"] == "err" {
		findings = append(findings, fail("the append-only file cannot be written", "aof_last_write_status:ok",
			"Make room in the directory of CONFIG GET dir and appenddirname; writes are refused until then."))
	}
	if n.says["aof_last_bgrewrite_status"] == "err" {
		findings = append(findings, warn("the append-only file could not be rewritten, and grows", "aof_last_bgrewrite_status:ok",
			"Make room in the directory of CONFIG GET dir and appenddirname, and run BGREWRITEAOF."))
	}
	if late := n.number("aof_delayed_fsync"); late > 0 {
		findings = append(findings, warn(fmt.Sprintf("the disk was more than 2 s late %d times", late), "0 times",
			"Put the directory of CONFIG GET dir on a faster disk; until then a kill of the server may lose what it has not handed to the kernel."))
	}
	switch policy, ok := n.config["appendfsync"]; {
	case !ok:
		findings = append(findings, fine("append-only file; CONFIG GET appendfsync would say how much a loss of power costs"))
	case policy == "always":
		findings = append(findings, fine("appendfsync always: nothing that was answered can be lost with the server"))
	case policy == "everysec":
		findings = append(findings, info("appendfsync everysec: a loss of power can cost the last 2 seconds, and so can a kill while an fsync is under way",
			"", "If that is too much, run CONFIG SET appendfsync always; see docs/use/redis.md."))
	default:
		findings = append(findings, warn("appendfsync "+policy+": a loss of power can cost half a minute", "appendfsync everysec",
			"Run CONFIG SET appendfsync everysec, and write it into redis.conf."))
	}
	if n.config["no-appendfsync-on-rewrite"] == "yes" {
		findings = append(findings, warn("no-appendfsync-on-rewrite yes: while the file is rewritten, a loss of power can cost half a minute",
			"no-appendfsync-on-rewrite no", "Run CONFIG SET no-appendfsync-on-rewrite no, and write it into redis.conf."))
	}
	return findings
}

const appendFix = "Run CONFIG SET appendonly yes, and write it into redis.conf."

// snapshots judges the persistence of a server that has no append-only file.
func (n *node) snapshots() store.Finding {
	save, ok := n.config["save"]
	switch {
	case !ok:
		return warn("no append-only file; CONFIG GET save would say whether there are snapshots", "appendonly yes", appendFix)
	case save != "":
		return warn("snapshots only (save "+save+"): the end of the server costs everything since the last one", "appendonly yes", appendFix)
	}
	return fail("nothing is kept: the end of the server costs everything", "appendonly yes", appendFix)
}

const (
	// lagMost and lagMostBytes are the maximum lag of a usable replica, in seconds and in bytes.
	lagMost      = 10
	lagMostBytes = 16 << 20
	// lossMost is the maximum time, in seconds, of the writes that a failover may lose. It is half
	// of the horizon, which is the loss that the protocol tolerates.
	lossMost = 60
)

// checkReplicas reports which data would survive a failover.
func checkReplicas(_ context.Context, n *node) []store.Finding {
	if n.says == nil {
		return nil
	}
	count := n.number("connected_slaves")
	var findings []store.Finding
	if wait := int64(n.target.WaitReplicas); count < wait {
		findings = append(findings, fail(fmt.Sprintf("%d replicas, and the store waits for %d: nothing gets on", count, wait),
			fmt.Sprintf("%d replicas", wait), "Start replicas with REPLICAOF (replicaof in redis.conf), or lower wait_replicas of the store."))
	}
	if count == 0 && n.target.WaitReplicas == 0 {
		findings = append(findings, n.alone())
	}
	for i := range count {
		findings = append(findings, n.behind(fields(strings.ReplaceAll(strings.ReplaceAll(n.says["slave"+strconv.FormatInt(i, 10)], ",", "\n"), "=", ":")))...)
	}
	return append(orFine(findings, fmt.Sprintf("%d replicas", count)), n.fewest(count)...)
}

// alone returns the finding for a server without replicas, which may be intended.
func (n *node) alone() store.Finding {
	const fix = "Start a replica with replicaof in its redis.conf (in a cluster CLUSTER REPLICATE), and have Sentinel or the cluster promote it."
	f := info("no replicas: runs stand still while this server is away", "1 replica", fix)
	if n.cluster {
		f.Severity = store.SeverityWarn
	}
	return f
}

// behind judges the lag of a replica, from its line of INFO replication.
func (n *node) behind(replica map[string]string) []store.Finding {
	addr := replica["ip"] + ":" + replica["port"]
	if state := replica["state"]; state != "online" {
		return []store.Finding{warn(fmt.Sprintf("replica %s is %s", addr, state), "online",
			"See its log; if it never ends, raise CONFIG SET repl-backlog-size and the replica part of client-output-buffer-limit.")}
	}
	lag, missing := atoi(replica["lag"]), n.number("master_repl_offset")-atoi(replica["offset"])
	if lag > lagMost || missing > lagMostBytes {
		return []store.Finding{warn(fmt.Sprintf("replica %s has said nothing for %d s and lacks %s", addr, lag, size(missing)),
			fmt.Sprintf("at most %d s and %s", lagMost, size(lagMostBytes)),
			"Look at the network and the replica; with CONFIG SET min-replicas-to-write 1 a master does not run ahead of it.")}
	}
	return nil
}

// fewest judges the settings for the minimum number of replicas, below which a master refuses
// writes. The server has count replicas.
func (n *node) fewest(count int64) []store.Finding {
	least, ok := n.setting("min-replicas-to-write")
	if !ok {
		return nil
	}
	lag, _ := n.setting("min-replicas-max-lag")
	switch {
	case least > 0 && lag > 0 && n.number("min_slaves_good_slaves") < least:
		return []store.Finding{fail(fmt.Sprintf("min-replicas-to-write %d, and %d replicas are close enough: writes are refused", least, n.number("min_slaves_good_slaves")),
			fmt.Sprintf("%d replicas", least), "Start replicas, or run CONFIG SET min-replicas-to-write 0 until they are back.")}
	case count > 0 && (least == 0 || lag == 0):
		return []store.Finding{warn("min-replicas-to-write 0: a master that is cut off continues to take writes, and the promotion of a replica loses them",
			"min-replicas-to-write 1", "Run CONFIG SET min-replicas-to-write 1 and CONFIG SET min-replicas-max-lag 10, and write them into redis.conf.")}
	case least > 0 && lag > lossMost:
		return []store.Finding{warn(fmt.Sprintf("min-replicas-max-lag %d: a failover can lose more than requests may be late", lag),
			fmt.Sprintf("min-replicas-max-lag of at most %d", lossMost), "Run CONFIG SET min-replicas-max-lag 10, and write it into redis.conf.")}
	}
	return nil
}
