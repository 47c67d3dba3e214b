package workflowtest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// CrashReport contains the figures of an exploration by CrashEverywhere.
type CrashReport struct {
	Events      int // length of the log of the execution without a crash
	Points      int // number of points at which the worker can be killed
	Tried       int // number of executions with one crash
	Pairs       int // number of executions with two crashes
	Interrupted int // number of executions in which a crash made a step fail as interrupted, which was allowed
	Missed      int // number of executions that did not reach their crash point, because in real time the order of events varies
	Failed      int // number of executions with a wrong outcome
}

// maxFailures is the number of failures after which an exploration stops.
const maxFailures = 3

// CrashEverywhere proves that a workflow survives crashes of its worker. It executes the workflow
// once without a crash, and then once for each point at which a worker can crash: before a request
// to the store arrives, before its response arrives, and whenever everything waits. These points
// cover the time after each event of the log, before each step and in the middle of each step. At
// the point, the worker is killed and loses everything in its memory. A new worker continues the
// run. Then CrashEverywhere tries pairs of two crashes.
//
// The test fails if the run ends differently, if steps ran with other arguments or ended
// differently, if a completed step ran again, if a message was lost, or if the result of [State]
// differs. A failure names the point of the crash and shows both logs. It contains the command that
// repeats only this crash.
//
// setup prepares each Env: it registers the workflow and its steps, adds stand-ins, and plans
// messages with [Env.At] to [Env.Run]. It is called for each execution, and must create new
// dependencies each time.
func CrashEverywhere[In, Out any](t testing.TB, d workflow.Definition[In, Out], in In, setup func(*Env), opts ...Option) CrashReport {
	t.Helper()
	w := newWorkload(t, d, in, setup, opts)
	c := &crashes{workload: w, random: rand.New(rand.NewPCG(w.explo.seed, 1))}
	only := w.explo.crash
	if only == "" {
		only = *crashFlag
	}
	if !c.baseline() {
		return c.report
	}
	if only != "" {
		c.try(strings.Split(only, "+"))
		if c.report.Missed > 0 {
			t.Errorf("workflowtest: the execution did not reach the point %s: take it from a failure of the same test and the same code", only)
		}
	} else {
		c.single()
		c.pairs()
	}
	c.finish()
	return c.report
}

// crashes is the state of one call of CrashEverywhere.
type crashes struct {
	*workload
	random *rand.Rand
	want   *trial
	report CrashReport
	drift  string // differences between two executions without a crash; empty: none
	after  []*trial
	failed []failure
}

// failure is an execution with a wrong outcome.
type failure struct {
	text    string
	point   string
	precise bool // the Env has detected the cause
}

// baseline executes the workflow twice without a crash. It returns false if the workflow fails.
func (c *crashes) baseline() bool {
	c.t.Helper()
	c.want = c.run(nil, nil)
	if len(c.want.problems) > 0 {
		c.t.Errorf("workflowtest: CrashEverywhere of %s: it fails without a crash:\n%s", c.name, indent(strings.Join(c.want.problems, "\n")))
		return false
	}
	c.report.Events, c.report.Points = len(c.want.events), len(c.want.points)
	again := c.run(nil, nil)
	if problems, _ := c.same(c.want, again); len(problems) > 0 {
		c.drift = strings.Join(problems, "\n")
	}
	return true
}

// enough reports whether there are maxFailures failures, one of which has a precise cause.
func (c *crashes) enough() bool {
	return len(c.failed) >= maxFailures && slices.ContainsFunc(c.failed, func(f failure) bool { return f.precise })
}

// single tries a crash at every point.
func (c *crashes) single() {
	points := slices.Clone(c.want.points)
	if n := c.explo.sample; n > 0 && n < len(points) {
		c.random.Shuffle(len(points), func(i, j int) { points[i], points[j] = points[j], points[i] })
		points = points[:n]
	}
	for i := range points {
		if c.enough() {
			return
		}
		c.report.Tried++
		if tr := c.try([]string{points[i].id}); tr != nil {
			c.after = append(c.after, tr)
		}
	}
}

