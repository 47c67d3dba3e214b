package speed

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

func TestMedian_IsTakenOfEachNumber(t *testing.T) {
	got := median([]*Result{
		{Workload: "w", P50ms: 3, StepsPerSecond: 10}, {Workload: "w", P50ms: 1, StepsPerSecond: 30}, {Workload: "w", P50ms: 2, StepsPerSecond: 20},
	})
	if diff := cmp.Diff(&Result{Workload: "w", Count: 3, P50ms: 2, StepsPerSecond: 20}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := median([]*Result{{P99ms: 1}, {P99ms: 4}}).P99ms; got != 2.5 {
		t.Errorf("the median of 1 and 4 is %v, want 2.5", got)
	}
}

func TestNumbers_AreAllFieldsThatAreMeasured(t *testing.T) {
	r := &Result{}
	floats := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Result]()) {
		if f.Type.Kind() == reflect.Float64 {
			floats++
		}
	}
	seen := map[*float64]bool{}
	for _, n := range r.numbers() {
		seen[n] = true
	}
	if len(seen) != floats {
		t.Errorf("medians are taken of %d fields, want %d", len(seen), floats)
	}
}

func TestQuantile_IsAValueThatOccurred(t *testing.T) {
	var all []time.Duration
	for i := 100; i > 0; i-- {
		all = append(all, time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0.5: 50, 0.99: 99, 1: 100, 0: 1} {
		if got := quantile(all, q); got != want {
			t.Errorf("quantile %v is %v, want %v", q, got, want)
		}
	}
	if got := quantile([]time.Duration{7}, 0.99); got != 7 {
		t.Errorf("the quantile of one value is %v, want 7", got)
	}
}

func TestSplit_LosesNoRun(t *testing.T) {
	for _, tt := range []struct {
		rounds, runs, want int
	}{{10, 20_000, 10}, {10, 7, 7}, {0, 5, 5}, {1, 100, 1}, {10, 25, 10}} {
		all := (&workload{rounds: tt.rounds}).split(tt.runs)
		sum := 0
		for _, n := range all {
			sum += n
		}
		if len(all) != tt.want || sum != tt.runs {
			t.Errorf("%d runs in at most %d rounds are %v, want %d rounds", tt.runs, tt.rounds, all, tt.want)
		}
	}
}

// frame returns a log that consists of one frame with the events.
func frame(t *testing.T, events ...event.Event) [][]byte {
	t.Helper()
	for i := range events {
		events[i].Seq = uint64(i + 1)
	}
	b, err := event.AppendFrame(nil, &event.Frame{CommitID: event.NewCommitID(), Time: time.Now(), Events: events})
	if err != nil {
		t.Fatal(err)
	}
	return [][]byte{b}
}

func TestCheckLog_RefusesWhatIsNotTheResult(t *testing.T) {
	created := event.Event{Type: event.RunCreated, Spec: &event.Spec{Workflow: "w"}}
	step := event.Event{Type: event.StepCompleted, Ref: 1, Attempt: 1, Payload: []byte(`"x"`)}
	end := event.Event{Type: event.RunCompleted, Payload: []byte(`"x"`)}
	good := want{result: "x", steps: 1}
	if err := checkLog(frame(t, created, step, end), good); err != nil {
		t.Fatal(err)
	}
	for text, log := range map[string][][]byte{
		"has not completed": frame(t, created, step),
		"0 steps":           frame(t, created, end),
		"2 steps":           frame(t, created, step, step, end),
		"is y, want x":      frame(t, created, step, event.Event{Type: event.RunCompleted, Payload: []byte(`"y"`)}),
		"decode frame":      {[]byte("junk")},
	} {
		if err := checkLog(log, good); err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("got %v, want something with %q", err, text)
		}
	}
}

func TestLimit_RefusesALogThatHasMoved(t *testing.T) {
	b := &memoryBed{st: memstore.New(), logs: map[string]*memoryLog{}}
	defer func() { _ = b.discard() }()
	r := &row{id: "one", cid: event.NewCommitID()}
	if err := b.append(t.Context(), []*row{r}, []byte("frame")); err != nil {
		t.Fatal(err)
	}
	if err := b.append(t.Context(), []*row{r}, []byte("frame")); err == nil { // The field prev differs from the last stored frame.
		t.Error("a frame was appended behind a position that is past")
	}
	r.n = 2
	if err := b.drop(t.Context(), []*row{r}); err == nil {
		t.Error("a frame that is missing was not noticed")
	}
}

func TestTap_PassesOnWhatAStoreCanDoBesides(t *testing.T) {
	st := memstore.New()
	defer func() { _ = st.Close() }()
	if _, ok := store.As[store.Lister](newTap(st)); !ok {
		t.Error("the tap hides that its store can list")
	}
}
