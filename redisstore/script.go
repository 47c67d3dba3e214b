package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
)

//go:embed lua/*.lua lua/part/*.lua
var sources embed.FS

// script is one operation on the server. Its text is put together when it is first needed: all of them take 8 ms and 8 MB of
// garbage, which would be paid by every program that imports this package.
type script struct {
	name      string
	load      sync.Once
	text, sha string // once it is ready
}

var (
	scriptCreate       = newScript("create")
	scriptGather       = newScript("gather")
	scriptOpenSession  = newScript("open_session")
	scriptHeartbeat    = newScript("heartbeat")
	scriptReconcile    = newScript("reconcile")
	scriptServes       = newScript("serves")
	scriptFleet        = newScript("fleet")
	scriptCloseSession = newScript("close_session")
	scriptClaim        = newScript("claim")
	scriptClaimRun     = newScript("claim_run")
	scriptSeize        = newScript("seize")
	scriptDue          = newScript("due")
	scriptCommit       = newScript("commit")
	scriptAppend       = newScript("append")
	scriptFinish       = newScript("finish")
	scriptRelease      = newScript("release")
	scriptDeliver      = newScript("deliver")
	scriptLook         = newScript("look")
	scriptWatch        = newScript("watch")
	scriptStepData     = newScript("step_data")
	scriptPurge        = newScript("purge")
	scriptDelete       = newScript("delete")
	scriptOutbox       = newScript("outbox")
	scriptMark         = newScript("mark")
	scriptConfirm      = newScript("confirm")
	scriptRebuild      = newScript("rebuild")
	scriptForget       = newScript("forget")
	scriptReplace      = newScript("replace")
	scriptPublish      = newScript("publish")
	scriptStream       = newScript("stream")
	scriptSetLimit     = newScript("set_limit")
	scriptRepairLimits = newScript("repair_limits")
	scriptJournal      = newScript("journal")
	scriptImport       = newScript("import")
	scriptView         = newScript("view")
	scriptCount        = newScript("count")
)

func newScript(name string) *script { return &script{name: name} }

// ready puts the script together, once, from its own text and the parts that it names. Comments
// are left out of what the server keeps.
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

// put adds a text, and in it those of the parts that it names.
func put(b *strings.Builder, name string) {
	for line := range strings.Lines(source(name)) {
		code := strings.TrimSpace(line)
		if parts, ok := partsOf(code); ok {
			for _, part := range parts {
				put(b, "part/"+part)
			}
		} else if code != "" && !strings.HasPrefix(code, "--") {
			b.WriteString(line)
		}
	}
}

// partsOf returns the parts that a line names: in the header those with which a script
// begins ("none": it has none), and further down those that are needed from there on only.
// Each execution makes the functions of a part anew, which takes time.
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

// call is one execution of a script. reply and err are set once it was sent.
type call struct {
	script *script
	p      *partition
	keys   []string
	args   []any
	reply  any
	err    error
	buffer []any // for what is sent; nil: to be made
	size   int   // bytes that are sent, about; 0: few
}

// Values that go-redis writes as they are, without being boxed one by one: it is given
// pointers to where they stand.
type (
	bytesArg []byte
	cidArg   event.CommitID
)

// MarshalBinary returns the bytes.
func (b *bytesArg) MarshalBinary() ([]byte, error) { return *b, nil }

// MarshalBinary returns the bytes of the id.
func (c *cidArg) MarshalBinary() ([]byte, error) { return c[:], nil }

// command is a script that go-redis must not send again by itself: whether it
// was executed is not known then, and that is for the caller to deal with. Being
// sent elsewhere by a cluster is another thing: it was not executed.
type command struct{ *redis.Cmd }

// NoRetry tells go-redis.
func (command) NoRetry() bool { return true }

func (c *call) command(ctx context.Context, whole bool) command {
	args := c.buffer[:0:len(c.buffer)]
	if n := 4 + len(c.keys) + len(c.args); n > len(c.buffer) {
		args = make([]any, 0, n)
	}
	if s := c.script.ready(); whole {
		args = append(args, "eval", &s.text)
	} else {
		args = append(args, "evalsha", &s.sha)
	}
	args = append(args, len(c.keys)+1)
	for i := range c.keys {
		args = append(args, &c.keys[i])
	}
	args = append(args, &c.p.none)
	return command{redis.NewCmd(ctx, append(args, c.args...)...)}
}

// at returns the time for a script: '0' tells it to read the server's clock.
func (s *Store) at() string {
	if s.injected == nil {
		return "0"
	}
	return number(s.injected.Now().UnixMilli())
}

// answer is the reply of a script that begins with a word.
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

// texts returns everything from number i on.
func (a answer) texts(i int) []string {
	var all []string
	for ; i < len(a); i++ {
		all = append(all, a.text(i))
	}
	return all
}
