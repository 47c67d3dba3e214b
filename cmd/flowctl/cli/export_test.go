package cli_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/ops"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/fsck"
	"github.com/flowgen/flowgen/runtime/workflow"
	"github.com/flowgen/flowgen/sqlitestore"
)

// exported exports all runs of a shop to a file and returns its path.
func (s *shop) exported() string {
	s.t.Helper()
	file := filepath.Join(s.t.TempDir(), "all.jsonl")
	s.wants(0, nil, []string{"exported 4 runs with ", " commits and 0 chunks"}, "export", "--all", "--out", file)
	return file
}

func TestOPS1_AnExportIsReadLikeTheStore(t *testing.T) {
	s := open(t)
	file := s.exported()
	copied := &shop{t: t, url: "export:" + file, runs: s.runs}
	for _, args := range [][]string{
		{"runs", "-o", "jsonl"}, {"runs", "--oldest", "--limit", "3", "--all", "-o", "name"}, {"runs", "--limit", "1", "--all", "-o", "name"}, {"runs", "--limit", "1", "--oldest", "--all", "-o", "name"},
		{"runs", "--status", "failed", "-o", "name"}, {"runs", "--tag", "region=eu", "-o", "jsonl"}, {"runs", "count"},
		{"failures", "--kind", "failed", "-o", "jsonl"}, {"runs", "--failing"},
		{"show", s.runs["good"], "--events"}, {"show", s.runs["good"], "--entities"}, {"show", "id:order-good", "--json"}, {"show", s.runs["bad"], "--tree"},
		{"follow", s.runs["good"]}, {"value", s.runs["good"], "nothing"}, {"wait", s.runs["bad"]}, {"show", s.runs["nobody"]},
	} {
		want, got := s.flowctl(args...), copied.flowctl(args...)
		if want.code != got.code || want.stdout != got.stdout {
			t.Errorf("flowctl %v: of the store exit code %d and\n%s%s\nof the export %d and\n%s%s", args, want.code, want.stdout, want.stderr, got.code, got.stdout, got.stderr)
		}
	}
	copied.wants(0, []string{"step_completed", "label of wait", "waiting"}, nil, "show", "id:order-wait", "--events")
	copied.wants(4, []string{"step_completed"}, []string{"wait for run " + s.runs["wait"], "can only be read", "flowctl import FILE --into URL"}, "follow", s.runs["wait"])
}

// The test proves that an export from a server can select many runs, whose names would not fit into
// the headers of a request.
func TestOPS1_AnExportOverAServerNamesAsManyRunsAsOneLikes(t *testing.T) {
	s := open(t)
	server := s.serve("127.0.0.1:0")
	args := []string{"export", "--server", server.url}
	for range 2500 {
		args = append(args, s.runs["good"], "id:order-bad")
	}
	if g := flowctl(t, args...); g.code != 0 || !strings.Contains(g.stderr, "exported 2 runs with ") {
		t.Errorf("export of 5,000 names: exit code %d, %d bytes\n%.500s", g.code, len(g.stdout), g.stderr)
	}
}

func TestOPS1_AnExportIsChangedByNobody(t *testing.T) {
	s := open(t)
	file := s.exported()
	before, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	copied := &shop{t: t, url: "export:" + file, runs: s.runs}
	for _, args := range [][]string{
		{"start", "shop.order", "-i", `"good"`}, {"send", s.runs["wait"], "verdict", "true"}, {"cancel", s.runs["wait"]}, {"terminate", "-y", s.runs["wait"]},
		{"restart", s.runs["good"]}, {"retry", s.runs["bad"]}, {"delete", "-y", s.runs["good"]}, {"release", s.runs["held"]},
	} {
		g := copied.flowctl(args...)
		if g.code != 4 && g.code != 5 || !strings.Contains(g.stdout+g.stderr, "can only be read") {
			t.Errorf("flowctl %v: exit code %d\n%s%s, want that it can only be read", args, g.code, g.stdout, g.stderr)
		}
	}
	for _, args := range [][]string{{"fsck"}, {"doctor"}, {"workers"}, {"queues"}, {"pools"}, {"journal"}, {"schedules"}, {"catalog"}, {"views"}} {
		if g := copied.flowctl(args...); strings.Contains(g.stderr, "panic") || g.code == 130 {
			t.Errorf("flowctl %v: exit code %d\n%s", args, g.code, g.stderr)
		}
	}
	if after, err := os.ReadFile(file); err != nil || string(after) != string(before) {
		t.Errorf("the file has changed: %v", err)
	}
}

