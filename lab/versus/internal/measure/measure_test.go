package measure

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/lab/versus/internal/peer"
	"github.com/flowgen/flowgen/lab/versus/internal/task"
)

// fake is an engine that executes the steps of a run when it starts.
type fake struct {
	probe *task.Probe
	spoil func(in *task.Input)
	err   error
}

func (f *fake) Start(_ context.Context, in task.Input) (peer.Run, error) {
	f.spoil(&in)
	for n := range in.Steps {
		f.probe.Do(in.Step(n, in.Data))
	}
	return fakeRun{in.Data, f.err}, nil
}

func (f *fake) Close(context.Context) error { return nil }

type fakeRun struct {
	data string
	err  error
}

func (r fakeRun) Result(context.Context) (string, error) { return r.data, r.err }

func TestMeasure_RefusesWrongData(t *testing.T) {
	tests := map[string]struct {
		fake fake
		want string
	}{
		"right": {fake{spoil: func(*task.Input) {}}, ""},
		"data":  {fake{spoil: func(in *task.Input) { in.Data = "other" }}, "other"},
		"error": {fake{spoil: func(*task.Input) {}, err: errors.New("failed")}, "failed"},
	}
	for _, w := range []*Workload{Workloads[0], Workloads[2]} {
		for name, tt := range tests {
			t.Run(w.Name+"/"+name, func(t *testing.T) {
				f := tt.fake
				f.probe = &task.Probe{}
				m := &measurement{
					system: &peer.System{Name: "fake"}, w: w, o: Options{Concurrency: 2, Duration: time.Millisecond}, engine: &f, probe: f.probe,
				}
				load := m.together
				if w.alone {
					load = m.oneByOne
				}
				_, err := load(t.Context())
				if err == nil {
					err = m.check(t.Context())
				}
				switch {
				case tt.want == "" && err != nil:
					t.Error(err)
				case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
					t.Errorf("error %v, want one with %q", err, tt.want)
				}
			})
		}
	}
}

func TestMedian_IsOfEachFigure(t *testing.T) {
	got := Median([]*Result{
		{Runs: 1, Steps: 3, Executions: 3, P50: 5, P99: 7}, {Runs: 2, Steps: 6, Executions: 7, P50: 1, P99: 9}, {Runs: 3, Steps: 9, Executions: 9, P50: 3, P99: 8},
	})
	want := Result{Count: 3, Runs: 6, Steps: 18, Executions: 19, P50: 3, P99: 8}
	if *got != want {
		t.Errorf("median %+v, want %+v", *got, want)
	}
	if got := Median([]*Result{{P50: 1}, {Skipped: "a reason"}}); got.Skipped != "a reason" {
		t.Errorf("median %+v, want the skipped result", *got)
	}
}
