package workflowtest

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/runtime/internal/stack"
)

var discard = slog.New(slog.DiscardHandler)

// logHandler writes the log records of the worker and the workflows to the test. It detects records
// about blocking code.
type logHandler struct {
	env   *Env
	attrs []slog.Attr
}

// Enabled reports true.
func (h *logHandler) Enabled(context.Context, slog.Level) bool { return true }

// Handle writes one record.
func (h *logHandler) Handle(_ context.Context, r slog.Record) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	trace, name := "", ""
	add := func(a slog.Attr) bool {
		switch a.Key {
		case "stack":
			trace = a.Value.String()
		case "workflow":
			name = a.Value.String()
		}
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	}
	for _, a := range h.attrs {
		add(a)
	}
	r.Attrs(add)
	if strings.HasPrefix(r.Message, "code of a run blocks outside") {
		h.env.blocks(name, trace)
	}
	if h.env.options.quiet {
		return nil
	}
	h.env.log(b.String())
	return nil
}

// WithAttrs returns a handler that adds attributes.
func (h *logHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	n := *h
	n.attrs = append(slices.Clip(n.attrs), attrs...)
	return &n
}

// WithGroup returns h, because groups are ignored.
func (h *logHandler) WithGroup(string) slog.Handler { return h }

// log writes a line to the test while it runs.
func (e *Env) log(line string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if !e.closed {
		e.tb.Log(line)
	}
}

// frameLine matches one frame of a stack in a goroutine profile.
var frameLine = regexp.MustCompile(`(?m)^#\s+\S+\s+(\S+?)\+0x[0-9a-f]+\s+(\S+:\d+)$`)

// blocks records that the code of a workflow blocks outside of the durable operations.
func (e *Env) blocks(workflow, trace string) {
	where := ""
	for _, m := range frameLine.FindAllStringSubmatch(trace, -1) {
		if file, _, _ := strings.Cut(m[2], ".go:"); stack.IsUsers(m[1], file+".go") {
			where = " at " + m[2]
			break
		}
	}
	e.mu.Lock()
	e.blocked = fmt.Sprintf("the code of workflow %s blocks outside of the durable operations%s: it waits for a channel, a lock or a goroutine, or loops: "+
		"wait with workflow.Sleep, Receive or a Future, open branches with workflow.Go, and do what takes time in a step", workflow, where)
	e.mu.Unlock()
	e.wakeUp()
}

// losersTook logs a warning if branches that lost a race took messages or payloads. It logs one
// warning for each place in the code.
func (e *Env) losersTook(workflow string, taken []string) {
	if e.options.quiet {
		return
	}
	for _, what := range taken {
		text := loserTook(workflow, what)
		e.mu.Lock()
		first := !e.warned[text]
		if e.warned == nil {
			e.warned = map[string]bool{}
		}
		e.warned[text] = true
		e.mu.Unlock()
		if first {
			e.log("WARN " + text)
		}
	}
}

func loserTook(workflow, what string) string {
	return fmt.Sprintf("workflow %s: a branch that had lost a First, Any or All took %s, and nobody has asked for its result since: "+
		"wait with workflow.Select, whose losers take nothing, or end the losers by the CancelFunc of a workflow.WithCancel", workflow, what)
}
