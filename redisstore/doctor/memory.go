package doctor

import (
	"context"
	"fmt"
	"strconv"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkEviction fails if the server may evict keys, because a lost key damages a run.
func checkEviction(_ context.Context, n *node) []store.Finding {
	policy := n.says["maxmemory_policy"]
	if policy == "" {
		policy = n.config["maxmemory-policy"]
	}
	switch policy {
	case "":
		return nil // checkSight reports the missing setting
	case "noeviction":
		return []store.Finding{fine(policy)}
	}
	return []store.Finding{fail("maxmemory-policy "+policy, "maxmemory-policy noeviction",
		"Run CONFIG SET maxmemory-policy noeviction, and write it into redis.conf; then check the store with fsck if evicted_keys of INFO stats is not 0.")}
}

// checkMemory reports a server that is close to its memory limit. At the limit, the server refuses
// all writes, and runs stop.
func checkMemory(_ context.Context, n *node) []store.Finding {
	if n.says == nil {
		return nil
	}
	used, most, machine := n.number("used_memory"), n.number("maxmemory"), n.number("total_system_memory")
	var findings []store.Finding
	switch {
	case most == 0 && machine == 0:
		findings = append(findings, info(size(used)+" in use, no maxmemory", "a maxmemory below the memory of the machine",
			"Run CONFIG SET maxmemory with three quarters of the memory of the machine."))
	case most == 0:
		f := info(fmt.Sprintf("%s in use, no maxmemory; the machine has %s", size(used), size(machine)), "a maxmemory below the memory of the machine",
			fmt.Sprintf("Run CONFIG SET maxmemory %d: a server that refuses writes loses nothing, one that the kernel kills may.", machine/4*3))
		if used >= machine/4*3 {
			f.Severity = store.SeverityWarn
		}
		findings = append(findings, f)
	case used >= most/100*95:
		findings = append(findings, fail(fmt.Sprintf("%s of maxmemory %s in use", size(used), size(most)), "less than 75 %",
			fmt.Sprintf("Run CONFIG SET maxmemory %d, or shorten the retention of runs, now: at the limit nothing is written.", 2*most)))
	case used >= most/4*3:
		findings = append(findings, warn(fmt.Sprintf("%s of maxmemory %s in use", size(used), size(most)), "less than 75 %",
			fmt.Sprintf("Run CONFIG SET maxmemory %d, or shorten the retention of runs.", 2*most)))
	}
	if machine > 0 && most > machine {
		findings = append(findings, warn(fmt.Sprintf("maxmemory %s, but the machine has %s", size(most), size(machine)), "a maxmemory below the memory of the machine",
			fmt.Sprintf("Run CONFIG SET maxmemory %d.", machine/4*3)))
	}
	// The fragmentation is significant only if the server holds much data.
	if waste := n.number("mem_fragmentation_bytes"); used > 1<<28 && waste > used/2 {
		findings = append(findings, warn(fmt.Sprintf("%s are lost to fragmentation, with %s in use", size(waste), size(used)), "less than half as much",
			"Run CONFIG SET activedefrag yes, or restart the server."))
	}
	return orFine(findings, fmt.Sprintf("%s of maxmemory %s in use", size(used), size(most)))
}

func size(bytes int64) string {
	switch {
	case bytes >= 1<<30:
		return strconv.FormatFloat(float64(bytes)/(1<<30), 'f', 1, 64) + " GiB"
	case bytes >= 1<<20:
		return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64) + " MiB"
	}
	return strconv.FormatInt(bytes, 10) + " B"
}

// compact lists the settings of the compact encodings, with their minimum values.
var compact = []struct {
	name, old string // old is the name in older servers and their forks
	least     int64
}{
	{"hash-max-listpack-value", "hash-max-ziplist-value", 64},
	{"hash-max-listpack-entries", "hash-max-ziplist-entries", 128},
}

// nodeBytes is the minimum stream node size, in bytes, for logs of the usual size.
const nodeBytes = 1024

// checkEncodings reports settings that increase the memory of runs unnecessarily.
func checkEncodings(_ context.Context, n *node) []store.Finding {
	if n.config == nil {
		return nil
	}
	var findings []store.Finding
	for _, c := range compact {
		value, ok := n.setting(c.name)
		if !ok {
			value, ok = n.setting(c.old)
		}
		if ok && value < c.least {
			findings = append(findings, warn(fmt.Sprintf("%s %d: metadata of runs takes four times the memory", c.name, value),
				fmt.Sprintf("%s %d", c.name, c.least), fmt.Sprintf("Run CONFIG SET %s %d, and write it into redis.conf.", c.name, c.least)))
		}
	}
	if value, ok := n.setting("stream-node-max-bytes"); ok && (value == 0 || value > nodeBytes) {
		findings = append(findings, info(fmt.Sprintf("stream-node-max-bytes %d: the log of a run that is being worked on takes at least that", value),
			fmt.Sprintf("stream-node-max-bytes %d", nodeBytes),
			fmt.Sprintf("If memory is short, run CONFIG SET stream-node-max-bytes %d; other users of the server have longer streams.", nodeBytes)))
	}
	return orFine(findings, "as wanted")
}
