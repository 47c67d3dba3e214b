// Package gate implements flowgen replay. The command replays runs of a live store with the code of
// a module before this code is deployed.
//
// The command cannot link the code of users. Therefore it writes a test that registers all
// workflows of the module and opens the store. The overlay of the go command adds the test to the
// module at a path that does not exist on disk, so the module is not modified. The command executes
// the test and reads the report that the test writes. source.go writes the test, and gate.go
// executes it.
package gate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/flowgen/flowgen/internal/load"
)

// Config selects the runs to replay and the code with which they are replayed.
type Config struct {
	Dir      string   // directory of the module; if empty, the working directory
	Patterns []string // package patterns of the go command; if empty, "./..."
	URL      string   // URL of the store
	Driver   string   // import path of the package that opens the URL; if empty, derived from the scheme
	Workflow string   // stored name of a workflow; if empty, all workflows
	Statuses []string // statuses of the runs; if empty, those of open runs
	Size     int      // maximum number of runs; 0 means no limit
	Seed     uint64   // seed of the random selection
	Save     string   // directory for histories of runs that do not match the code; if empty, they are not saved
}

// open contains the statuses of runs that have not ended.
var open = []string{"pending", "running", "sleeping", "waiting", "paused", "held", "blocked"}

// Report is the result of a replay.
type Report struct {
	Replayed int     `json:"replayed"`
	Misfits  []Group `json:"misfits"`
	Seed     uint64  `json:"seed"`
}

// Group contains the runs of a workflow that differ from the code at the same operation.
type Group struct {
	Workflow   string   `json:"workflow"`
	Divergence string   `json:"divergence"`
	Count      int      `json:"count"`
	Runs       []string `json:"runs"` // the IDs of some of the runs
	Error      string   `json:"error"`
}

// shownRuns is the maximum number of run IDs in a group.
const shownRuns = 3

// ErrStore is the error that Run wraps if the store cannot be read.
var ErrStore = errors.New("the store cannot be read")