func TestOPS1_AnImportMakesTheRunsThere(t *testing.T) {
	s := open(t)
	file := s.exported()
	if g := flowctl(t, "import", file); g.code != 0 || !strings.Contains(g.stdout, "is complete: 4 runs") || !strings.Contains(g.stdout, "--store export:"+file) {
		t.Errorf("import: exit code %d\n%s%s", g.code, g.stdout, g.stderr)
	}
	into := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "new.db"), runs: s.runs}
	for _, want := range []string{"2 runs imported, 0 already present, 2 refused.", "0 runs imported, 2 already present, 2 refused."} {
		g := flowctl(t, "import", file, "--into", into.url)
		if g.code != 5 || !strings.Contains(g.stdout, want) || strings.Count(g.stderr, "it has not ended: end it in its store") != 2 {
			t.Fatalf("import: exit code %d\n%s%s, want %q", g.code, g.stdout, g.stderr, want)
		}
	}
	for _, args := range [][]string{
		{"runs", "--status", "completed,failed"}, {"runs", "--tag", "region=eu", "--status", "failed", "-o", "jsonl"}, {"failures", "--kind", "failed", "--json"},
		{"show", s.runs["good"], "--events"}, {"show", "id:order-bad"}, {"show", s.runs["bad"], "--tree"},
	} {
		want, got := s.flowctl(args...), into.flowctl(args...)
		if want.code != got.code || want.stdout != got.stdout {
			t.Errorf("flowctl %v: where it was executed exit code %d and\n%s\nwhere it was imported %d and\n%s%s", args, want.code, want.stdout, got.code, got.stdout, got.stderr)
		}
	}
	into.wants(0, []string{"No violations"}, nil, "fsck")
	into.wants(0, []string{"import", file, "ok"}, nil, "journal")
}

func TestOPS1_AnOpenRunGoesOnElsewhereOnceItHasEnded(t *testing.T) {
	s := open(t)
	s.wants(0, nil, nil, "terminate", "-y", "id:order-wait")
	file := filepath.Join(t.TempDir(), "wait.jsonl")
	s.wants(0, nil, nil, "export", "id:order-wait", "--out", file)
	into := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "new.db"), runs: map[string]string{}}
	if g := flowctl(t, "import", file, "--into", into.url, "--json"); g.code != 0 || !strings.Contains(g.stdout, `"new": 1`) {
		t.Fatalf("import: exit code %d\n%s%s", g.code, g.stdout, g.stderr)
	}
	g := into.flowctl("resume-new", s.runs["wait"], "--json")
	var all []struct {
		New string `json:"new"`
	}
	if err := json.Unmarshal([]byte(g.stdout), &all); err != nil || len(all) != 1 || all[0].New == "" {
		t.Fatalf("resume-new: exit code %d, %v\n%s%s", g.code, err, g.stdout, g.stderr)
	}
	into.work(func(ctx context.Context, c *workflow.Client) {
		h := c.Run(workflow.RunID(all[0].New))
		if err := verdicts.Send(ctx, h, true); err != nil {
			t.Fatal(err)
		}
		for range h.Events(ctx) { // Wait until the run has ended.
		}
	})
	into.wants(0, []string{"completed", "label of wait"}, nil, "show", all[0].New)
	into.wants(0, []string{"No violations"}, nil, "fsck")
}

