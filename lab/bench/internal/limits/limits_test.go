package limits

import (
	"bytes"
	"encoding/json"
	"math"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// measured runs the program and returns its output. It fails the test unless the exit code is want.
func measured(t *testing.T, want int, args ...string) (stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	if code := Main(t.Context(), args, &out, &errs); code != want {
		t.Fatalf("limits %v ended with %d, want %d: %s", args, code, want, errs.String())
	}
	return out.String(), errs.String()
}

// tiny contains flags that set sizes with which each row takes only a moment.
var tiny = []string{"-progress=false", "-keys", "40", "-rounds", "1", "-waiting", "1000", "-seconds", "0.2", "-steps", "24", "-nap", "2ms", "-ticks", "12", "-schedules", "6", "-workers", "3"}

// figures parses the JSON output of the program.
func figures(t *testing.T, out string) (all []Figure) {
	t.Helper()
	for line := range strings.Lines(out) {
		var f Figure
		if err := json.Unmarshal([]byte(line), &f); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, f)
	}
	return all
}

// The test proves that each row prints its figures, and that figures that do not depend on the load
// of the machine are within their bounds. Each bound is slightly above the value at the time when
// the bound was set. Budgets of times are not checked.
func TestLimits_EachRowPrintsFiguresWithinWhatDoesNotDependOnNoise(t *testing.T) {
	t.Parallel()
	redistest.Binary(t)
	for kind, where := range map[string]string{"memory": "memory:", "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "x.db"), "redis": "redis"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			out, _ := measured(t, 0, append(tiny, "-store", where, "-json")...)
			all := figures(t, out)
			shown := map[string]int{}
			for _, f := range all {
				shown[f.Row]++
				if f.Store != kind {
					t.Errorf("%s: the store is %q, want %q", f.Row, f.Store, kind)
				}
				if f.Unit != "" && (f.Value <= 0 && f.Unit != "ms" && f.Unit != "B" || math.IsNaN(f.Value) || math.IsInf(f.Value, 0)) {
					t.Errorf("%s: %s is %v %s", f.Row, f.What, f.Value, f.Unit)
				}
				if f.Unit == "" && !strings.HasPrefix(f.Verdict, "not measured: ") {
					t.Errorf("%s: no figure, and no reason: %+v", f.Row, f)
				}
				if f.Budget != "" && f.Verdict == "" {
					t.Errorf("%s: %s has a budget and no verdict", f.Row, f.What)
				}
			}
			for _, r := range rows {
				if shown[r.name] == 0 {
					t.Errorf("row %s is not shown", r.name)
				}
			}
			bounds(t, kind, all)
		})
	}
}

// bounds checks the figures that are counts, commands or bytes.
func bounds(t *testing.T, kind string, all []Figure) {
	t.Helper()
	most := map[string]float64{
		"claims until the first run of another tenant comes":                      2,
		"claims until the first run of another fair key comes, after 1000 of one": 2,
	}
	if kind == "redis" {
		most["bytes of a run that waits, of 1000, more than without limits"] = 300
		most["commands, keys"] = 56 // in scripts, for a claim and the end of a run
		most["commands, without keys"] = 42
		most["commands, without limits"] = 18
		most["commands, fair keys"] = 24
	}
	seen := map[string]bool{}
	check := func(what string, value float64) {
		if bound, ok := most[what]; ok && !seen[what] { // The first figure of a row is about claims.
			seen[what] = true
			if t.Logf("%s: %.4g, at most %v", what, value, bound); value > bound {
				t.Errorf("%s: %.4g, want at most %v", what, value, bound)
			}
		}
	}
	for _, f := range all {
		check(f.What, f.Value)
		for _, n := range f.Beside {
			check(n.Name, n.Value)
			if n.Name == "held" && n.Value != 101 || n.Name == "waiting" && n.Value != 900 {
				t.Errorf("the list of limits says %s %v, want 101 held and 900 waiting", n.Name, n.Value)
			}
		}
	}
	for what := range most {
		if !seen[what] {
			t.Errorf("nothing was said of %q", what)
		}
	}
}

