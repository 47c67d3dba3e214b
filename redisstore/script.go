package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
)

//go:embed lua/*.lua lua/part/*.lua
var sources embed.FS

// script is one operation on the server. Its text is built on first use. Building all scripts takes
// 8 ms and produces 8 MB of garbage, which a program that imports this package without using it
// should not pay.
type script struct {
	name      string
	load      sync.Once
	text, sha string // set by ready
	operation byte   // names the script in the arguments of script batch; 0 if a batch cannot contain it
}

var (
	scriptCreate         = newOperation("create")
	scriptCollect        = newScript("collect")
	scriptOpenSession    = newScript("open_session")
	scriptHeartbeat      = newScript("heartbeat")
	scriptReconcile      = newScript("reconcile")
	scriptServes         = newScript("serves")
	scriptFleet          = newScript("fleet")
	scriptListReady      = newScript("list_ready")
	scriptCloseSession   = newScript("close_session")
	scriptSetSessionData = newScript("set_session_data")
	scriptSessionData    = newScript("session_data")
	scriptClaim          = newScript("claim")
	scriptClaimRun       = newScript("claim_run")
	scriptSeize          = newScript("seize")
	scriptDue            = newScript("due")
	scriptCommit         = newScript("commit")
	scriptAppend         = newOperation("append")
	scriptFinish         = newOperation("finish")
	scriptRelease        = newScript("release")
	scriptDeliver        = newScript("deliver")
	scriptProbe          = newScript("probe")
	scriptWatch          = newScript("watch")
	scriptStepData       = newScript("step_data")
	scriptPurge          = newScript("purge")
	scriptDelete         = newScript("delete")
	scriptOutbox         = newScript("outbox")
	scriptMark           = newScript("mark")
	scriptConfirm        = newScript("confirm")
	scriptRebuild        = newScript("rebuild")
	scriptForget         = newScript("forget")
	scriptReplace        = newScript("replace")
	scriptPublish        = newScript("publish")
	scriptStream         = newScript("stream")
	scriptSetLimit       = newScript("set_limit")
	scriptRepairLimits   = newScript("repair_limits")
	scriptImport         = newScript("import")
	scriptEntry          = newScript("entry")
	scriptCount          = newScript("count")
	scriptBatch          = newScript("batch")
)

func newScript(name string) *script { return &script{name: name} }

// newOperation returns a script that can also be executed by script batch.
func newOperation(name string) *script { return &script{name: name, operation: name[0]} }

// ready builds the text of the script once, from its source and the parts that the source names.
// The text contains no comments.
func (s *script) ready() *script {
	s.load.Do(func() {
		var b strings.Builder
		put(&b, s.name)
		s.text = b.String()
		sum := sha1.Sum([]byte(s.text)) //nolint:gosec // Redis names scripts by it
		s.sha = hex.EncodeToString(sum[:])
	})
	return s
}

// put appends the source with the given name. It replaces a line that names parts by the sources of
// these parts, and a line that names an operation by a function that does what its script does.
func put(b *strings.Builder, name string) {
	for line := range strings.Lines(source(name)) {
		putLine(b, line)
	}
}

func putLine(b *strings.Builder, line string) {
	code := strings.TrimSpace(line)
	if operation, ok := strings.CutPrefix(code, "-- Operation: "); ok {
		b.WriteString("local function " + operation + "()\n")
		for line := range strings.Lines(source(operation)) {
			if !strings.HasPrefix(line, "-- Parts: ") { // script batch has included them
				putLine(b, line)
			}
		}
		b.WriteString("end\n")
	} else if parts, ok := partsOf(code); ok {
		for _, part := range parts {
			put(b, "part/"+part)
		}
	} else if code != "" && !strings.HasPrefix(code, "--") {
		b.WriteString(line)
	}
}

// partsOf returns the parts that a line names. ok reports whether the line names parts. The header
// of a script contains one such line with the parts that the script needs first, or "none". A line
// further down names parts that only the rest of the script needs. Each execution creates the
// functions of the included parts, which takes time, so parts are included as late as possible.
func partsOf(line string) (parts []string, ok bool) {
	names, ok := strings.CutPrefix(line, "-- Parts: ")
	if !ok {
		names, ok = strings.CutPrefix(line, "-- Part: ")
	}
	if !ok || names == "none" {
		return nil, ok
	}
	return strings.Fields(names), true
}

func source(name string) string {
	b, err := sources.ReadFile("lua/" + name + ".lua")
	if err != nil {
		panic(fmt.Sprintf("redisstore: %v", err)) // a script names a part that does not exist
	}
	return string(b)
}

// call is one execution of a script. reply and err are valid after it was sent.
type call struct {
	script *script
	p      *partition
	keys   []string
	args   []any
	reply  any
	err    error
	buffer []any // buffer for the command; nil to allocate one
	size   int   // approximate number of bytes to send; 0 if small
	form   [3]byte
	formed bytesArg // form, as an argument of script batch
}

// Types of values that go-redis writes unchanged. An argument is a pointer to such a value, which
// avoids an allocation per value.
type (
	bytesArg []byte
	cidArg   event.CommitID
)

// MarshalBinary returns the bytes.
func (b *bytesArg) MarshalBinary() ([]byte, error) { return *b, nil }

// MarshalBinary returns the bytes of the ID.
func (c *cidArg) MarshalBinary() ([]byte, error) { return c[:], nil }

