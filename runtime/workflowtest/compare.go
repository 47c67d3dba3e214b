package workflowtest

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// everything makes cmp compare unexported fields.
var everything = cmp.Exporter(func(reflect.Type) bool { return true })

// same describes the differences between want, an execution without a crash, and got, an execution
// with a crash. It returns no problems if they are equivalent. interrupted reports that a step
// failed because of the crash and that this failure is allowed. In that case, outcomes are not
// compared, and only problems that are never allowed are returned.
func (w *workload) same(want, got *trial) (problems []string, interrupted bool) {
	problems = slices.Clone(got.problems)
	problems = append(problems, executedAgain(got)...)
	if len(problems) > 0 {
		if got.blocked {
			problems = append(problems, nondeterminism)
		}
		return problems, false
	}
	if keys := newInterrupted(want, got); len(keys) > 0 {
		bad := w.forbidden(keys, got)
		if bad == nil {
			return w.lost(want, got), true
		}
		return bad, false
	}
	if p := outcomeDiffers(want, got); p != "" {
		problems = append(problems, p)
	}
	if d := diff(want.steps, got.steps); d != "" {
		problems = append(problems, "other steps were executed, or with other arguments, or ended otherwise (- without a crash, + with it):\n"+indent(d))
	}
	problems = append(problems, w.lost(want, got)...)
	if d := stateDiff(want, got); d != "" {
		problems = append(problems, d)
	}
	if len(problems) > 0 {
		problems = append(problems, hints(want, got))
	}
	return problems, false
}

// executedAgain describes executions of steps that the engine must never start.
func executedAgain(got *trial) []string {
	var problems []string
	executed := map[string]bool{}
	for _, f := range got.effects {
		switch {
		case f.again:
			problems = append(problems, fmt.Sprintf("step %s (%s) was executed again after its completion was recorded: that is a defect of the engine", f.Step, f.Key))
		case f.once && executed[f.Key]:
			problems = append(problems, fmt.Sprintf("step %s (%s) is declared nonidempotent and was executed twice: that is a defect of the engine", f.Step, f.Key))
		}
		executed[f.Key] = true
	}
	return problems
}

// newInterrupted returns the keys of the steps that the crash has made fail as interrupted.
func newInterrupted(want, got *trial) []string {
	var keys []string
	for key, end := range got.steps {
		if end.Code == event.CodeInterrupted && want.steps[key].Code != event.CodeInterrupted {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// forbidden describes the steps with the given keys that must not fail as interrupted. It returns
// nil if all of them may fail.
func (w *workload) forbidden(keys []string, got *trial) []string {
	if w.explo.interrupted {
		return nil
	}
	var bad []string
	for _, key := range keys {
		if !slices.ContainsFunc(got.effects, func(f effect) bool { return f.Key == key && f.once }) && !declaredOnce(got, key) {
			bad = append(bad, fmt.Sprintf("step %s (%s) failed as interrupted: the crash was during its last attempt, for a crash counts as one.\n"+
				"To fix it: allow more attempts (retries=), or declare the step nonidempotent if it must not run again; if that may be so, pass AllowInterrupted.", got.steps[key].Step, key))
		}
	}
	return bad
}

// declaredOnce reports whether the step with the given key is declared nonidempotent. It also
// applies to a step whose code never began.
func declaredOnce(got *trial, key string) bool { return got.onceSteps[got.steps[key].Step] }

func outcomeDiffers(want, got *trial) string {
	type outcome struct {
		Status  workflow.Status
		Result  string
		Failure string
	}
	of := func(t *trial) outcome {
		o := outcome{Status: t.Status, Result: string(t.Result)}
		if t.Failure != nil {
			o.Failure = t.Failure.Code + ": " + t.Failure.Message
		}
		return o
	}
	if d := diff(of(want), of(got)); d != "" {
		return "the run ended otherwise (- without a crash, + with it):\n" + indent(d)
	}
	return ""
}

// lost describes messages that the run has accepted but not read. If want is not nil, messages are
// lost only if want has fewer unread messages.
func (w *workload) lost(want, got *trial) []string {
	lines := got.unread()
	if w.explo.unread || len(lines) == 0 || want != nil && len(lines) <= len(want.unread()) {
		return nil
	}
	return []string{"the run ended, and messages that it had accepted were never taken:\n" + indent(strings.Join(lines, "\n")) +
		"\nTo fix it: receive until nothing is left (TryReceive in a loop) before the workflow returns, or wait for all messages in one place; if they may be dropped, pass AllowUnread."}
}

func stateDiff(want, got *trial) (text string) {
	defer func() {
		if r := recover(); r != nil {
			text = fmt.Sprintf("what State returned cannot be compared: %v", r)
		}
	}()
	if d := diff(want.state, got.state, everything); d != "" {
		return "what State returned differs (- without a crash, + with it):\n" + indent(d)
	}
	return ""
}

// hints describes the usual cause of the differences.
func hints(want, got *trial) string {
	if changed := countsDiffer(want.effects, got.effects); len(changed) > 0 {
		return "The crash has changed how often steps were executed: " + strings.Join(changed, ", ") + ". That is what it does to a step that is under way: it is executed again.\n" +
			"To fix it: make the effect of the step the same however often it is executed (give step.IdempotencyKey(ctx) to the system that has the effect), or declare it nonidempotent."
	}
	if keys := overtaken(want, got); len(keys) > 0 {
		return "A step failed while others were under way, which cancels them, and the crash has changed which of them had ended by then: " + strings.Join(keys, ", ") +
			". Attempts at the same time have no order, and both outcomes are right.\n" +
			"To fix it: let the others finish (onfail=finish, workflow.MapSettled, workflow.Settled), or one begin after the other (workflow.Limit(1))."
	}
	return "No step was executed more often, so the difference was made by the code of the workflow: after a crash it runs again from its beginning, against the log.\n" +
		"To fix it: let it change nothing but its own variables, and look at nothing but its input, what steps and messages gave it, workflow.Now, Rand, UUID and Record; " +
		"effects belong into steps, and LogLength must decide nothing but when to stop."
}

// overtaken returns the keys of steps that ended in only one of two failed executions. In the other
// execution, the failure has canceled the step or prevented it from beginning.
func overtaken(want, got *trial) (keys []string) {
	if want.Failure == nil || got.Failure == nil {
		return nil
	}
	ended := func(t *trial, key string) bool {
		end, begun := t.steps[key]
		return begun && end.Code != event.CodeCanceled
	}
	all := maps.Clone(want.steps)
	maps.Copy(all, got.steps)
	for key := range all {
		if ended(want, key) != ended(got, key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// countsDiffer describes the steps whose number of executions differs.
func countsDiffer(want, got []effect) []string {
	counts := map[string][2]int{}
	count := func(effects []effect, i int) {
		for _, f := range effects {
			n := counts[f.Key]
			n[i]++
			counts[f.Key] = n
		}
	}
	count(want, 0)
	count(got, 1)
	var changed []string
	for _, key := range slices.Sorted(maps.Keys(counts)) {
		if n := counts[key]; n[0] != n[1] {
			changed = append(changed, fmt.Sprintf("%s (%d instead of %d)", key, n[1], n[0]))
		}
	}
	return changed
}

func indent(s string) string {
	return "  " + strings.ReplaceAll(strings.TrimRight(s, "\n"), "\n", "\n  ")
}
