package doctor

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// forms contains a valid argument list for each command of the store; K stands for a key and C for
// a channel. The doctor queues the commands in a transaction and discards it. The server checks a
// command when it is queued, so no command is executed.
var forms = map[string]string{
	"COPY": "K K", "DEL": "K", "EXISTS": "K", "HDEL": "K x", "HEXISTS": "K x", "HGET": "K x", "HGETALL": "K", "HINCRBY": "K x 1", "HKEYS": "K", "HLEN": "K",
	"HMGET": "K x", "HSET": "K x x", "HSETNX": "K x x", "INCR": "K", "INCRBY": "K 1", "LINDEX": "K 0", "LREM": "K 0 x", "LSET": "K 0 x", "LLEN": "K", "LPOP": "K", "LRANGE": "K 0 0",
	"LTRIM": "K 0 0", "RENAME": "K K", "RPUSH": "K x", "SADD": "K x", "SCARD": "K", "SET": "K x", "SMEMBERS": "K",
	"SRANDMEMBER": "K", "SREM": "K x", "TIME": "", "TYPE": "K", "UNLINK": "K", "XADD": "K * x x", "ZADD": "K 1 x", "ZCOUNT": "K 0 0", "ZLEXCOUNT": "K - +",
	"ZRANGE": "K 0 0", "ZRANGEBYLEX": "K - +", "ZRANGEBYSCORE": "K 0 0", "ZREM": "K x", "ZREMRANGEBYLEX": "K - +", "ZREMRANGEBYRANK": "K 0 0", "ZREMRANGEBYSCORE": "K 0 0", "ZSCORE": "K x",
	"EVAL": "return 1 K", "EVALSHA": "x 1 K", "GET": "K", "PING": "", "PUBLISH": "C x", "PUBSUB": "NUMSUB C", "SETNX": "K x", "SUBSCRIBE": "C", "UNSUBSCRIBE": "C",
	"WAIT": "0 1", "XRANGE": "K - +", "XREVRANGE": "K + -", "XTRIM": "K MAXLEN 0", "ZCARD": "K", "ZREVRANGEBYLEX": "K + -", "ZREVRANGEBYSCORE": "K +inf -inf",
}

// direct contains the commands that the store sends outside of scripts.
var direct = []string{
	"EVAL", "EVALSHA", "EXISTS", "GET", "HGET", "HGETALL", "LRANGE", "PING", "SETNX", "SMEMBERS", "SUBSCRIBE", "TIME", "UNSUBSCRIBE",
	"XRANGE", "XREVRANGE", "ZRANGE", "ZRANGEBYLEX", "ZREVRANGEBYLEX", "ZREVRANGEBYSCORE",
}

var called = regexp.MustCompile(`redis\.call\('(\w+)'`)