func TestOPS1_AnImportGoesOnWithWhatWasTerminatedWhereItComesFrom(t *testing.T) {
	s := open(t)
	child := ""
	s.work(func(ctx context.Context, c *workflow.Client) { // The first run ends by itself when it is canceled. The child of the second one is terminated.
		if err := c.Run(workflow.RunID(s.runs["held"])).Cancel(ctx, "not wanted"); err != nil {
			t.Fatal(err)
		}
		for range c.Run(workflow.RunID(s.runs["held"])).Events(ctx) { // Wait until the run has ended.
		}
		family, err := orders.Start(ctx, c, "family", workflow.WithID("order-family"))
		if err != nil {
			t.Fatal(err)
		}
		for e, err := range family.Events(ctx) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Type == event.WaitCreated || e.Type == event.ChildCreated {
				child = string(e.Next)
				break
			}
		}
		for {
			if err = ops.New(c).Terminate(ctx, workflow.RunID(child), "its code is gone"); !errors.Is(err, workflow.ErrRunNotFound) { // The child is created after the decision to start it.
				break
			}
			runtime.Gosched()
		}
		if err != nil {
			t.Fatal(err)
		}
		for range family.Events(ctx) {
		}
	})
	before := filepath.Join(t.TempDir(), "open.jsonl")
	s.wants(0, nil, nil, "export", "id:order-wait", "--out", before)
	s.wants(0, nil, nil, "terminate", "-y", "id:order-wait")
	file := filepath.Join(t.TempDir(), "all.jsonl")
	s.wants(0, nil, nil, "export", "--all", "--children", "--out", file)
	into := &shop{t: t, url: "sqlite:" + filepath.Join(t.TempDir(), "new.db"), runs: map[string]string{}}
	if g := flowctl(t, "import", before, "--into", into.url, "--as-new"); g.code != 5 || !strings.Contains(g.stdout, "0 runs imported") || !strings.Contains(g.stderr, "it has not ended") || strings.Contains(g.stdout, "CONTINUES") {
		t.Fatalf("a run that is open where it comes from: %+v", g)
	}
	if g := flowctl(t, "import", file, "--as-new"); g.code != 2 || !strings.Contains(g.stderr, "--as-new is given without --into") {
		t.Errorf("into nothing: %+v", g)
	}
	made := ""
	for range 2 { // A repeated import uses the same new run.
		g := flowctl(t, "import", file, "--into", into.url, "--as-new", "--json")
		fits(t, "Imported", g.stdout)
		var got struct {
			Runs, New, There int
			AsNew            []admin.Acted
		}
		if err := json.Unmarshal([]byte(g.stdout), &got); err != nil || g.code != 0 || got.New+got.There != 6 || len(got.AsNew) != 1 || got.AsNew[0].Run != s.runs["wait"] || made != "" && got.AsNew[0].New != made {
			t.Fatalf("import: %+v, %v; want that %s goes on, and no other one", g, err, s.runs["wait"])
		}
		made = got.AsNew[0].New
	}
	into.work(func(ctx context.Context, c *workflow.Client) {
		h := c.Run(workflow.RunID(made))
		if err := verdicts.Send(ctx, h, true); err != nil {
			t.Fatal(err)
		}
		for range h.Events(ctx) { // Wait until the run has ended.
		}
	})
	into.wants(0, []string{"completed", "label of wait"}, nil, "show", made)
	into.wants(0, []string{s.runs["wait"] + "  " + made}, nil, "import", file, "--into", into.url, "--as-new")
	if g := into.flowctl("show", child); !strings.Contains(g.stdout, "terminated") {
		t.Errorf("the child, with which its parent goes on: %+v", g)
	}
	into.wants(0, []string{"No violations"}, nil, "fsck")
}