// Run replays the runs that cfg selects with the code of the packages that cfg selects.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", cfg.Dir, err)
	}
	if len(cfg.Patterns) == 0 {
		cfg.Patterns = []string{"./..."}
	}
	if len(cfg.Statuses) == 0 {
		cfg.Statuses = open
	}
	scheme, _, _ := strings.Cut(cfg.URL, ":")
	driver := cmp.Or(cfg.Driver, driverOf(scheme))
	if driver == "" {
		return nil, fmt.Errorf("no known package opens URLs of scheme %q: name it with -driver", scheme)
	}
	set, err := load.Load(ctx, dir, cfg.Patterns)
	if err != nil {
		return nil, err
	}
	root, module, err := moduleOf(ctx, dir)
	if err != nil {
		return nil, err
	}
	packages := withWorkflows(set.Packages)
	if len(packages) == 0 {
		return nil, fmt.Errorf("there is no workflow in %s", strings.Join(cfg.Patterns, " "))
	}
	temp, err := os.MkdirTemp("", "flowgen-replay-")
	if err != nil {
		return nil, fmt.Errorf("make a temporary directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(temp) }()
	report := &Report{Seed: cfg.Seed, Misfits: []Group{}}
	for i, b := range binaries(root, module, driver, packages) {
		if err := report.add(ctx, cfg, dir, filepath.Join(temp, fmt.Sprint(i)), b); err != nil {
			return nil, err
		}
	}
	slices.SortFunc(report.Misfits, func(a, b Group) int {
		return cmp.Or(cmp.Compare(a.Workflow, b.Workflow), cmp.Compare(b.Count, a.Count), cmp.Compare(a.Divergence, b.Divergence))
	})
	return report, nil
}

// moduleOf returns the root directory and the path of the module that contains dir.
func moduleOf(ctx context.Context, dir string) (root, path string, err error) {
	cmd := exec.CommandContext(ctx, "go", "env", "GOMOD")
	cmd.Dir = dir
	out, err := cmd.Output()
	if err != nil {
		return "", "", fmt.Errorf("find the module of %s: %w", dir, explained(err))
	}
	file := strings.TrimSpace(string(out))
	if file == "" || file == os.DevNull {
		return "", "", fmt.Errorf("find the module of %s: the directory is in no module", dir)
	}
	cmd = exec.CommandContext(ctx, "go", "mod", "edit", "-json", file)
	if out, err = cmd.Output(); err != nil {
		return "", "", fmt.Errorf("find the module of %s: %w", dir, explained(err))
	}
	var module struct{ Module struct{ Path string } }
	if err := json.Unmarshal(out, &module); err != nil { //nolint:musttag // the go command gives the fields these names
		return "", "", fmt.Errorf("find the module of %s: read %s: %w", dir, file, err)
	}
	return filepath.Dir(file), module.Module.Path, nil
}

// request is the input of the test that replays.
type request struct {
	URL, Workflow, Save, Report string
	Statuses                    []string
	Size                        int
	Seed                        uint64
}

// answer is the output of the test that replays.
type answer struct {
	Runs   []struct{ Run, Workflow, Err, Divergence string }
	Failed string
}

// add builds a test, executes it, and adds its results to the report.
func (r *Report) add(ctx context.Context, cfg Config, dir, temp string, b binary) error {
	if err := os.MkdirAll(temp, 0o700); err != nil {
		return fmt.Errorf("make a temporary directory: %w", err)
	}
	save := cfg.Save
	if save != "" && !filepath.IsAbs(save) {
		save = filepath.Join(dir, save)
	}
	source, overlay := filepath.Join(temp, "replay_test.go"), filepath.Join(temp, "overlay.json")
	asked, answered, program := filepath.Join(temp, "request.json"), filepath.Join(temp, "report.json"), filepath.Join(temp, "replay.test")
	ask := request{cfg.URL, cfg.Workflow, save, answered, cfg.Statuses, cfg.Size, cfg.Seed}
	err := errors.Join(
		os.WriteFile(source, b.source, 0o600),
		writeJSON(overlay, map[string]any{"Replace": map[string]string{b.file: source}}),
		writeJSON(asked, ask),
	)
	if err != nil {
		return fmt.Errorf("write the test that replays: %w", err)
	}
	build := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-ldflags=-w", "-overlay="+overlay, "-o", program, b.pattern)
	build.Dir = dir
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("build the test that replays: %w\n%s", err, bytes.TrimSpace(out))
	}
	run := exec.CommandContext(ctx, program, "-test.run=^TestFlowgenReplay$", "-test.timeout=0")
	run.Dir = dir
	run.Env = append(os.Environ(), "FLOWTEST_REPLAY="+asked)
	said, err := run.CombinedOutput()
	data, readErr := os.ReadFile(answered)
	if err != nil || readErr != nil {
		return fmt.Errorf("run the test that replays: %w\n%s", errors.Join(err, readErr), bytes.TrimSpace(said))
	}
	var a answer
	if err := json.Unmarshal(data, &a); err != nil { //nolint:musttag // the test that writes it has the same fields
		return fmt.Errorf("read the output of the replay test: %w", err)
	}
	if a.Failed != "" {
		return fmt.Errorf("%w: %s", ErrStore, a.Failed)
	}
	r.count(a)
	return nil
}

// count adds the results of an answer to the report.
func (r *Report) count(a answer) {
	for _, one := range a.Runs {
		r.Replayed++
		if one.Err == "" {
			continue
		}
		i := slices.IndexFunc(r.Misfits, func(g Group) bool { return g.Workflow == one.Workflow && g.Divergence == one.Divergence })
		if i < 0 {
			i = len(r.Misfits)
			r.Misfits = append(r.Misfits, Group{Workflow: one.Workflow, Divergence: one.Divergence, Error: one.Err})
		}
		g := &r.Misfits[i]
		g.Count++
		if len(g.Runs) < shownRuns {
			g.Runs = append(g.Runs, one.Run)
		}
	}
}

func writeJSON(path string, v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}

// explained returns the error of a command with the text that the command has written to standard
// error.
func explained(err error) error {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return err
}