// commands returns the commands that the scripts call and the commands that the store sends,
// sorted.
func (t *Target) commands() []string {
	all := slices.Clone(direct)
	for _, s := range t.Scripts {
		for _, m := range called.FindAllStringSubmatch(s.Text, -1) {
			all = append(all, m[1])
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// once is a command that go-redis must not retry.
type once struct{ *redis.Cmd }

// NoRetry makes go-redis send the command only once.
func (once) NoRetry() bool { return true }

// trial is a command that is queued to determine whether it is permitted.
type trial struct {
	name string
	p    *Partition
	cmd  once
}

func newTrial(ctx context.Context, name string, p *Partition) *trial {
	args := []any{name}
	if name == "EVAL" {
		args = append(args, "return 1", 1, p.Never)
		return &trial{name, p, once{redis.NewCmd(ctx, args...)}}
	}
	for word := range strings.FieldsSeq(forms[name]) {
		switch word {
		case "K":
			args = append(args, p.Never)
		case "C":
			args = append(args, p.Hints)
		default:
			args = append(args, word)
		}
	}
	return &trial{name, p, once{redis.NewCmd(ctx, args...)}}
}

// checkCommands reports missing permissions, renamed commands, and current conditions that prevent
// writes. It queues every command of the store, with keys and channels of the store, and executes
// none.
func checkCommands(ctx context.Context, n *node) []store.Finding {
	if len(n.parts) == 0 {
		return nil // checkCluster reports that this node has no partition
	}
	// If the server refuses MULTI, it would execute the commands that follow.
	if err := n.discarded(ctx, nil); err != nil {
		return []store.Finding{fail("MULTI is refused: "+err.Error(), "MULTI, EXEC and DISCARD", fmt.Sprintf("Run ACL SETUSER %s +@transaction.", n.who()))}
	}
	used := n.target.commands()
	var trials []*trial
	for i, p := range n.parts {
		names := []string{"EXISTS", "SETNX", "PUBLISH", "SUBSCRIBE"}
		if i == 0 {
			names = used
			if n.target.WaitReplicas > 0 {
				names = append(slices.Clone(names), "WAIT")
			}
		}
		for _, name := range names {
			trials = append(trials, newTrial(ctx, name, p))
		}
	}
	if err := n.discarded(ctx, trials); err != nil {
		return []store.Finding{fail("the commands of the store could not be tried: "+err.Error(), "", "Run the doctor again; if it stays so, see the log of the server (CONFIG GET logfile).")}
	}
	return orFine(n.judge(trials), fmt.Sprintf("%d commands are allowed, on %d partitions", len(used), len(n.parts)))
}

// discarded queues the commands of trials in a transaction and discards it. It returns an error if
// the server refuses MULTI or DISCARD or if the connection fails.
func (n *node) discarded(ctx context.Context, trials []*trial) error {
	pipe := n.client.Pipeline()
	multi := once{redis.NewCmd(ctx, "multi")}
	_ = pipe.Process(ctx, multi) // a pipeline only queues the command, without an error
	for _, t := range trials {
		_ = pipe.Process(ctx, t.cmd)
	}
	discard := once{redis.NewCmd(ctx, "discard")}
	_ = pipe.Process(ctx, discard)
	_, _ = pipe.Exec(ctx) // each command has its own error
	if err := multi.Err(); err != nil {
		return err
	}
	return discard.Err()
}

// judge returns one finding for each error with which the server has refused commands.
func (n *node) judge(trials []*trial) []store.Finding {
	var reasons []string
	refused := map[string][]*trial{}
	for _, t := range trials {
		err := t.cmd.Err()
		if err == nil {
			continue
		}
		reason := kind(err)
		if refused[reason] == nil {
			reasons = append(reasons, reason)
		}
		refused[reason] = append(refused[reason], t)
	}
	var findings []store.Finding
	for _, reason := range reasons {
		var names, partitions []string
		for _, t := range refused[reason] {
			names, partitions = append(names, strings.ToLower(t.name)), append(partitions, strconv.Itoa(t.p.Number))
		}
		slices.Sort(names)
		found := fmt.Sprintf("%s refused on partition %s: %v", strings.Join(slices.Compact(names), ", "), strings.Join(slices.Compact(partitions), ", "), refused[reason][0].cmd.Err())
		findings = append(findings, fail(found, "all commands of the store", n.repair(refused[reason][0].cmd.Err(), names...)))
	}
	return findings
}

// kind returns the first word of an error of the server, such as NOPERM.
func kind(err error) string {
	word, _, _ := strings.Cut(err.Error(), " ")
	return word
}

// repair returns the fix for the error err, with which the server refused the named commands.
func (n *node) repair(err error, names ...string) string {
	switch kind(err) {
	case "NOPERM":
		return fmt.Sprintf("Run ACL SETUSER %s ~{%s:* &{%s:* +%s, or give it all rules of docs/use/redis.md.",
			n.who(), n.target.Prefix, n.target.Prefix, strings.Join(slices.Compact(names), " +"))
	case "ERR":
		return "Take these commands out of rename-command in redis.conf, or ask the operator of the server to allow them."
	case "OOM":
		return "Run CONFIG SET maxmemory with a higher limit: runs go on by themselves."
	case "MISCONF":
		return "Make room in the directory of CONFIG GET dir, and run BGSAVE; runs go on by themselves."
	case "NOREPLICAS":
		return "Start replicas, or run CONFIG SET min-replicas-to-write 0 until they are back; runs go on by themselves."
	case "BUSY":
		return "End the script that hangs with SCRIPT KILL, and see CONFIG GET busy-reply-threshold."
	case "READONLY":
		return "Point the store at the master, or run REPLICAOF NO ONE here (replicaof in redis.conf) if there is none."
	}
	if hint, ok := n.target.Hints[kind(err)]; ok {
		return upper(hint) + "; runs go on by themselves once it is over."
	}
	return "See the log of the server (CONFIG GET logfile)."
}

// checkScripts loads every script into the cache of the server, which changes no data. It then
// executes a script that only reads.
func checkScripts(ctx context.Context, n *node) []store.Finding {
	if len(n.parts) == 0 {
		return nil
	}
	pipe := n.client.Pipeline()
	loads := make([]*redis.StringCmd, len(n.target.Scripts))
	for i, s := range n.target.Scripts {
		loads[i] = pipe.ScriptLoad(ctx, s.Text)
	}
	_, _ = pipe.Exec(ctx) // each command has its own error
	for i, s := range n.target.Scripts {
		sha, err := loads[i].Result()
		switch {
		case redis.HasErrorPrefix(err, "NOPERM"):
			return []store.Finding{warn("SCRIPT LOAD is refused: "+err.Error(), "",
				fmt.Sprintf("To have it looked at, run the doctor as a user with ACL SETUSER %s +script|load; the store itself sends scripts with EVAL.", n.who()))}
		case err != nil:
			return []store.Finding{fail(fmt.Sprintf("script %s cannot be loaded: %v", s.Name, err), "", "Use a server that runs Lua 5.1 as Redis 7.0 does; there is no CONFIG line for it.")}
		case sha != s.SHA:
			return []store.Finding{fail(fmt.Sprintf("script %s is loaded as %s, which is not its SHA-1", s.Name, sha), s.SHA, "Use a server that names scripts as Redis does; there is no CONFIG line for it.")}
		}
	}
	if err := n.client.Eval(ctx, "return redis.call('EXISTS', KEYS[1])", []string{n.parts[0].Never}).Err(); err != nil {
		return []store.Finding{fail("a script that only looks does not run: "+err.Error(), "", n.repair(err, "eval", "exists"))}
	}
	return []store.Finding{fine(fmt.Sprintf("all %d scripts can be loaded", len(n.target.Scripts)))}
}