func TestLimits_PrintsATableAndSaysWhatGoesOn(t *testing.T) {
	out, errs := measured(t, 0, append(tiny, "-store", "memory:", "-row", "waiting,spread", "-progress")...)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if !strings.HasPrefix(out, tableHead+"\n| `waiting` | ") || !strings.Contains(out, "| ≤ 2 claims | met |") || !strings.Contains(out, "only Redis has servers") {
		t.Errorf("the table is\n%s", out)
	}
	for _, line := range lines {
		if got := strings.Count(line, "|"); got != 7 {
			t.Errorf("%d bars, want 7: %s", got, line)
		}
	}
	if !strings.Contains(errs, "limits: waiting: 1000 runs of limits.keyed are started") {
		t.Errorf("the progress is %q", errs)
	}
}

func TestLimits_ExplainsItsArguments(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"-row", "kyes"}, "there are keys, fair"},
		{[]string{"-store", "redis://localhost"}, "want memory:, redis or sqlite:PATH"},
		{[]string{"-store", "sqlite:"}, "want memory:, redis or sqlite:PATH"},
		{[]string{"-waiting", "0"}, "-waiting 0: want at least 1"},
		{[]string{"-seconds", "0"}, "want more than 0"},
		{[]string{"surplus"}, "surplus"},
	} {
		if _, stderr := measured(t, 2, tt.args...); !strings.Contains(stderr, tt.want) {
			t.Errorf("%v: got %q, want something with %q", tt.args, stderr, tt.want)
		}
	}
	help, _ := measured(t, 0, "-help")
	for _, r := range rows {
		if !strings.Contains(help, r.name) || !strings.Contains(help, r.about) {
			t.Errorf("the help lacks %s", r.name)
		}
	}
}

func TestFigure_IsJudgedByItsBudget(t *testing.T) {
	for _, tt := range []struct {
		value  float64
		budget budget
		want   string
	}{
		{80, atLeast(80, "%"), verdictMet},
		{79.9, atLeast(80, "%"), verdictMissed},
		{5, atMost(5, "ms"), verdictMet},
		{5.1, atMost(5, "ms"), verdictMissed},
		{101.1, budget{"99 to 101 %", 99, 101}, verdictMissed},
		{1, budget{}, ""},
	} {
		f := Figure{Value: tt.value, budget: tt.budget}
		if f.judge(); f.Verdict != tt.want || f.Budget != tt.budget.text {
			t.Errorf("%v against %q: %q, want %q", tt.value, tt.budget.text, f.Verdict, tt.want)
		}
	}
}

func TestMost_CountsTheFullestSpan(t *testing.T) {
	at := func(milliseconds ...int) (all []attempt) {
		for _, ms := range milliseconds {
			all = append(all, attempt{begin: time.UnixMilli(int64(ms))})
		}
		return all
	}
	for _, tt := range []struct {
		all  []attempt
		want int
	}{
		{at(0), 1},
		{at(0, 999), 2},
		{at(0, 1000), 1}, // The end does not belong to the interval.
		{at(0, 500, 999, 1001, 1400, 1499, 2500), 5},
	} {
		if got := most(tt.all, time.Second); got != tt.want {
			t.Errorf("got %d, want %d of %v", got, tt.want, tt.all)
		}
	}
}

func TestBusy_LeavesOutTheTimeInWhichThereIsNotEnoughToDo(t *testing.T) {
	ms := func(n int) time.Time { return time.UnixMilli(int64(n)) }
	all := []attempt{{begin: ms(0), end: ms(50)}, {begin: ms(0), end: ms(100)}, {begin: ms(100), end: ms(500)}}
	if got := busy(all, 2, func(attempt) int { return 1 }); got != 75 {
		t.Errorf("busy is %v, want 75", got)
	}
}

func TestNumber_IsEasyToRead(t *testing.T) {
	for _, tt := range []struct {
		n    float64
		unit string
		want string
	}{{1234567, "runs/s", "1,234,567 runs/s"}, {0.123, "ms", "0.12 ms"}, {12.34, "ms", "12.3 ms"}, {-3388.2, "B", "-3,388 B"}, {80, "%", "80 %"}, {100, "", "100"}} {
		if got := number(tt.n, tt.unit); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}