// pairs tries second crashes after first crashes.
func (c *crashes) pairs() {
	var all [][]string
	for _, tr := range c.after {
		if len(tr.killed) == 0 {
			continue
		}
		for _, p := range tr.points[tr.killed[0]+1:] {
			all = append(all, []string{tr.kills[0], p.id})
		}
	}
	if len(all) > c.explo.pairs {
		c.random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		all = all[:c.explo.pairs]
	}
	for _, kills := range all {
		if len(c.failed) > 0 {
			return
		}
		c.report.Pairs++
		c.try(kills)
	}
}

// try executes the workflow with crashes at the points kills. It returns the execution, or nil if
// the outcome was wrong.
func (c *crashes) try(kills []string) *trial {
	tr := c.run(func(e *Env) { e.crash.kills = slices.Clone(kills) }, nil)
	tr.kills = kills
	problems, interrupted := c.same(c.want, tr)
	if interrupted {
		c.report.Interrupted++
	}
	if len(tr.killed) < len(kills) {
		c.report.Missed++
	}
	if len(problems) == 0 {
		return tr
	}
	c.report.Failed++
	var b strings.Builder
	fmt.Fprintf(&b, "workflowtest: %s does not survive a crash.\n", c.name)
	for i, at := range tr.killed {
		nth := "The worker was killed when"
		if i > 0 {
			nth = "The next worker was killed when"
		}
		fmt.Fprintf(&b, "%s %s.\n", nth, tr.points[at].String())
	}
	if len(tr.killed) == 0 {
		fmt.Fprintf(&b, "The worker should have been killed at %s, which this execution did not reach.\n", strings.Join(kills, "+"))
	}
	if c.drift != "" {
		b.WriteString("Note that two executions without any crash differ, too: something in the workflow, in its steps or in the test changes by itself " +
			"(the clock, random numbers, the order of a map, what an earlier execution has left).\n")
	}
	for _, p := range problems {
		b.WriteString(p + "\n")
	}
	b.WriteString("The logs:\n" + sideBySide("without a crash", c.want.Log, "with it", tr.Log))
	fmt.Fprintf(&b, "Try only this one again: go test -run '^%s$' -workflowtest.crash=%s", rootTest(c.t.Name()), strings.Join(kills, "+"))
	c.failed = append(c.failed, failure{b.String(), strings.Join(kills, "+"), len(tr.problems) > 0})
	return nil
}

// rootTest returns the pattern that selects the test with this name, which may be a subtest.
func rootTest(name string) string { return strings.ReplaceAll(name, "/", "$/^") }

// finish reports the failures to the test, and the differences between executions without a crash.
func (c *crashes) finish() {
	c.t.Helper()
	slices.SortStableFunc(c.failed, func(a, b failure) int {
		switch {
		case a.precise == b.precise:
			return 0
		case a.precise:
			return -1
		}
		return 1
	})
	if len(c.failed) > 0 {
		lines := []string{c.failed[0].text}
		for _, f := range c.failed[1:min(len(c.failed), maxFailures)] {
			lines = append(lines, "It fails at another point, too: -workflowtest.crash="+f.point)
		}
		c.t.Error(strings.Join(lines, "\n"))
	}
	if c.drift != "" && c.report.Failed == 0 {
		c.report.Failed++
		c.t.Errorf("workflowtest: two executions of %s without any crash differ: something in the workflow, in its steps or in the test changes by itself "+
			"(the clock, random numbers, the order of a map, what an earlier execution has left):\n%s", c.name, indent(c.drift))
	}
	r := c.report
	c.t.Logf("workflowtest: %s, %d events: killed at %d of %d points and at %d pairs of points; in %d of these executions a step was interrupted that may be",
		c.name, r.Events, r.Tried, r.Points, r.Pairs, r.Interrupted)
}
