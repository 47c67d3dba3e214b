package workflowtest

import (
	stdcmp "cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// Log returns the log of a run as text, one line for each event. A line contains the time since the
// creation of the run, the type, the key and the data. Log does not wait. The text contains no IDs
// and no names of workers, so it is the same in each execution.
func (e *Env) Log(run *workflow.Handle) []string {
	e.tb.Helper()
	events, err := e.events(run.ID())
	if err != nil {
		e.tb.Fatalf("workflowtest: Log: %v", err)
	}
	return textOf(events)
}

// WantLog fails the test if the log of a run differs from want. The failure shows the difference.
func (e *Env) WantLog(run *workflow.Handle, want ...string) {
	e.tb.Helper()
	if d := diff(want, e.Log(run)); d != "" {
		e.tb.Errorf("workflowtest: the log of run %s differs (-want +got):\n%s", run.ID(), d)
	}
}

func (e *Env) events(id event.RunID) ([]event.Event, error) {
	loaded, err := e.store.Load(context.Background(), []store.Load{{Run: id}})
	if err == nil {
		err = loaded[0].Err
	}
	if err != nil {
		return nil, fmt.Errorf("read the log of run %s: %w", id, err)
	}
	return decode(loaded[0].Frames)
}

// textOf renders events.
func textOf(events []event.Event) []string {
	keys := map[uint64]string{}
	lines := make([]string, 0, len(events))
	for i := range events {
		ev := &events[i]
		if ev.Type.Creates() {
			keys[ev.Seq] = stdcmp.Or(ev.Key, ev.Name)
		}
		lines = append(lines, lineOf(ev, events[0].Time, keys[ev.Ref]))
	}
	return lines
}

// lineOf renders one event. key is the key of its entity.
func lineOf(ev *event.Event, start time.Time, key string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "+%v %s", ev.Time.Sub(start), ev.Type)
	word := func(format string, args ...any) { fmt.Fprintf(&b, " "+format, args...) }
	switch {
	case ev.Key != "" && ev.Type.Entity() != event.EntityAsk && (ev.Type.Entity() != event.EntityStep || ev.Type.Creates()): // keys of other events are item IDs, which vary
		word("%s", ev.Key)
	case key != "":
		word("%s", key)
	}
	switch ev.Type {
	case event.RunCreated:
		if ev.Spec != nil {
			word("%s", ev.Spec.Workflow)
		}
	case event.WaitCreated:
		word("%s", ev.Wait)
		if ev.Name != "" {
			word("%s", ev.Name)
		}
	case event.WaitCompleted:
		word("%s", ev.Outcome)
	case event.MessageReceived, event.HookCreated, event.StepHookCreated, event.AskReceived, event.AskAccepted:
		word("%s", ev.Name)
	}
	if ev.Attempt > 0 {
		word("attempt %d", ev.Attempt)
	}
	if !ev.Due.IsZero() {
		word("due +%v", ev.Due.Sub(start))
	}
	if ev.Reason != "" {
		word("%q", ev.Reason)
	}
	for _, u := range ev.Uses {
		word("%d of %s", u.Weight, store.LimitID{Name: u.Limit, Key: u.Key})
	}
	if !ev.From.IsZero() {
		word("since +%v", ev.From.Sub(start))
	}
	if len(ev.Payload) > 0 && ev.Type != event.HookCreated && ev.Type != event.StepHookCreated { // the payload of these types is the shape of accepted payloads
		word("%s", ev.Payload)
	}
	if ev.Failure != nil {
		word("%s: %s", ev.Failure.Code, ev.Failure.Message)
	}
	if n := len(ev.Unread); n > 0 {
		word("%d unread", n)
	}
	return b.String()
}

// diff returns the difference between two values as readable text, or "" if they are equal.
func diff(want, got any, opts ...cmp.Option) string {
	// cmp writes non-breaking spaces to discourage programs from parsing its output.
	return strings.ReplaceAll(cmp.Diff(want, got, opts...), "\u00a0", " ")
}

// sideBySide renders two texts in columns. It marks lines that differ.
func sideBySide(leftTitle string, left []string, rightTitle string, right []string) string {
	const most = 76
	clip := func(s string) string {
		if r := []rune(s); len(r) > most {
			return string(r[:most-1]) + "…"
		}
		return s
	}
	width := len([]rune(leftTitle))
	for _, l := range left {
		width = max(width, len([]rune(clip(l))))
	}
	var b strings.Builder
	row := func(l, mark, r string) {
		l, r = clip(l), clip(r)
		line := l + strings.Repeat(" ", width-len([]rune(l))) + " " + mark + " " + r
		b.WriteString("    " + strings.TrimRight(line, " ") + "\n")
	}
	row(leftTitle, " ", rightTitle)
	for _, p := range align(left, right) {
		row(p.left, p.mark, p.right)
	}
	return b.String()
}

type pair struct{ left, mark, right string }

// align pairs equal lines of two texts by their longest common subsequence.
func align(left, right []string) []pair {
	n, m := len(left), len(right)
	common := make([][]int, n+1)
	for i := range common {
		common[i] = make([]int, m+1)
	}
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			if left[i] == right[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var pairs []pair
	i, j := 0, 0
	for i < n || j < m {
		switch {
		case i < n && j < m && left[i] == right[j]:
			pairs = append(pairs, pair{left[i], " ", right[j]})
			i, j = i+1, j+1
		case j >= m || i < n && common[i+1][j] >= common[i][j+1]:
			pairs = append(pairs, pair{left[i], "<", ""})
			i++
		default:
			pairs = append(pairs, pair{"", ">", right[j]})
			j++
		}
	}
	return pairs
}
