package workflowtest

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/internal/activity"
	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/workflow"
)

func TestExecutedAgain_NoticesWhatAnEngineMustNeverDo(t *testing.T) {
	for name, tt := range map[string]struct {
		effects []effect
		says    string // empty: no text
	}{
		"once each":                     {[]effect{{Key: "a"}, {Key: "b", once: true}}, ""},
		"twice, not completed":          {[]effect{{Key: "a", incarnation: 1}, {Key: "a", incarnation: 2}}, ""},
		"again after its completion":    {[]effect{{Step: "s", Key: "a"}, {Step: "s", Key: "a", again: true}}, "step s (a) was executed again after its completion was recorded"},
		"twice although not idempotent": {[]effect{{Step: "s", Key: "a", once: true}, {Step: "s", Key: "a", once: true}}, "step s (a) is declared nonidempotent and was executed twice"},
	} {
		got := strings.Join(executedAgain(&trial{effects: tt.effects}), "\n")
		if (got == "") != (tt.says == "") || !strings.Contains(got, tt.says) {
			t.Errorf("%s: got %q, want %q", name, got, tt.says)
		}
	}
}

func TestKin_NamesRunsInWhateverOrderTheyAreTold(t *testing.T) {
	specs := map[event.RunID]*event.Spec{
		"root":    {},
		"child":   {Parent: "root", ParentKey: "f/child#1"},
		"second":  {ContinuedOf: "root"},
		"third":   {ContinuedOf: "second"},
		"theirs":  {Parent: "third", ParentKey: "f/child#1"},
		"onwards": {Parent: "third", ParentKey: "f/child#1", ContinuedOf: "theirs"},
		"more":    {Parent: "third", ParentKey: "f/child#1", ContinuedOf: "onwards"},
	}
	want := kin{
		"root": "", "child": "f/child#1/", "second": "turn 2/", "third": "turn 3/", "theirs": "turn 3/f/child#1/",
		"onwards": "turn 3/f/child#1/turn 2/", "more": "turn 3/f/child#1/turn 3/",
	}
	for first := range specs { // the order of iteration varies, so each execution begins with another run
		got := kin{}
		got.add(first, specs)
		for run := range specs {
			got.add(run, specs)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("names, %s told first (-want +got):\n%s", first, d)
		}
	}
}

// TestRead_FollowsAChainInWhateverOrderItIsToldOf proves that the outcome of a run is the outcome
// of the last run of its chain. The Env may record the commit that continues a run after commits of
// later runs.
func TestRead_FollowsAChainInWhateverOrderItIsToldOf(t *testing.T) {
	turns := shim.NewWorkflow[string, string]("shop.turns", "in", shim.WorkflowPolicy{})
	e := New(t)
	shim.BindWorkflow(e, turns, func(ctx workflow.Context, in string) (string, error) {
		if len(in) < 3 {
			return "", turns.ContinueAsNew(ctx, in+"x")
		}
		return in, nil
	})
	run, err := turns.Start(e.Context(), e.Client(), "x")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Result(e.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		slices.Reverse(e.runs)
		tr := &trial{Outcome: Outcome{Run: run.Handle}}
		e.read(tr)
		if tr.Status != workflow.StatusCompleted || string(tr.Result) != `"xxx"` || tr.events[0].Spec.ContinuedOf != "" || tr.last[0].Spec.ContinuedOf == "" {
			t.Errorf("got %s, %s, and a log of %d lines, want the end of the last run", tr.Status, tr.Result, len(tr.Log))
		}
	}
}

func TestAlign_PairsWhatIsEqual(t *testing.T) {
	got := align([]string{"a", "b", "c", "d"}, []string{"a", "c", "x", "d"})
	want := []pair{{"a", " ", "a"}, {"b", "<", ""}, {"c", " ", "c"}, {"", ">", "x"}, {"d", " ", "d"}}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(pair{})); d != "" {
		t.Errorf("pairs (-want +got):\n%s", d)
	}
}

func TestSideBySide_ClipsLongLines(t *testing.T) {
	long := strings.Repeat("ä", 200)
	text := sideBySide("left", []string{long, "same"}, "right", []string{"same"})
	want := "    left" + strings.Repeat(" ", 75) + "right\n    " + strings.Repeat("ä", 75) + "… <\n    same" + strings.Repeat(" ", 75) + "same\n"
	if d := cmp.Diff(want, text); d != "" {
		t.Errorf("text (-want +got):\n%s", d)
	}
}

