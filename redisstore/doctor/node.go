package doctor

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

// node is a server that the doctor examines, with its own answers.
type node struct {
	target  *Target
	client  redis.UniversalClient
	addr    string
	user    string // empty: the default user
	cluster bool
	parts   []*Partition // which it serves

	down   error             // it does not answer, and nothing below is known
	trip   time.Duration     // the shortest round trip
	ahead  time.Duration     // by how much its clock is ahead of that of this machine
	timed  bool              // ahead is known
	says   map[string]string // what INFO says; nil: it is not known
	config map[string]string // what CONFIG GET says; nil: it is not known
	blind  []blindness
}

// blindness is a command that the doctor would like to use and may not.
type blindness struct {
	command, allow string // the second as an ACL rule
	err            error
}

// pings is how often a server is asked for an answer, and for its time. The
// fastest counts: the others waited for something else.
const pings = 5

// read asks the server for everything that several checks look at.
func (n *node) read(ctx context.Context) {
	for i := range pings {
		sent := time.Now()
		if n.down = n.client.Ping(ctx).Err(); n.down != nil {
			return
		}
		if trip := time.Since(sent); i == 0 || trip < n.trip {
			n.trip = trip
		}
	}
	if n.addr == "" || n.addr == sentinelAddr {
		n.addr = n.local(ctx)
	}
	n.readClock(ctx)
	if text, err := n.client.Info(ctx).Result(); err != nil {
		n.miss("INFO", "+info", err)
	} else {
		n.says = fields(text)
	}
	if config, err := n.client.ConfigGet(ctx, "*").Result(); err != nil {
		n.miss("CONFIG GET", "+config|get", err)
	} else {
		n.config = config
	}
}

// miss takes note of an error: the server has refused the command, or is gone.
func (n *node) miss(command, allow string, err error) {
	if _, refused := errors.AsType[redis.Error](err); !refused {
		n.down = err
		return
	}
	n.blind = append(n.blind, blindness{command, allow, err})
}

// sentinelAddr is the address that go-redis reports for a master that it found through
// Sentinels.
const sentinelAddr = "FailoverClient"

// local returns the address of the server as the server sees it; empty if it
// does not say.
func (n *node) local(ctx context.Context) string {
	text, err := n.client.Do(ctx, "client", "info").Text()
	if err != nil {
		return ""
	}
	for word := range strings.FieldsSeq(text) {
		if addr, ok := strings.CutPrefix(word, "laddr="); ok {
			return addr
		}
	}
	return ""
}

func (n *node) readClock(ctx context.Context) {
	var best time.Duration
	for i := range pings {
		sent := time.Now()
		shown, err := n.client.Time(ctx).Result()
		if err != nil {
			n.miss("TIME", "+time", err)
			return
		}
		if trip := time.Since(sent); i == 0 || trip < best {
			best, n.ahead, n.timed = trip, shown.Sub(sent.Add(trip/2)), true
		}
	}
}

// fields reads the answer of INFO.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// number returns a number of INFO; 0 if there is none.
func (n *node) number(name string) int64 { return atoi(n.says[name]) }

// setting returns a setting that is a number. ok: it is known.
func (n *node) setting(name string) (value int64, ok bool) {
	text, ok := n.config[name]
	return atoi(text), ok
}

func atoi(text string) int64 {
	v, _ := strconv.ParseInt(text, 10, 64)
	return v
}

// who names the user for an ACL command.
func (n *node) who() string {
	if n.user == "" {
		return "default"
	}
	return n.user
}

// checkSight says what the doctor cannot see.
func checkSight(_ context.Context, n *node) []store.Finding {
	var findings []store.Finding
	for _, b := range n.blind {
		findings = append(findings, warn(b.command+" is refused: "+b.err.Error(), "",
			fmt.Sprintf("To have it looked at, run the doctor as a user with ACL SETUSER %s %s; the store itself can do without.", n.who(), b.allow)))
	}
	return orFine(findings, "INFO and CONFIG GET are allowed")
}

