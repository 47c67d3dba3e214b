package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Result is the verdict on a mutant, with the evidence.
type Result struct {
	ID      string        `json:"id"`
	Verdict Verdict       `json:"verdict"`
	Killer  string        `json:"killer,omitempty"`
	Took    time.Duration `json:"took_ns"`
	Detail  string        `json:"detail,omitempty"` // output of the tests; empty if the mutant was killed
}

// campaign tests mutants one after the other. Concurrent tests would be slow on a small machine,
// and a slow test may fail for another reason than the mutant.
type campaign struct {
	root    string        // root directory of the module
	scratch string        // temporary directory
	limit   time.Duration // time limit for the tests of one mutant
	notes   io.Writer     // progress messages
	verbose bool
	all     bool            // run all tests of the package
	sound   map[string]bool // tests that pass without mutants; the key is the package and the name of the test
	// scripted is the path of the test program that reads scripts from files. It is empty until the
	// program has been built.
	scripted string
	built    int                // number of programs that were built
	bundles  map[string]*bundle // bundles by package
	mutants  []Mutant           // all mutants to test
}

// baseline runs on the unchanged source all tests that must kill a mutant. A test that fails
// without mutants proves nothing about a mutant.
func (c *campaign) baseline(ctx context.Context, mutants []Mutant) error {
	tests := map[string][]string{}
	for i := range mutants {
		m := &mutants[i]
		tests[m.Package] = append(tests[m.Package], m.Tests...)
	}
	c.sound = map[string]bool{}
	for _, pkg := range sortedKeys(tests) {
		slices.Sort(tests[pkg])
		log, ok, err := c.test(ctx, pkg, slices.Compact(tests[pkg]), "", 10*c.limit)
		if err != nil {
			return fmt.Errorf("run the tests of %s unmutated: %w", pkg, err)
		}
		if !ok {
			return fmt.Errorf("run the tests of %s unmutated: %s failed:\n%s", pkg, strings.Join(log.Failed, ", "), log.failures())
		}
		for name := range log.Passed {
			c.sound[pkg+" "+name] = true
		}
	}
	return nil
}

// fits returns an error if a test of the mutant does not exist.
func (c *campaign) fits(m *Mutant) error {
	for _, name := range m.Tests {
		if !c.all && !c.sound[m.Package+" "+name] {
			return &StaleError{m.ID, m.Package, "there is no test " + name}
		}
	}
	return nil
}

// try applies a mutant, runs its tests and returns the result.
func (c *campaign) try(ctx context.Context, m *Mutant) Result {
	start := time.Now()
	r := Result{ID: m.ID}
	mutated, err := m.ApplyIn(c.root)
	if err == nil {
		err = c.fits(m)
	}
	if err != nil {
		r.Verdict, r.Detail = Stale, err.Error()
		return r
	}
	tests := m.Tests
	if c.all {
		tests = nil
	}
	log, ok, err := c.testMutant(ctx, m, mutated, tests)
	if err != nil {
		r.Verdict, r.Detail = Broken, err.Error()
		return r
	}
	r.Verdict, r.Killer = judge(m, log, ok)
	r.Took = time.Since(start)
	if c.all && r.Verdict == Killed {
		r.Killer = strings.Join(log.Failed, " ")
	}
	if r.Verdict != Killed || c.verbose {
		r.Detail = log.Output
	}
	return r
}

func (c *campaign) testMutant(ctx context.Context, m *Mutant, mutated string, tests []string) (*testLog, bool, error) {
	if m.isScript() {
		return c.testScript(ctx, m, mutated, tests)
	}
	b, err := c.bundleOf(ctx, m.Package)
	if err != nil {
		return nil, false, err
	}
	if b.holds[m.ID] {
		return c.testProgram(ctx, b.program, m.Package, tests, mutantEnv+"="+m.ID)
	}
	overlay, err := c.overlay(map[string]string{m.File: mutated})
	if err != nil {
		return nil, false, err
	}
	return c.test(ctx, m.Package, tests, overlay, c.limit)
}

