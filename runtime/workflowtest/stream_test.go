package workflowtest_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/shim"
	"github.com/flowgen/flowgen/runtime/step"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/runtime/workflowtest"
)

var (
	lines = workflow.NewStream[string]("lines")
	novel = flow("shop.novel")
	write = newStep("shop.write", shim.Policy{})
	seal  = newStep("shop.seal", shim.Policy{})
)

// novelCode writes two chapters, each in a separate run. In each run, two steps and the code write
// to one stream. The last step closes the stream.
func novelCode(ctx workflow.Context, in string) (string, error) {
	lines.Write(ctx, "chapter "+in)
	if _, err := workflow.Map(ctx, []string{"a", "b"}, func(ctx workflow.Context, who string) (string, error) {
		text, err := call(ctx, write, in+who)
		lines.Write(ctx, "end of "+in+who)
		return text, err
	}); err != nil {
		return "", err
	}
	if in == "1" {
		return "", flow("shop.novel").ContinueAsNew(ctx, "2")
	}
	lines.Write(ctx, "the end")
	return call(ctx, seal, in)
}

func setupNovel(e *workflowtest.Env) {
	shim.BindWorkflow(e, novel, novelCode)
	write.Bind(e, func(ctx context.Context, who string) (string, error) {
		return who, errors.Join(step.Write(ctx, lines, who+"1"), step.Write(ctx, lines, who+"2"))
	})
	seal.Bind(e, func(ctx context.Context, in string) (string, error) {
		return in, errors.Join(step.Write(ctx, lines, "sealed"), step.Close(ctx, lines))
	})
}

// writer identifies a step of a run. The zero value identifies the workflow code of all runs.
type writer struct{ Run, Step string }

// told returns the contents of the stream, by writer. For a step it returns only the chunks of the
// last attempt. It returns an error if chunks of an earlier attempt follow those of a later one.
func told(e *workflowtest.Env) (map[writer][]string, error) {
	all, attempts := map[writer][]string{}, map[writer]int{}
	runs := map[workflow.RunID]string{"": ""}
	for c, err := range lines.Read(context.Background(), e.Run()) {
		if err != nil {
			return nil, err
		}
		if _, known := runs[c.Run]; !known {
			runs[c.Run] = fmt.Sprint("run ", len(runs))
		}
		w := writer{runs[c.Run], c.Step}
		if c.Attempt < attempts[w] {
			return nil, fmt.Errorf("attempt %d of %v writes behind attempt %d", c.Attempt, w, attempts[w])
		}
		if c.Attempt > attempts[w] {
			all[w], attempts[w] = nil, c.Attempt
		}
		all[w] = append(all[w], c.Value)
	}
	return all, nil
}

// whole returns the values of each writer once both runs have completed.
func whole(endsOf1, endsOf2 []string) map[writer][]string {
	all := map[writer][]string{{}: slices.Concat([]string{"chapter 1"}, endsOf1, []string{"chapter 2"}, endsOf2, []string{"the end"})}
	for run := range 2 {
		for i, who := range []string{"a", "b"} {
			w := writer{fmt.Sprint("run ", run+1), fmt.Sprintf("novel/map#1.%d/shop.write#1", i+1)}
			all[w] = []string{fmt.Sprint(run+1, who, "1"), fmt.Sprint(run+1, who, "2")}
		}
	}
	all[writer{"run 2", "novel/shop.seal#1"}] = []string{"sealed"}
	return all
}

func TestFLOW8_StreamsSurviveEveryCrash(t *testing.T) {
	r := workflowtest.CrashEverywhere(t, novel, "1", setupNovel, workflowtest.Check(func(t testing.TB, e *workflowtest.Env, _ workflowtest.Outcome) {
		got, err := told(e)
		want := whole([]string{"end of 1a", "end of 1b"}, []string{"end of 2a", "end of 2b"})
		if diff := cmp.Diff(want, sorted(got)); diff != "" || err != nil {
			t.Errorf("the stream holds %v (-want +got):\n%s", err, diff)
		}
	}))
	if r.Tried != r.Points || r.Points < 30 || r.Failed+r.Interrupted != 0 {
		t.Errorf("got %+v", r)
	}
}

// sorted sorts the lines that concurrent branches of the code have written, because their order
// varies.
func sorted(all map[writer][]string) map[writer][]string {
	if code := all[writer{}]; len(code) == 7 {
		slices.Sort(code[1:3])
		slices.Sort(code[4:6])
	}
	return all
}

func TestFLOW8_StreamsSurviveEveryOrder(t *testing.T) {
	completed := 0
	workflowtest.Interleave(t, novel, "1", setupNovel, 200, workflowtest.Check(func(t testing.TB, e *workflowtest.Env, o workflowtest.Outcome) {
		got, err := told(e)
		switch {
		case err != nil:
			t.Error(err)
		case o.Status == workflow.StatusCompleted: // a canceled run may have written only a part
			completed++
			want := whole([]string{"end of 1a", "end of 1b"}, []string{"end of 2a", "end of 2b"})
			if diff := cmp.Diff(want, sorted(got)); diff != "" {
				t.Errorf("the stream (-want +got):\n%s", diff)
			}
		}
	}))
	if completed < 20 {
		t.Errorf("only %d of 200 executions completed: the test proves little", completed)
	}
}

func TestFLOW8_ReadersInVirtualTimeFollowLive(t *testing.T) {
	env := workflowtest.New(t)
	setupNovel(env)
	run, err := novel.Start(t.Context(), env.Client(), "2")
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for c, err := range lines.Read(t.Context(), run, workflow.From(2)) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, c.Value)
	}
	if n := len(got); n != 8 || got[n-1] != "sealed" {
		t.Errorf("got %q, want 8 lines, the last sealed", got)
	}
}

func TestStepContext_KeepsWhatAStepWritesToStreams(t *testing.T) {
	var c workflowtest.Chunks
	ctx := workflowtest.StepContext(t, workflowtest.Streams(&c))
	other := workflow.NewStream[int]("other")
	if err := errors.Join(step.Write(ctx, lines, "one"), step.Write(ctx, other, 7), step.Write(ctx, lines, "two"), step.Close(ctx, lines)); err != nil {
		t.Fatal(err)
	}
	if err := step.Write(ctx, lines, "three"); !errors.Is(err, workflow.ErrStreamClosed) {
		t.Errorf("a write behind the close: got %v", err)
	}
	if diff := cmp.Diff([]string{"one", "two"}, workflowtest.Written(&c, lines)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]int{7}, workflowtest.Written(&c, other)); diff != "" {
		t.Errorf("other (-want +got):\n%s", diff)
	}
	if !c.Closed("lines") || c.Closed("other") {
		t.Errorf("closed: lines %t, other %t; want the first", c.Closed("lines"), c.Closed("other"))
	}
	plain := workflowtest.StepContext(t) // an attempt that records no streams
	if err := errors.Join(step.Write(plain, lines, "x"), step.Close(plain, lines)); err != nil {
		t.Error(err)
	}
}