// checkVersion recognises the server. Valkey says a version of Redis, too.
func checkVersion(_ context.Context, n *node) []store.Finding {
	version, name := n.says["redis_version"], "Redis"
	switch {
	case n.says == nil:
		return nil // sight says so
	case n.says["valkey_version"] != "":
		return []store.Finding{fine("Valkey " + n.says["valkey_version"])}
	case version == "":
		return []store.Finding{warn("INFO names no version", "Redis 7.0 or later", "Ask the operator of the server which commands it knows; there is no CONFIG line for it.")}
	}
	major, _, _ := strings.Cut(version, ".")
	if atoi(major) < 7 {
		return []store.Finding{fail(name+" "+version, "Redis 7.0 or later", "Install a newer server on the same dir, dbfilename and appenddirname; it reads the old files.")}
	}
	return []store.Finding{fine(name + " " + version)}
}

// checkRole finds servers that refuse writes because of what they are.
func checkRole(_ context.Context, n *node) []store.Finding {
	if n.says == nil {
		return nil
	}
	if role := n.says["role"]; role != "master" {
		return []store.Finding{fail(role, "master", "Point the store at the master (of INFO replication: "+
			n.says["master_host"]+":"+n.says["master_port"]+"), or run REPLICAOF NO ONE here if there is none.")}
	}
	return []store.Finding{fine("master")}
}

// slow is from which round trip on a step is mostly waiting: it takes one.
const slow = 10 * time.Millisecond

func checkLatency(_ context.Context, n *node) []store.Finding {
	if n.trip >= slow {
		return []store.Finding{warn(fmt.Sprintf("PING takes %v at best", n.trip.Round(time.Microsecond)), "less than "+slow.String(),
			"Bring workers and server closer together, and look for slow commands with CONFIG SET slowlog-log-slower-than 10000 and SLOWLOG GET.")}
	}
	return []store.Finding{fine(fmt.Sprintf("PING takes %v at best", n.trip.Round(time.Microsecond)))}
}

// checkConnections looks for what ends, or refuses, connections.
func checkConnections(_ context.Context, n *node) []store.Finding {
	var findings []store.Finding
	if most, used := n.number("maxclients"), n.number("connected_clients"); most > 0 && used*100 >= most*80 {
		findings = append(findings, warn(fmt.Sprintf("%d of %d connections are in use", used, most), "less than 80 %",
			fmt.Sprintf("Run CONFIG SET maxclients %d, or use fewer workers or a smaller pool_size.", 2*most)))
	}
	if idle, ok := n.setting("timeout"); ok && idle > 0 && idle < 60 {
		findings = append(findings, info(fmt.Sprintf("timeout %d: idle connections end after %d s and are made again", idle, idle), "timeout 0",
			"Run CONFIG SET timeout 0."))
	}
	if keep, ok := n.setting("tcp-keepalive"); ok && keep == 0 {
		findings = append(findings, info("tcp-keepalive 0: connections of machines that are gone stay open", "tcp-keepalive 300",
			"Run CONFIG SET tcp-keepalive 300."))
	}
	return orFine(findings, fmt.Sprintf("%d connections", n.number("connected_clients")))
}

// smallest is the buffer for published hints below which a burst of them ends
// the connection that listens.
const smallest = 1 << 20

// checkBuffers looks at how much the server keeps for a process that does not
// read its hints.
func checkBuffers(_ context.Context, n *node) []store.Finding {
	text, ok := n.config["client-output-buffer-limit"]
	if !ok {
		return nil
	}
	const want, fix = "pubsub 33554432 8388608 60", `Run CONFIG SET client-output-buffer-limit "pubsub 33554432 8388608 60".`
	words := strings.Fields(text)
	for i, word := range words {
		if word != "pubsub" || i+3 >= len(words) {
			continue
		}
		found := strings.Join(words[i:i+4], " ")
		hard, soft := atoi(words[i+1]), atoi(words[i+2])
		switch {
		case hard == 0 && soft == 0:
			return []store.Finding{warn(found+": a worker that hangs takes memory of the server without a limit", want, fix)}
		case hard > 0 && hard < smallest || soft > 0 && soft < smallest:
			return []store.Finding{warn(found+": a burst of hints ends the connection that listens, and work begins seconds late", want, fix)}
		}
		return []store.Finding{fine(found)}
	}
	return nil
}
