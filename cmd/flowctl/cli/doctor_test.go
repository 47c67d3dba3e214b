package cli_test

import (
	"context"
	"encoding/json"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// used returns a shop on a Redis server with the given settings. The store contains a run.
func used(t *testing.T, settings ...string) *shop {
	t.Helper()
	return usedOn(t, redistest.Start(t, settings...))
}

func usedOn(t *testing.T, server *redistest.Server) *shop {
	t.Helper()
	s := &shop{t: t, url: server.URL()}
	st, err := redisstore.Open(s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	c := workflow.NewClient(st, workflow.ClientConfig{})
	defer c.Close()
	if _, err := orders.Start(t.Context(), c, "good"); err != nil {
		t.Fatal(err)
	}
	return s
}

// examined returns the parsed JSON output of flowctl doctor.
func examined(t *testing.T, g got) admin.Exam {
	t.Helper()
	var r admin.Exam
	if err := json.Unmarshal([]byte(g.stdout), &r); err != nil || r.Findings == nil {
		t.Fatalf("as JSON: %v\n%s%s", err, g.stdout, g.stderr)
	}
	return r
}

// worst returns the highest level of the findings in an exam.
func worst(e admin.Exam) (level string) {
	for _, one := range []string{"ok", "info", "warn", "fail"} {
		if slices.ContainsFunc(e.Findings, func(f admin.ExamFinding) bool { return f.Severity == one }) {
			level = one
		}
	}
	return level
}

func TestOPS1_DoctorSaysWhatIsWrongWithAServerAndTheFix(t *testing.T) {
	s := used(t) // The server does not persist to disk.
	s.wants(7, []string{"LEVEL", "CHECK", "ok ", "info ", "fail ", "persistence", "nothing is kept", "CONFIG SET appendonly yes", s.url[len("redis://"):]}, nil, "doctor")
	s.wants(7, []string{"persistence\n"}, nil, "doctor", "-o", "name")
	g := s.flowctl("doctor", "--json")
	report := examined(t, g)
	if g.code != 7 || worst(report) != "fail" {
		t.Errorf("exit code %d, %v", g.code, report)
	}
	lines := strings.Split(strings.TrimSpace(s.flowctl("doctor", "-o", "jsonl").stdout), "\n")
	for _, line := range lines {
		var f admin.ExamFinding
		if err := json.Unmarshal([]byte(line), &f); err != nil || f.Check == "" {
			t.Errorf("%v: %s", err, line)
		}
	}
	if len(lines) != len(report.Findings) {
		t.Errorf("%d lines of %d findings", len(lines), len(report.Findings))
	}
}

func TestOPS1_DoctorCallsAHintNothingWrongAndAWarningWrong(t *testing.T) {
	for _, tt := range []struct {
		fsync string
		code  int
		worst string
	}{{"everysec", 0, "info"}, {"no", 7, "warn"}} {
		s := used(t, "--appendonly", "yes", "--appendfsync", tt.fsync, "--maxmemory", "1gb", "--stream-node-max-bytes", "1024")
		g := s.flowctl("doctor", "--json")
		if report := examined(t, g); g.code != tt.code || worst(report) != tt.worst {
			t.Errorf("appendfsync %s: exit code %d, want %d\n%s", tt.fsync, g.code, tt.code, g.stdout)
		}
	}
}

func TestOPS1_DoctorSaysThatAStoreHasNone(t *testing.T) {
	s := open(t)
	s.wants(0, nil, []string{"has no checks"}, "doctor")
	if g := s.flowctl("doctor"); g.stdout != "" {
		t.Errorf("a table of nothing: %s", g.stdout)
	}
	g := s.flowctl("doctor", "--json")
	if report := examined(t, g); g.code != 0 || report.Supported || len(report.Findings) > 0 || !strings.Contains(g.stderr, "has no checks") {
		t.Errorf("as JSON: %+v", g)
	}
}

func TestOPS1_DoctorSaysTheSameOverAServer(t *testing.T) {
	s := used(t)
	direct, server := examined(t, s.flowctl("doctor", "--json")), s.serve("127.0.0.1:0")
	g := flowctl(t, "doctor", "--json", "--server", server.url)
	over := examined(t, g)
	checks := func(e admin.Exam) (all []string) {
		for _, f := range e.Findings {
			all = append(all, f.Severity+" "+f.Check+" "+f.Node)
		}
		return all
	}
	if diff := cmp.Diff(checks(direct), checks(over)); g.code != 7 || diff != "" || !over.Supported {
		t.Errorf("exit code %d, over a server (-direct +remote):\n%s", g.code, diff)
	}
	fits(t, "Exam", g.stdout)
}

func TestOPS1_DoctorAndFsckNeedTheStore(t *testing.T) {
	missing := "sqlite:" + filepath.Join(t.TempDir(), "none.db")
	for _, command := range []string{"doctor", "fsck"} {
		for _, tt := range []struct {
			code int
			want string
			args []string
		}{
			{1, "connection refused", []string{"--server", "http://127.0.0.1:1"}},
			{2, "give either --store or --server", []string{"--server", "http://127.0.0.1:1", "--store", missing}},
			{2, "FLOWGEN_STORE", nil},
			{2, "unknown command", []string{"--store", missing, "now"}},
			{3, "does not exist", []string{"--store", missing}},
		} {
			if g := flowctl(t, append([]string{command}, tt.args...)...); g.code != tt.code || !strings.Contains(g.stderr, tt.want) || g.stdout != "" {
				t.Errorf("flowctl %s %v: %+v, want exit code %d and %q", command, tt.args, g, tt.code, tt.want)
			}
		}
		if g := flowctl(t, "__complete", command, ""); !strings.Contains(g.stdout, ":4\n") {
			t.Errorf("%s takes no files: %s", command, g.stdout)
		}
	}
	g := flowctl(t, "--help")
	for _, want := range []string{"7 doctor or fsck", "\n  doctor ", "\n  fsck "} {
		if !strings.Contains(g.stdout, want) {
			t.Errorf("help without %q:\n%s", want, g.stdout)
		}
	}
}

// failing is a store that fails the exam and cannot be repaired.
type failing struct{ store.Store }

func (failing) Examine(context.Context) (store.Report, error) {
	return store.Report{}, context.DeadlineExceeded
}
