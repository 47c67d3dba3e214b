package redisstore

import (
	"crypto/sha256"
	"encoding/base64"
	"strconv"
	"strings"
	"sync"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// partition builds the names of the keys of one partition. All names begin with the same hash tag,
// so the keys are in one slot of a cluster. doc.go lists the keys.
type partition struct {
	number int
	hash   string          // hash tag with braces, which determines the slot
	tag    string          // hash tag and formatVersion
	none   string          // result of never
	whole  ['z' + 1]string // keys that exist once per partition, by letter
}

func newPartition(prefix string, number int) *partition {
	hash := "{" + prefix + ":" + strconv.Itoa(number) + "}"
	tag := hash + strconv.Itoa(formatVersion)
	p := &partition{number: number, hash: hash, tag: tag, none: tag + "-"}
	for letter := 'A'; letter <= 'z'; letter++ {
		p.whole[letter] = tag + string(letter)
	}
	return p
}

// Keys of a run, given its short ID.
func (p *partition) meta(run string) string     { return p.tag + "m:" + run }
func (p *partition) log(run string) string      { return p.tag + "l:" + run }
func (p *partition) inbox(run string) string    { return p.tag + "i:" + run }
func (p *partition) stepData(run string) string { return p.tag + "n:" + run }
func (p *partition) hidden(run string) string   { return p.tag + "g:" + run }
func (p *partition) extra(run string) string    { return p.tag + "x:" + run }
func (p *partition) audit(run string) string    { return p.tag + "j:" + run }
func (p *partition) sent(run string) string     { return p.tag + "O:" + run }
func (p *partition) bodies(run string) string   { return p.tag + "B:" + run }
func (p *partition) seen(chain string) string   { return p.tag + "s:" + chain }
func (p *partition) joined(start string) string { return p.tag + "J:" + start }

// joined appends parts to b and returns them as one string. It allocates nothing if b has capacity.
func joined(b *strings.Builder, parts ...string) string {
	from := b.Len()
	for _, part := range parts {
		b.WriteString(part)
	}
	return b.String()[from:]
}

// hot appends the two keys of a run that every commit uses to b, and returns them.
func (p *partition) hot(run string, b *strings.Builder) (meta, log string) {
	return joined(b, p.tag, "m:", run), joined(b, p.tag, "l:", run)
}

// hotSize returns the length of both keys that hot returns.
func (p *partition) hotSize() int { return 2 * (len(p.tag) + len("m:") + runDigits) }

// newSize returns the length of the keys of a new run that has an owner.
func (p *partition) newSize() int { return 3*(len(p.tag)+len("m:")) + runDigits + 2*codeSize }

// Keys of the streams of a chain.
func (p *partition) streams(chain string) string       { return p.tag + "S:" + chain }
func (p *partition) chunks(chain, name string) string  { return p.tag + "C:" + chain + ":" + name }
func (p *partition) writers(chain, name string) string { return p.tag + "W:" + chain + ":" + name }

// Keys of a route, a session, a workflow ID, and so on, by code.
func (p *partition) ready(route string) string     { return p.tag + "r:" + route }
func (p *partition) blocked(route string) string   { return p.tag + "b:" + route }
func (p *partition) session(session string) string { return p.tag + "z:" + session }
func (p *partition) owned(session string) string   { return p.tag + "o:" + session }
func (p *partition) unread(session string) string  { return p.tag + "a:" + session }
func (p *partition) line(wid string) string        { return p.tag + "q:" + wid }
func (p *partition) waiting(line string) string    { return p.tag + "P:" + line }
func (p *partition) passes(fairKey string) string  { return p.tag + "X:" + fairKey }
func (p *partition) kept(use string) string        { return p.tag + "F:" + use }
func (p *partition) away(use string) string        { return p.kept(use) + "\x00\x00" }
func (p *partition) grouped(group string) string   { return p.tag + "I:" + group }
func (p *partition) labelled(label string) string  { return p.tag + "M:" + label }

// openRuns returns the key of the set of the open runs of a route. doneRuns returns the key of the
// set of its runs that ended with the given outcome. child selects the runs with a parent.
func (p *partition) openRuns(route string, child bool) string {
	return p.tag + "p:" + route + familyMark(child)
}

func (p *partition) doneRuns(route string, child bool, outcome byte) string {
	return p.tag + "f:" + route + familyMark(child) + string(outcome)
}

// listed returns the keys of all sets of the open and ended runs of a route.
func (p *partition) listed(route string) (keys []string) {
	for _, child := range []bool{false, true} {
		keys = append(keys, p.openRuns(route, child))
		for _, outcome := range []byte(outcomes) {
			keys = append(keys, p.doneRuns(route, child, outcome))
		}
	}
	return keys
}

// outcomes contains the digits of the outcomes in keys. The first digit covers the statuses with
// which a run does not normally end.
const outcomes = "03456"

// outcomeOf returns the digit of the outcome for the status of an ended run: the number of the
// status in the list of statuses.
func outcomeOf(s event.Status) byte {
	if s.Terminal() {
		return '0' + statusByte(s)
	}
	return outcomes[0]
}

func familyMark(child bool) string {
	if child {
		return "c"
	}
	return "r"
}

// Keys that exist once per partition. They are built once and not for each command.
func (p *partition) routes() string         { return p.whole['k'] }
func (p *partition) wakes() string          { return p.whole['w'] }
func (p *partition) timers() string         { return p.whole['t'] }
func (p *partition) leases() string         { return p.whole['e'] }
func (p *partition) active() string         { return p.whole['u'] }
func (p *partition) latest() string         { return p.whole['v'] }
func (p *partition) chains() string         { return p.whole['h'] }
func (p *partition) counter() string        { return p.whole['c'] }
func (p *partition) latestOfChains() string { return p.whole['T'] }
func (p *partition) purges() string         { return p.whole['d'] }
func (p *partition) held() string           { return p.whole['G'] }
func (p *partition) outbox() string         { return p.whole['D'] }
func (p *partition) heard() string          { return p.whole['A'] }
func (p *partition) limits() string         { return p.whole['L'] }
func (p *partition) limitConfigs() string   { return p.whole['K'] }
func (p *partition) collecting() string     { return p.whole['J'] }
func (p *partition) fairKeys() string       { return p.whole['Q'] }
func (p *partition) limiterQueues() string  { return p.whole['Y'] }
func (p *partition) standing() string       { return p.whole['F'] }
func (p *partition) failureGroups() string  { return p.whole['H'] }
func (p *partition) recent() string         { return p.whole['E'] }
func (p *partition) idle() string           { return p.whole['Z'] }
func (p *partition) failing() string        { return p.whole['U'] }
func (p *partition) entries() string        { return p.whole['R'] }

// format returns the key of the mark, which contains the format version and the number of
// partitions. The key has the same name in all formats. The mark in partition 0 is authoritative;
// in a cluster, each other partition has a copy.
func (p *partition) format() string { return p.hash + ":format" }

// never returns a key that never exists. Every script receives it after its documented keys, and
// every transaction reads it. It protects a partition whose slot is being moved to another node of
// the cluster. During the move, a node refuses a command with several keys if one of the keys is
// missing on the node. Because this key is always missing, no script is executed while the keys of
// a partition are split between two nodes. A script would otherwise find its undeclared keys
// missing.
func (p *partition) never() string { return p.none }

// Channels to which scripts publish.
func (p *partition) hints() string                     { return p.tag + "hint" }
func (p *partition) inboxSignal(session string) string { return p.tag + "mail:" + session }
func (p *partition) frames(run string) string          { return p.tag + "frame:" + run }
func (p *partition) told(chain string) string          { return p.tag + "stream:" + chain }

const runPrefix = event.PrefixRun + "_"

// short returns a run ID without its prefix, which all run IDs have in common.
func short(run event.RunID) string { return strings.TrimPrefix(string(run), runPrefix) }

// long returns the run ID of which short returned run. It returns an empty ID for an empty string.
func long(run string) event.RunID {
	if run == "" {
		return ""
	}
	return event.RunID(runPrefix + run)
}

// code returns a code of 16 characters for a name of the given kind. The code is a hash and not an
// assigned number, so it is the same in all stores and after a failover.
func code(kind, name string) string {
	var b [64]byte // avoids allocations, unless the name is long
	sum := sha256.Sum256(append(append(append(b[:0], kind...), 0), name...))
	return string(base64.RawURLEncoding.AppendEncode(b[:0], sum[:12]))
}

// codeSize is the number of characters of a code.
const codeSize = 16

func routeCode(c store.Route) string { return code("class", routeName(c)) }
func routeCodes(all []store.Route) string {
	var b strings.Builder
	for _, c := range all {
		b.WriteString(routeCode(c))
	}
	return b.String()
}
func routeName(c store.Route) string { return c.Queue + "\x00" + c.Workflow }

// routeNames encodes the names of routes. Each name is preceded by its length.
func routeNames(all []store.Route) string {
	var b strings.Builder
	for _, c := range all {
		name := routeName(c)
		b.WriteString(strconv.Itoa(len(name)) + ":" + name)
	}
	return b.String()
}

func sessionCode(s store.SessionID) string { return code("session", string(s)) }
func parseRoute(name string) (c store.Route) {
	c.Queue, c.Workflow, _ = strings.Cut(name, "\x00")
	return c
}

// widKey returns the stored form of a workflow ID. It is the ID itself, or a hash of the ID if the
// ID is longer than widLimit.
func widKey(wid string) string {
	if len(wid) <= widLimit && !strings.HasPrefix(wid, "#") {
		return wid
	}
	sum := sha256.Sum256([]byte(wid))
	return "#" + base64.RawURLEncoding.EncodeToString(sum[:])
}

// widLimit is the maximum length of a workflow ID that is stored unchanged. A hash with a value of
// more than 64 bytes takes four times the memory.
const widLimit = 64

func hashed(widKey string) bool { return strings.HasPrefix(widKey, "#") }

// names caches the names that belong to codes, so that a record can be decoded without reading
// them. A cached name stays valid, because a code is the hash of its name.
type names struct {
	mu       sync.RWMutex
	routes   map[string]store.Route
	codes    map[store.Route]routeKeys
	sessions map[string]store.SessionID
}

// routeKeys contains the name of a route and its hash, the code.
type routeKeys struct{ code, name string }

// namesLimit is the maximum number of entries of each cache. A name that was removed is read from
// the database when it is needed.
const namesLimit = 10_000

func newNames() *names {
	return &names{routes: map[string]store.Route{}, codes: map[store.Route]routeKeys{}, sessions: map[string]store.SessionID{}}
}

func (n *names) route(code string) (store.Route, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	c, ok := n.routes[code]
	return c, ok
}

func (n *names) session(code string) (store.SessionID, bool) {
	n.mu.RLock()
	defer n.mu.RUnlock()
	s, ok := n.sessions[code]
	return s, ok
}

// codeOf returns the code of a route.
func (n *names) codeOf(c store.Route) string {
	code, _ := n.of(c)
	return code
}

// of returns the code and the name of a route.
func (n *names) of(c store.Route) (code, name string) {
	n.mu.RLock()
	both, known := n.codes[c]
	n.mu.RUnlock()
	if !known {
		both.code = routeCode(c)
		n.mu.Lock()
		defer n.mu.Unlock()
		both = n.keepRoute(both.code, c)
	}
	return both.code, both.name
}

func (n *names) learnRoute(code string, c store.Route) {
	if _, known := n.route(code); known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.keepRoute(code, c)
}

// keepRoute caches the names of a route and returns them. The caller must hold the lock.
func (n *names) keepRoute(code string, c store.Route) routeKeys {
	if len(n.routes) >= namesLimit {
		clear(n.routes)
		clear(n.codes)
	}
	n.routes[code], n.codes[c] = c, routeKeys{code, routeName(c)}
	return n.codes[c]
}

func (n *names) learnSession(code string, s store.SessionID) {
	if _, known := n.session(code); known {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.sessions) >= namesLimit {
		clear(n.sessions)
	}
	n.sessions[code] = s
}