func TestOPS1_AnExportThatIsDamagedIsRefusedByItsLine(t *testing.T) {
	s := open(t)
	whole, err := os.ReadFile(s.exported())
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(string(whole), "\n")
	for what, text := range map[string]string{
		"line 1 ":  "",
		"line 2 ":  lines[0] + strings.Replace(lines[1], "shop.order", "shop.other", 1) + strings.Join(lines[2:], ""),
		"line 3 ":  lines[0] + lines[1] + lines[3] + lines[2] + strings.Join(lines[4:], ""),
		"cut off":  strings.Join(lines[:len(lines)-3], ""),
		"cut off ": "",
	} {
		if what == "cut off " {
			what, text = "cut off", string(whole[:len(whole)-10])
		}
		bad := filepath.Join(t.TempDir(), "bad.jsonl")
		if err := os.WriteFile(bad, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		into := "sqlite:" + filepath.Join(t.TempDir(), "new.db")
		for _, args := range [][]string{{"import", bad}, {"import", bad, "--into", into}} {
			if g := flowctl(t, args...); g.code != 2 || !strings.Contains(g.stderr, what) || !strings.Contains(g.stderr, "export the runs again") {
				t.Errorf("flowctl %v: exit code %d, want %q in\n%s", args, g.code, what, g.stderr)
			}
		}
		if _, err := os.Stat(strings.TrimPrefix(into, "sqlite:")); !os.IsNotExist(err) {
			t.Errorf("of a bad file a store was made: %v", err)
		}
		if g := flowctl(t, "runs", "--store", "export:"+bad); g.code == 0 || !strings.Contains(g.stderr, what) {
			t.Errorf("runs of a bad file: exit code %d\n%s", g.code, g.stderr)
		}
	}
}

func TestOPS1_AnExportSaysWhatItCannotDo(t *testing.T) {
	s := open(t)
	file := s.exported()
	for _, tt := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"export"}, 2, "export: no runs are given"},
		{[]string{"export", s.runs["good"], "--status", "failed"}, 2, "--status is given"},
		{[]string{"export", s.runs["good"], "--out", file}, 2, "exists"},
		{[]string{"export", s.runs["good"], "--out", filepath.Join(file, "x")}, 2, ""},
		{[]string{"export", "id:nobody"}, 3, "run not found"},
		{[]string{"export", "--all", "--payloads", "hide"}, 2, "contains payloads"},
		{[]string{"import", "nowhere.jsonl"}, 2, "instead of --into"},
		{[]string{"import", file, "--into", "memory:"}, 1, "no such kind of store"},
	} {
		g := s.flowctl(tt.args...)
		if g.code != tt.code || !strings.Contains(g.stderr, tt.want) {
			t.Errorf("flowctl %v: exit code %d, want %d and %q in\n%s", tt.args, g.code, tt.code, tt.want, g.stderr)
		}
	}
	left, err := filepath.Glob(filepath.Join(filepath.Dir(file), ".*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestOPS1_AnExportOfAServerIsThatOfItsStore(t *testing.T) {
	s := open(t)
	direct := s.exported()
	server := s.serve("127.0.0.1:0")
	dir := t.TempDir()
	over := filepath.Join(dir, "over.jsonl")
	if g := flowctl(t, "export", "--all", "--out", over, "--server", server.url); g.code != 0 || !strings.Contains(g.stderr, "exported 4 runs with ") {
		t.Fatalf("export of a server: %+v", g)
	}
	rest := func(file string) string { // rest returns the file without the head, which contains the time, and without the checksums, which depend on the head.
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, text, _ := strings.Cut(string(b), "\n")
		return regexp.MustCompile(`"sum":"[0-9a-f]+"`).ReplaceAllString(text, "")
	}
	if diff := cmp.Diff(rest(direct), rest(over)); diff != "" || !strings.Contains(rest(over), s.runs["wait"]) {
		t.Errorf("the export of the server (-direct +remote):\n%s", diff)
	}
	if g := flowctl(t, "import", over); g.code != 0 || !strings.Contains(g.stdout, "is complete: 4 runs") || !strings.Contains(g.stdout, "from server at") {
		t.Errorf("what was exported: %+v", g)
	}
	if g := flowctl(t, "export", "id:nobody", "--out", filepath.Join(dir, "none"), "--server", server.url); g.code != 3 {
		t.Errorf("a run that is not there: %+v", g)
	}
	server.kill(t)
	if g := flowctl(t, "export", "--all", "--out", filepath.Join(dir, "gone"), "--server", server.url); g.code != 1 {
		t.Errorf("a server that was killed: %+v", g)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("files: %v, %v; want the one export", left, err)
	}
}

// The test proves that a scan of the store finds no damage after an import. A scan detects damage
// that a snapshot does not contain.
func TestOPS1_AnImportLeavesNothingToRepair(t *testing.T) {
	s := open(t)
	path := filepath.Join(t.TempDir(), "new.db")
	flowctl(t, "import", s.exported(), "--into", "sqlite:"+path)
	st, err := sqlitestore.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	report, err := fsck.Repair(t.Context(), st, fsck.Options{DryRun: true})
	if err != nil || len(report.Fixes) != 0 || report.Runs != 2 {
		t.Errorf("fsck: %+v, %v, want 2 runs and nothing to repair", report, err)
	}
	if _, ok := store.As[store.Importer](st); !ok {
		t.Error("it is no Importer")
	}
}
