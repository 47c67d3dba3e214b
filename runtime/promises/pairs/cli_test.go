package pairs_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/runtime/event"
)

// buildFlowctl builds the command flowctl and returns its path. Flowctl is a separate module; if
// this module is not available, buildFlowctl returns "".
func buildFlowctl(t *testing.T) string {
	t.Helper()
	root, err := filepath.Abs("../../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, needed := range []string{"go.work", "cmd/flowctl/go.mod"} {
		if _, err := os.Stat(filepath.Join(root, needed)); err != nil {
			t.Logf("flowctl is no face here: %v", err)
			return ""
		}
	}
	path := filepath.Join(t.TempDir(), "flowctl")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/flowctl")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build flowctl: %v\n%s", err, out)
	}
	return path
}

// faceOfCLI is a command of flowctl with JSON output, and the value that the output must equal.
type faceOfCLI struct {
	args []string
	into func() any // returns a pointer to a new value for the decoded output
	want func() (any, error)
}

// cliAgrees fails a cell if flowctl and the service show different states of the runs of a scene.
// Flowctl uses the HTTP API of the stage. cliAgrees checks the cell without a command and one cell
// that the seed selects.
func cliAgrees(s *stage, cells []*cell) {
	s.T.Helper()
	if s.flowctl == "" {
		return
	}
	server := httptest.NewServer(s.api)
	defer server.Close()
	list := admin.Filter{Children: true, System: true, Limit: 1000}
	all := []faceOfCLI{
		{[]string{"runs", "--children", "--system", "--limit", "1000"}, func() any { return &admin.RunPage{} }, func() (any, error) { page, err := s.direct.Runs(s.Ctx, list); return &page, err }},
		{[]string{"runs", "count", "--children", "--system"}, func() any { return &admin.Counts{} }, func() (any, error) { counts, err := s.direct.Count(s.Ctx, list); return &counts, err }},
		{[]string{"failures", "--limit", "1000"}, func() any { return &admin.FailurePage{} }, func() (any, error) {
			page, err := s.direct.Failures(s.Ctx, admin.FailureFilter{Limit: 1000})
			return &page, err
		}},
	}
	chance := rand.New(rand.NewPCG(uint64(*seed), 71))
	for _, c := range []*cell{cells[0], cells[chance.IntN(len(cells))]} {
		if _, there := observe(s.World, c.run); there {
			all = append(all, s.shown(c.run))
		}
	}
	for _, f := range all {
		var diff string
		if !s.until(patience(cells), func() bool { diff = s.differs(server.URL, &f); return diff == "" }) {
			cells[0].breaks("faces", "flowctl %v and the service differ: %s", f.args, diff)
		}
	}
}

// shown returns the command of flowctl that shows a run without its events.
func (s *stage) shown(run event.RunID) faceOfCLI {
	return faceOfCLI{[]string{"show", string(run)}, func() any { return &admin.Run{} }, func() (any, error) {
		r, err := s.direct.Run(s.Ctx, string(run))
		return &r, err
	}}
}

// differs returns the difference between the output of flowctl and the view of the service, or ""
// if there is none. If a run changes between the two reads, they may differ, so callers repeat the
// call.
func (s *stage) differs(server string, f *faceOfCLI) string {
	cmd := exec.CommandContext(s.Ctx, s.flowctl, append([]string{"--server", server, "--json"}, f.args...)...)
	cmd.Env = append(os.Environ(), "FLOWGEN_STORE=", "FLOWGEN_SERVER=", "FLOWGEN_TOKEN_FILE=")
	var failed bytes.Buffer
	cmd.Stderr = &failed
	printed, err := cmd.Output()
	if err != nil {
		return fmt.Sprintf("%v\n%s", err, failed.String())
	}
	want, err := f.want()
	if err != nil {
		return err.Error()
	}
	into := f.into()
	if err := json.Unmarshal(printed, into); err != nil {
		return fmt.Sprintf("%v: %s", err, printed)
	}
	wanted, err := json.Marshal(want)
	if err != nil {
		return err.Error()
	}
	got, err := json.Marshal(into)
	if err != nil {
		return err.Error()
	}
	return cmp.Diff(string(wanted), string(got))
}