// overlay writes an overlay file and returns its name. With the overlay, the go command reads the
// given texts instead of the files with the same paths. A text may have the path of a file that
// does not exist.
func (c *campaign) overlay(texts map[string]string) (string, error) {
	replace := map[string]string{}
	for i, file := range sortedKeys(texts) {
		instead := filepath.Join(c.scratch, fmt.Sprintf("mutated%d%s", i, filepath.Ext(file)))
		if err := os.WriteFile(instead, []byte(texts[file]), 0o600); err != nil {
			return "", fmt.Errorf("write overlay of %s: %w", file, err)
		}
		replace[filepath.Join(c.root, filepath.FromSlash(file))] = instead
	}
	b, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	name := filepath.Join(c.scratch, "overlay.json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		return "", fmt.Errorf("write overlay: %w", err)
	}
	return name, nil
}

// build builds the tests of a package with the overlay of texts.
func (c *campaign) build(ctx context.Context, pkg string, texts map[string]string) (program string, err error) {
	overlay, err := c.overlay(texts)
	if err != nil {
		return "", err
	}
	c.built++
	program = filepath.Join(c.scratch, fmt.Sprintf("mutants%d.test", c.built))
	ctx, cancel := context.WithTimeout(ctx, buildTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "test", "-c", "-vet=off", "-gcflags="+fastCompile, "-overlay="+overlay, "-o", program, "./"+pkg)
	cmd.Dir = c.root
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the tests of ./%s: %w\n%s", pkg, err, out)
	}
	return program, nil
}

// testProgram runs tests of a test program that has been built.
func (c *campaign) testProgram(ctx context.Context, program, pkg string, tests []string, env string) (*testLog, bool, error) {
	args := []string{"tool", "test2json", program, "-test.v=test2json", "-test.timeout=" + c.limit.String()}
	if len(tests) > 0 {
		args = append(args, "-test.failfast", "-test.run="+pattern(tests))
	}
	return c.listen(ctx, 2*c.limit, filepath.Join(c.root, filepath.FromSlash(pkg)), []string{env}, args...)
}

// patience makes a test fail before the time limit if a mutant prevents the event for which the
// test waits. Package flowtest, which the tests of the engine use, reads the variable.
const patience = "FLOWTEST_PATIENCE=20s"

// buildTime is the time limit for the compiler. The time limit for the tests is added to it.
const buildTime = 5 * time.Minute

// fastCompile disables expensive compiler passes, because they take more time than the tests of a
// mutant.
const fastCompile = "-N -l"

// test runs the named tests of a package. If names is empty, it runs all tests.
func (c *campaign) test(ctx context.Context, pkg string, names []string, overlay string, limit time.Duration) (*testLog, bool, error) {
	args := []string{"test", "-json", "-vet=off", "-gcflags=" + fastCompile, "-count=1", "-timeout=" + limit.String()}
	if overlay != "" {
		args = append(args, "-overlay="+overlay)
	}
	if len(names) > 0 {
		args = append(args, "-run="+pattern(names))
	}
	if overlay != "" && len(names) > 0 {
		args = append(args, "-failfast")
	}
	return c.listen(ctx, limit+buildTime, c.root, nil, append(args, "./"+pkg)...)
}

// listen runs a go command that prints the output of go test -json. It returns the parsed output,
// and whether the command succeeded.
func (c *campaign) listen(ctx context.Context, limit time.Duration, dir string, env []string, args ...string) (*testLog, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir, cmd.Env, cmd.Stderr = dir, append(append(os.Environ(), patience), env...), os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) } // The interrupt also ends the tests.
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, false, err
	}
	if err := cmd.Start(); err != nil {
		return nil, false, err
	}
	log := &testLog{}
	readErr := log.read(out)
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("run go %s: %w", args[0], ctx.Err())
	}
	return log, waitErr == nil, readErr
}

// pattern returns the argument of go test -run that selects the named tests.
func pattern(names []string) string {
	all := make([]string, len(names))
	for i, name := range names {
		parts := strings.Split(name, "/")
		for j, part := range parts {
			parts[j] = "^" + regexp.QuoteMeta(part) + "$"
		}
		all[i] = strings.Join(parts, "/")
	}
	return strings.Join(all, "|")
}