func TestClock_ShowsTheNewTimeBeforeItCalls(t *testing.T) {
	c := newClock(&activity.Counter{})
	var seen []time.Duration
	note := func() { seen = append(seen, c.Now().Sub(Epoch)) }
	c.AfterFunc(time.Minute, func() {
		note()
		c.AfterFunc(time.Second, note)
	})
	stop := c.AfterFunc(30*time.Second, note)
	if !stop() || stop() {
		t.Error("stop does not tell whether it prevented the call")
	}
	c.AfterFunc(never, note)
	c.AfterFunc(forever, note)
	if got := c.next(); !got.Equal(Epoch.Add(time.Minute)) {
		t.Errorf("next: got %v", got)
	}
	c.moveTo(Epoch.Add(time.Hour))
	c.moveTo(Epoch.Add(time.Minute)) // an earlier time does not move the clock back
	c.moveTo(Epoch.Add(2 * time.Hour))
	if d := cmp.Diff([]time.Duration{time.Hour, 2 * time.Hour}, seen); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if got := c.next(); !got.IsZero() {
		t.Errorf("next: got %v, want none", got)
	}
}

func TestSwallowed_TellsACompletionFromOneThatIgnoresTheCancel(t *testing.T) {
	request := event.Event{Type: event.CancelRequested}
	waitEnds := event.Event{Type: event.WaitCompleted, Outcome: event.OutcomeCanceled}
	stepEnds := event.Event{Type: event.StepFailed, Failure: &event.Failure{Code: event.CodeCanceled}}
	stepCompletes := event.Event{Type: event.StepCompleted}
	for name, tt := range map[string]struct {
		events []event.Event
		status event.Status
		want   bool
	}{
		"wait ends, run completes":            {[]event.Event{request, waitEnds}, event.StatusCompleted, true},
		"step ends, run completes":            {[]event.Event{request, stepCompletes, stepEnds}, event.StatusCompleted, true},
		"run is cancelled":                    {[]event.Event{request, waitEnds}, event.StatusCanceled, false},
		"run fails":                           {[]event.Event{request, waitEnds}, event.StatusFailed, false},
		"last step completes all the same":    {[]event.Event{request, stepCompletes}, event.StatusCompleted, false},
		"loser of a select before the cancel": {[]event.Event{waitEnds, request}, event.StatusCompleted, false},
		"loser of a select in the cleanup":    {[]event.Event{request, stepCompletes, waitEnds}, event.StatusCompleted, false},
		"no cancel":                           {[]event.Event{waitEnds}, event.StatusCompleted, false},
	} {
		tr := &trial{Outcome: Outcome{Status: tt.status, events: tt.events, Log: make([]string, len(tt.events))}}
		if got := swallowed(tr); (got != "") != tt.want {
			t.Errorf("%s: got %q, want a report: %v", name, got, tt.want)
		}
	}
}

// TestCrashEverywhere_AFailureAmongAttemptsIsNotBlamedOnTheCode checks the hint for steps that run
// concurrently. When one of them fails, the set of steps that have ended varies, which is not a
// fault of the code.
func TestCrashEverywhere_AFailureAmongAttemptsIsNotBlamedOnTheCode(t *testing.T) {
	failure := &event.Failure{Message: "no such page", Code: "error"}
	failed := stepEnd{Step: "fetch", Code: "error"}
	execution := func(failure *event.Failure, others stepEnd) *trial {
		return &trial{Outcome: Outcome{Failure: failure}, steps: map[string]stepEnd{"fetch[0]": failed, "fetch[1]": others}}
	}
	done, canceled := stepEnd{Step: "fetch", Result: "1"}, stepEnd{Step: "fetch", Code: event.CodeCanceled}
	const race, code = "Attempts at the same time have no order", "made by the code of the workflow"
	for _, c := range []struct {
		what      string
		want, got *trial
		hint      string
	}{
		{"another had ended before", execution(failure, done), execution(failure, canceled), race},
		{"another ended after", execution(failure, canceled), execution(failure, done), race},
		{"the same had ended", execution(failure, done), execution(failure, stepEnd{Step: "fetch", Result: "2"}), code},
		{"none failed", execution(nil, done), execution(nil, canceled), code},
	} {
		if got := hints(c.want, c.got); !strings.Contains(got, c.hint) {
			t.Errorf("%s: the hint is %q, want one with %q", c.what, got, c.hint)
		}
	}
}
