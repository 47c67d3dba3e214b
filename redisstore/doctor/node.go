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

// node is a server with the answers that the doctor has read from it.
type node struct {
	target  *Target
	client  redis.UniversalClient
	addr    string
	user    string // empty for the default user
	cluster bool
	parts   []*Partition // partitions of the store on this server

	down   error             // reason why the server does not answer; if set, the fields below are unknown
	trip   time.Duration     // shortest round trip
	ahead  time.Duration     // clock of the server minus clock of this machine
	timed  bool              // whether ahead is known
	says   map[string]string // fields of INFO; nil if unknown
	config map[string]string // settings from CONFIG GET; nil if unknown
	blind  []blindness
}

// blindness is a command that the doctor needs and that the server has refused.
type blindness struct {
	command, allow string // allow is the ACL rule that permits the command
	err            error
}

// pings is the number of PING and TIME requests to a server. Only the fastest answer counts,
// because other requests of the server may have delayed the rest.
const pings = 5

// read reads everything from the server that several checks use.
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

// miss records that the server has refused a command or failed to answer it. allow is the ACL rule
// that permits the command.
func (n *node) miss(command, allow string, err error) {
	if _, refused := errors.AsType[redis.Error](err); !refused {
		n.down = err
		return
	}
	n.blind = append(n.blind, blindness{command, allow, err})
}

// sentinelAddr is the address that go-redis reports for a master that it has located through
// Sentinels.
const sentinelAddr = "FailoverClient"

// local returns the address that the server reports for itself, or an empty string if it reports
// none.
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

// fields decodes the answer to INFO.
func fields(text string) map[string]string {
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":"); ok {
			all[name] = value
		}
	}
	return all
}

// number returns the value of a field of INFO, or 0 if the field is missing.
func (n *node) number(name string) int64 { return atoi(n.says[name]) }

// setting returns the value of a numeric setting. ok is false if the setting is unknown.
func (n *node) setting(name string) (value int64, ok bool) {
	text, ok := n.config[name]
	return atoi(text), ok
}

func atoi(text string) int64 {
	v, _ := strconv.ParseInt(text, 10, 64)
	return v
}

// who returns the name of the user as ACL SETUSER expects it.
func (n *node) who() string {
	if n.user == "" {
		return "default"
	}
	return n.user
}

// checkSight reports the commands that the doctor needs and may not use.
func checkSight(_ context.Context, n *node) []store.Finding {
	var findings []store.Finding
	for _, b := range n.blind {
		findings = append(findings, warn(b.command+" is refused: "+b.err.Error(), "",
			fmt.Sprintf("To have it looked at, run the doctor as a user with ACL SETUSER %s %s; the store itself can do without.", n.who(), b.allow)))
	}
	return orFine(findings, "INFO and CONFIG GET are allowed")
}

// checkVersion checks the kind and the version of the server. Valkey also reports the version of
// Redis that it is compatible with.
func checkVersion(_ context.Context, n *node) []store.Finding {
	version, name := n.says["redis_version"], "Redis"
	switch {
	case n.says == nil:
		return nil // checkSight reports the missing version
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

// checkRole reports a server that refuses writes because of its role.
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

// slow is the round trip time above which a step spends most of its time waiting for the server. A
// step needs one round trip.
const slow = 10 * time.Millisecond

func checkLatency(_ context.Context, n *node) []store.Finding {
	if n.trip >= slow {
		return []store.Finding{warn(fmt.Sprintf("PING takes %v at best", n.trip.Round(time.Microsecond)), "less than "+slow.String(),
			"Bring workers and server closer together, and look for slow commands with CONFIG SET slowlog-log-slower-than 10000 and SLOWLOG GET.")}
	}
	return []store.Finding{fine(fmt.Sprintf("PING takes %v at best", n.trip.Round(time.Microsecond)))}
}

// checkConnections reports settings that make the server close or refuse connections.
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

// smallest is the minimum size, in bytes, of the output buffer for published hints. With a smaller
// buffer, the server would close the connection during a burst of hints.
const smallest = 1 << 20

// checkBuffers examines the limit of the output buffer for a connection whose process does not read
// its hints.
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
