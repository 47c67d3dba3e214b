package workflowtest

import (
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/replay"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// InterleaveReport contains the figures of an exploration by Interleave.
type InterleaveReport struct {
	Seeds    int // number of executions
	Orders   int // number of different orders of events
	Outcomes int // number of different outcomes
	Canceled int // number of executions in which the run was canceled
	Failed   int
}

// Interleave executes a workflow once for each of the given number of seeds. The seed determines
// the order in which steps begin and end, timers fire, and functions planned with [Env.At] are
// called. A message may arrive before or after any other event, regardless of its planned time.
// With every fourth seed, Interleave also cancels the run at some moment.
//
// Different orders may lead to different outcomes, but the following must hold for each:
//
//   - The run ends.
//   - A replay of its log takes the code down the same path.
//   - The run reads all accepted messages, unless it was canceled.
//   - The branches of the run deadlock in all orders or in none.
//   - If the run is canceled while it waits, it does not complete as if it had not been canceled.
//   - The conditions of [Check] hold.
//   - Executions with the same outcome have the same result of [State].
//
// A failure contains its seed. The flag -workflowtest.seed tries only that seed. setup is called as
// by [CrashEverywhere].
func Interleave[In, Out any](t testing.TB, d workflow.Definition[In, Out], in In, setup func(*Env), seeds int, opts ...Option) InterleaveReport {
	t.Helper()
	w := newWorkload(t, d, in, setup, opts)
	i := &interleaving{workload: w, orders: map[uint64]bool{}, outcomes: map[string]any{}}
	first := w.explo.seed
	if *seedFlag != 0 {
		first, seeds = *seedFlag, 1
	}
	for n := range uint64(max(seeds, 0)) {
		if i.report.Failed >= maxFailures {
			break
		}
		i.try(first + n)
	}
	i.report.Orders, i.report.Outcomes = len(i.orders), len(i.outcomes)
	r := i.report
	t.Logf("workflowtest: %s with %d seeds: %d different orders, %d different outcomes; it was told to end %d times", w.name, r.Seeds, r.Orders, r.Outcomes, r.Canceled)
	return r
}

// interleaving is the state of one call of Interleave.
type interleaving struct {
	*workload
	orders   map[uint64]bool
	outcomes map[string]any // result of State for each outcome
	deadlock *string        // text of the deadlock in the first order; empty: no deadlock
	report   InterleaveReport
}

// try executes the workflow with one seed.
func (i *interleaving) try(seed uint64) {
	i.t.Helper()
	random := rand.New(rand.NewPCG(seed, 2))
	cancels := seed%4 == 0 && !i.explo.noCancels
	prepare := func(e *Env) {
		if !e.virtual() {
			e.tb.Error("workflowtest: Interleave needs virtual time: leave WithStore out")
			return
		}
		e.scheduler.choose = func(moves []move) int { return random.IntN(len(moves)) }
		if cancels {
			e.scheduler.calls = append(e.scheduler.calls, &call{at: Epoch, f: e.cancelRun})
		}
	}
	tr := i.run(prepare, i.replays)
	i.report.Seeds++
	canceled := slices.ContainsFunc(tr.events, func(e event.Event) bool { return e.Type == event.CancelRequested && e.Failure == nil })
	if canceled {
		i.report.Canceled++
	}
	i.orders[orderOf(tr.events)] = true
	problems := tr.problems
	if len(problems) == 0 {
		problems = append(problems, i.judge(tr, canceled)...)
	}
	if len(problems) == 0 {
		return
	}
	i.report.Failed++
	if i.report.Failed > 1 {
		i.t.Errorf("workflowtest: %s does not work with seed %d either: -workflowtest.seed=%d", i.name, seed, seed)
		return
	}
	i.t.Errorf("workflowtest: %s does not work with every order of what happens (seed %d).\n%s\nThe log:\n%s\nTry only this one again: go test -run '^%s$' -workflowtest.seed=%d",
		i.name, seed, strings.Join(problems, "\n"), indent(indent(strings.Join(tr.Log, "\n"))), rootTest(i.t.Name()), seed)
}

// judge describes the faults of an execution.
func (i *interleaving) judge(tr *trial, canceled bool) []string {
	var problems []string
	if canceled && !i.explo.outlive {
		if p := swallowed(tr); p != "" {
			problems = append(problems, p)
		}
	}
	if !canceled { // a canceled run may leave messages unread
		problems = append(problems, i.lost(nil, tr)...)
		if p := i.deadlocked(tr); p != "" {
			problems = append(problems, p)
		}
	}
	outcome := fmt.Sprintf("%s %s", tr.Status, tr.Result)
	if tr.Failure != nil {
		outcome += tr.Failure.Code + tr.Failure.Message
	}
	known, seen := i.outcomes[outcome]
	if !seen {
		i.outcomes[outcome] = tr.state
		return problems
	}
	if canceled {
		return problems // executions with this outcome were canceled at different points, so their results of State differ
	}
	if d := stateDiff(&trial{state: known}, tr); d != "" {
		problems = append(problems, "the same outcome, "+strings.TrimSpace(outcome)+", but "+strings.Replace(d, "(- without a crash, + with it)", "(- earlier seed, + this one)", 1))
	}
	return problems
}

// deadlocked describes the fault that the branches of the run deadlock in some orders only. A
// deadlock in every order is not a fault here, because every test detects it.
func (i *interleaving) deadlocked(tr *trial) string {
	what := ""
	if tr.Failure != nil && tr.Failure.Code == event.CodeDeadlock {
		what = tr.Failure.Message
	}
	first := i.deadlock
	if first == nil {
		i.deadlock = &what
	}
	switch {
	case first == nil || (*first == "") == (what == ""):
		return ""
	case what == "":
		return "this order goes well, and another one does not: " + *first
	}
	return "another order goes well, and this one does not: " + what
}

// replays fails the execution if a replay of its log takes the code down another path.
func (i *interleaving) replays(e *Env, tr *trial) {
	if len(tr.events) == 0 {
		return
	}
	run, err := e.replay(tr.Run.ID(), i.name, tr.events)
	if err == nil {
		run.Close()
		return
	}
	if _, ok := errors.AsType[*replay.MismatchError](err); ok {
		tr.problems = append(tr.problems, "its own log, replayed, leads the code another way: "+err.Error()+"\n"+nondeterminism)
		return
	}
	tr.problems = append(tr.problems, err.Error())
}

// nondeterminism is the hint for code that takes another path with the same log.
const nondeterminism = "If the code was not changed, it looks at something that the log does not hold: the clock, random numbers, the order of a map, a global variable. " +
	"Use workflow.Now, Rand, UUID and Record, and sort the keys of maps."

// swallowed describes how a run completed despite its cancellation. It returns "" if it did not.
func swallowed(tr *trial) string {
	at, cut := -1, ""
	for n := range tr.events {
		ev := &tr.events[n]
		// A wait is canceled directly after the request. A canceled step ends when its code has
		// returned.
		ended := n == at+1 && ev.Type == event.WaitCompleted && ev.Outcome == event.OutcomeCanceled ||
			ev.Type == event.StepFailed && ev.Failure != nil && ev.Failure.Code == event.CodeCanceled
		switch {
		case ev.Type == event.CancelRequested && ev.Failure == nil:
			at = n
		case at >= 0 && cut == "" && ended:
			cut = fmt.Sprintf("event %d, %s", ev.Seq, tr.Log[n])
		}
	}
	if at < 0 || cut == "" || tr.Status != workflow.StatusCompleted {
		return ""
	}
	return fmt.Sprintf("the run was told to end (event %d), its operation ended as cancelled (%s), and yet it completed as if nothing had happened.\n"+
		"To fix it: return the error of a cancelled operation, after cleaning up with workflow.Detached; if the run may complete all the same, pass AllowOutlivingCancel.",
		tr.events[at].Seq, cut)
}

// orderOf returns a hash of the order of events.
func orderOf(events []event.Event) uint64 {
	h := fnv.New64a()
	for i := range events {
		ev := &events[i]
		switch ev.Type {
		case event.StepCompleted, event.StepFailed, event.StepRetrying, event.WaitCompleted, event.MessageReceived, event.CancelRequested,
			event.HookReceived, event.AskReceived, event.AskAccepted:
			_, _ = fmt.Fprintf(h, "%d %d %s %s;", ev.Type, ev.Ref, ev.Name, ev.Payload)
		}
	}
	return h.Sum64()
}
