package orders

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// timeline prints the events of a run as they happen.
type timeline struct {
	out   io.Writer
	color bool
	start time.Time
	names map[uint64]string // names of steps and waits by the number of the event that created them
	keys  map[uint64]string
}

func newTimeline(out io.Writer) *timeline {
	t := &timeline{out: out, names: map[uint64]string{}, keys: map[uint64]string{}}
	if f, ok := out.(*os.File); ok && os.Getenv("NO_COLOR") == "" {
		info, err := f.Stat()
		t.color = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return t
}

const (
	dim    = "2"
	green  = "32"
	yellow = "33"
	blue   = "36"
	red    = "31"
)

func (t *timeline) paint(code, text string) string {
	if !t.color {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

func (t *timeline) header(id workflow.RunID, what string) {
	_, _ = fmt.Fprintf(t.out, "run %s %s\n", id, what)
}

func (t *timeline) print(e event.Event) {
	if t.start.IsZero() {
		t.start = e.Time
	}
	if e.Type.Creates() {
		t.names[e.Seq], t.keys[e.Seq] = label(&e), e.Key
	}
	mark, color, text := t.describe(&e)
	if mark == "" {
		return
	}
	name := t.names[e.Ref]
	if e.Ref == 0 {
		name = "run"
	}
	_, _ = fmt.Fprintf(t.out, "%s %s %s %s %s\n",
		t.paint(dim, fmt.Sprintf("%3d %7.3fs", e.Seq, e.Time.Sub(t.start).Seconds())),
		t.bar(t.keys[e.Ref]), t.paint(color, mark), t.paint(color, fmt.Sprintf("%-9s", printable(name))), printable(text))
}

// printable escapes characters that a terminal would interpret. Names, payloads and errors may
// contain any characters.
func printable(s string) string {
	var b strings.Builder
	for _, r := range s {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// bar returns the indentation for the events of the branch with the given key.
func (t *timeline) bar(key string) string {
	if n := strings.Count(key, "/") - 1; n > 0 {
		return t.paint(dim, "│"+strings.Repeat("├─", n))
	}
	return t.paint(dim, "│")
}

func label(e *event.Event) string {
	if e.Type == event.StepCreated {
		return e.Name[strings.LastIndexByte(e.Name, '.')+1:]
	}
	if e.Wait == event.WaitMessage {
		return e.Name
	}
	return e.Wait.String()
}

func (t *timeline) describe(e *event.Event) (mark, color, text string) {
	switch e.Type {
	case event.RunCreated:
		return "●", blue, fmt.Sprintf("%s created with %s", e.Spec.Workflow, e.Payload)
	case event.RunStarted:
		return "▶", blue, "started by " + e.By
	case event.StepStarted:
		return "▶", blue, fmt.Sprintf("attempt %d", e.Attempt)
	case event.StepRetrying:
		if e.Failure.Code == event.CodeStopped {
			return "↻", yellow, e.Failure.Message
		}
		return "↻", yellow, fmt.Sprintf("attempt %d failed: %s; next in %v", e.Attempt, e.Failure.Message, e.Due.Sub(e.Time))
	case event.StepCompleted:
		return "✔", green, string(e.Payload)
	case event.StepFailed:
		return "✘", red, e.Failure.Message
	case event.WaitCreated:
		text = "waits"
		if !e.Due.IsZero() {
			text += fmt.Sprintf(", at most %v", e.Due.Sub(e.Time))
		}
		return "…", dim, text
	case event.WaitCompleted:
		return "✔", green, e.Outcome.String()
	case event.MessageReceived:
		return "✉", yellow, fmt.Sprintf("message %s: %s", e.Name, e.Payload)
	case event.ResourceWait:
		return "…", yellow, fmt.Sprintf("waits for limits since %v", e.From.Format(time.TimeOnly))
	case event.RunCompleted:
		return "✔", green, "completed"
	case event.RunFailed, event.RunCanceled:
		return "✘", red, e.Failure.Message
	}
	return "", "", ""
}