// arguments are the arguments of a script. The texts are in a slice, because a string in list would
// take an allocation of its own.
type arguments struct {
	list   []any
	texts  []string
	header bytesArg // header of a new run
}

// text appends texts to the arguments.
func (a *arguments) text(texts ...string) {
	for _, text := range texts {
		a.texts = append(a.texts, text) // if this moves the slice, the earlier arguments keep the old one
		a.list = append(a.list, &a.texts[len(a.texts)-1])
	}
}

// buffers keeps the buffers of requests for reuse. The buffers of a request are given back only
// after its calls were answered, so nothing refers to them then.
type buffers[T any] struct{ pool sync.Pool }

// buffer contains the buffers of a request: a T for each call.
type buffer[T any] struct {
	each  []T
	calls []*call
}

// take returns a buffer with n zero values and no calls.
func (b *buffers[T]) take(n int) *buffer[T] {
	all, ok := b.pool.Get().(*buffer[T])
	if !ok {
		all = &buffer[T]{}
	}
	all.each = slices.Grow(all.each, n)[:n]
	return all
}

// give keeps a buffer for reuse, unless it is large.
func (b *buffers[T]) give(all *buffer[T]) {
	if cap(all.each) <= 2*batch {
		clear(all.each)
		clear(all.calls)
		all.each, all.calls = all.each[:0], all.calls[:0]
		b.pool.Put(all)
	}
}

// command is the command of a script that go-redis must not retry. If its answer is lost, it is
// unknown whether the script was executed, and the caller decides whether to repeat it. A cluster
// client follows redirections, because a redirected script was not executed.
type command struct{ *redis.Cmd }

// NoRetry makes go-redis send the command only once.
func (command) NoRetry() bool { return true }

func (c *call) command(ctx context.Context, whole bool) command {
	args := c.buffer[:0:len(c.buffer)]
	if n := 4 + len(c.keys) + len(c.args); n > len(c.buffer) {
		args = make([]any, 0, n)
	}
	args = append(c.script.head(args, whole), len(c.keys)+1)
	for i := range c.keys {
		args = append(args, &c.keys[i])
	}
	args = append(args, &c.p.none)
	return command{redis.NewCmd(ctx, append(args, c.args...)...)}
}

// head appends the beginning of the command that executes the script.
func (s *script) head(args []any, whole bool) []any {
	if s.ready(); whole {
		return append(args, "eval", &s.text)
	}
	return append(args, "evalsha", &s.sha)
}

// at returns the time argument of a script. With "0" the script reads the clock of the server.
func (s *Store) at() string {
	if s.injected == nil {
		return "0"
	}
	return number(s.injected.Now().UnixMilli())
}

// answer is a list that a script has returned. Often its first element is a word that names the
// result.
type answer []any

func (c *call) answer() answer {
	a, _ := c.reply.([]any)
	return a
}

func (a answer) word() string { return a.text(0) }

func (a answer) text(i int) string {
	if i >= len(a) {
		return ""
	}
	t, _ := a[i].(string)
	return t
}

func (a answer) number(i int) int64 {
	if i >= len(a) {
		return 0
	}
	n, _ := a[i].(int64)
	return n
}

func (a answer) time(i int) time.Time { return timeOf(parseNumber(a.text(i))) }

// texts returns the elements from index i to the end.
func (a answer) texts(i int) []string {
	var all []string
	for ; i < len(a); i++ {
		all = append(all, a.text(i))
	}
	return all
}

// The first words of the answers of scripts: results, and the reasons for which a script refuses a
// request. This is the only list of these words: decoders use the constants, and a test compares
// the scripts with them.
const (
	answerOK       = "ok"
	answerAccepted = "accepted" // an item was accepted, now or before
	answerCreated  = "created"  // a run was created and waits for permits
	answerTaken    = "taken"    // another session has taken the notification that a claim follows
	answerMoved    = "moved"    // a repair has read data that has changed since

	// Reasons about the run.
	refusedFenced     = "fenced"      // the fence is not that of the run
	refusedConflict   = "conflict"    // the commit does not fit the log, the inbox or the chain of the run
	refusedWorkflowID = "workflow id" // the run has another workflow ID
	refusedUnread     = "unread"      // the inbox is not empty
	refusedUnknown    = "unknown"     // the run does not exist
	refusedEnded      = "ended"       // the run has ended
	refusedNotEnded   = "not ended"   // the run has not ended
	refusedOwned      = "owned"       // another session owns the run
	refusedQueued     = "queued"      // the run waits behind another run or for a permit
	refusedClosed     = "closed"      // the stream is closed

	// Reasons about a start.
	refusedStale    = "stale"     // the deadline of the request has passed
	refusedLater    = "later"     // the run is closing, or cannot be owned at once
	refusedExisting = "existing"  // the workflow ID has an active run, which is the answer
	refusedActive   = "active"    // the workflow ID has an active run
	refusedFinished = "refused"   // the workflow ID has an ended run
	refusedTooHeavy = "too heavy" // a use exceeds the capacity of its limit
	refusedFull     = "full"      // too many runs wait for a limit, or a value is too large for its space

	// Reasons about a session or an entry.
	refusedExpired = "expired" // the session has ended or is being recovered
	refusedChanged = "changed" // the entry has another version
	refusedNone    = "none"    // the entry does not exist

	// Reasons of a rebuild.
	refusedThere   = "there"
	refusedGoesOn  = "goes on"
	refusedOther   = "other"
	refusedHidden  = "hidden"
	refusedNoChain = "no chain"
	refusedEnds    = "ends"
)
