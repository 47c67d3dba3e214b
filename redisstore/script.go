package redisstore

import (
	"context"
	"crypto/sha1" //nolint:gosec // Redis names scripts by it
	"embed"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/event"
)

//go:embed lua/*.lua lua/part/*.lua
var sources embed.FS

// script is one operation on the server.
type script struct {
	name string
	text string
	sha  string
}

var (
	scriptCreate       = load("create")
	scriptGather       = load("gather")
	scriptOpenSession  = load("open_session")
	scriptHeartbeat    = load("heartbeat")
	scriptReconcile    = load("reconcile")
	scriptServes       = load("serves")
	scriptFleet        = load("fleet")
	scriptCloseSession = load("close_session")
	scriptClaim        = load("claim")
	scriptClaimRun     = load("claim_run")
	scriptDue          = load("due")
	scriptCommit       = load("commit")
	scriptAppend       = load("append")
	scriptFinish       = load("finish")
	scriptRelease      = load("release")
	scriptDeliver      = load("deliver")
	scriptLook         = load("look")
	scriptWatch        = load("watch")
	scriptStepData     = load("step_data")
	scriptPurge        = load("purge")
	scriptDelete       = load("delete")
	scriptOutbox       = load("outbox")
	scriptMark         = load("mark")
	scriptConfirm      = load("confirm")
	scriptRepairRun    = load("repair_run")
	scriptRepairLinks  = load("repair_links")
	scriptRepairName   = load("repair_name")
	scriptForget       = load("forget")
	scriptReplace      = load("replace")
	scriptPublish      = load("publish")
	scriptStream       = load("stream")
	scriptSetLimit     = load("set_limit")
	scriptRepairLimits = load("repair_limits")
	scriptMigrate      = load("migrate")
	scriptLabel        = load("label")
	scriptJournal      = load("journal")
	scriptImport       = load("import")
	scriptView         = load("view")
	scriptCount        = load("count")
)

// load puts a script together from its own text and the parts that it names. Comments
// are left out of what the server keeps.
func load(name string) *script {
	var b strings.Builder
	put(&b, name)
	text := b.String()
	sum := sha1.Sum([]byte(text)) //nolint:gosec // Redis names scripts by it
	return &script{name: name, text: text, sha: hex.EncodeToString(sum[:])}
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
	if whole {
		args = append(args, "eval", &c.script.text)
	} else {
		args = append(args, "evalsha", &c.script.sha)
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
