package admin

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/flowgen/flowgen/internal/testutil/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The test proves that all stores return the same answers. It compares only results that do not
// depend on the load of the machine.
func TestAdmin_AllStoresFindTheSame(t *testing.T) {
	redistest.Binary(t)
	found := map[string]map[string]Figure{}
	for _, kind := range []string{"memory", "sqlite", "redis"} {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), []string{"-store", kind, "-runs", "3000", "-times", "1", "-json", "-check=false"}, &out, &errs); code != 0 {
			t.Fatalf("admin on %s ended with %d: %s", kind, code, errs.String())
		}
		found[kind] = map[string]Figure{}
		for line := range strings.Lines(out.String()) {
			var f Figure
			if err := json.Unmarshal([]byte(line), &f); err != nil {
				t.Fatalf("%v: %s", err, line)
			}
			found[kind][f.What] = f
		}
	}
	for what, want := range found["memory"] {
		if strings.Contains(what, "time") {
			continue // This field differs between stores.
		}
		for _, kind := range []string{"sqlite", "redis"} {
			if got := found[kind][what]; got.Found != want.Found || got.Partial {
				t.Errorf("%s on %s: found %d, partial: %v, want %d", what, kind, got.Found, got.Partial, want.Found)
			}
		}
	}
	for what, most := range map[string]int{"unknown workflow": 0, "tag that none has": 0, "failed": 31, "count a workflow": 5, "group of failures": 1} {
		if got := found["sqlite"][what].Looked; got > most {
			t.Errorf("%s on sqlite: %d runs were looked at, want at most %d", what, got, most)
		}
	}
	for what, most := range map[string]int{"unknown workflow": 0, "tag that none has": 0, "workflow id that none has": 0, "failed": 31, "count all": 16, "newest page": 101} {
		if got := found["redis"][what].Looked; got > most {
			t.Errorf("%s on redis: %d runs were looked at, want at most %d", what, got, most)
		}
	}
}

func TestAdmin_SaysWhatIsWrongWithItsArguments(t *testing.T) {
	for _, args := range [][]string{{"-store", "paper"}, {"-runs", "0"}, {"-times", "0"}, {"x"}, {"-nonsense"}} {
		var out, errs bytes.Buffer
		if code := Main(t.Context(), args, &out, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%v: ended with %d, and %q", args, code, errs.String())
		}
	}
}
