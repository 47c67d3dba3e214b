package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Result is what was found out about a mutant.
type Result struct {
	ID      string        `json:"id"`
	Verdict Verdict       `json:"verdict"`
	Killer  string        `json:"killer,omitempty"`
	Took    time.Duration `json:"took_ns"`
	Detail  string        `json:"detail,omitempty"` // of a finding
}

// campaign tries mutants, one after the other: the machine may be small, and tests
// that are held up say less.
type campaign struct {
	root    string        // of the module
	scratch string        // a directory of its own
	limit   time.Duration // for the tests of one mutant
	verbose bool
	all     bool            // run all tests of the package
	sound   map[string]bool // tests that pass unmutated, behind their package
	// scripted is the program of the tests that read scripts; empty: not built yet.
	scripted string
}

// baseline runs every test that is to kill something on the source as it is. What
// fails there proves nothing elsewhere.
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
			return fmt.Errorf("run the tests of %s unmutated: %s failed:\n%s", pkg, strings.Join(log.Failed, ", "), log.Output)
		}
		for name := range log.Passed {
			c.sound[pkg+" "+name] = true
		}
	}
	return nil
}

// fits returns why a mutant cannot be tried: a test of its is not there.
func (c *campaign) fits(m *Mutant) error {
	for _, name := range m.Tests {
		if !c.all && !c.sound[m.Package+" "+name] {
			return &StaleError{m.ID, m.Package, "there is no test " + name}
		}
	}
	return nil
}

// try breaks one thing and looks who notices.
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
	overlay, err := c.overlay(m.File, mutated)
	if err != nil {
		return nil, false, err
	}
	return c.test(ctx, m.Package, tests, overlay, c.limit)
}

// overlay writes what makes the go command read a text in place of a file, and
// returns its name.
func (c *campaign) overlay(file, text string) (string, error) {
	instead := filepath.Join(c.scratch, "mutated"+filepath.Ext(file))
	replace := map[string]map[string]string{"Replace": {filepath.Join(c.root, filepath.FromSlash(file)): instead}}
	b, err := json.Marshal(replace)
	if err != nil {
		return "", fmt.Errorf("write overlay of %s: %w", file, err)
	}
	name := filepath.Join(c.scratch, "overlay.json")
	if err := errors.Join(os.WriteFile(instead, []byte(text), 0o600), os.WriteFile(name, b, 0o600)); err != nil {
		return "", fmt.Errorf("write overlay of %s: %w", file, err)
	}
	return name, nil
}

// buildTime is what the compiler may take beside the tests.
const buildTime = 5 * time.Minute

// fastCompile makes the compiler leave out what takes its time: the tests of a mutant
// take less than that.
const fastCompile = "-N -l"

// test runs tests of a package by their names; none: all of them.
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
	cmd := exec.Command("go", append(args, "./"+pkg)...)
	cmd.Dir = c.root
	return c.listen(ctx, cmd, limit+buildTime)
}

// listen runs a command that prints what go test -json does, and reports what it
// has said and whether it has ended well.
func (c *campaign) listen(ctx context.Context, cmd *exec.Cmd, limit time.Duration) (*testLog, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, false, err
	}
	if err := cmd.Start(); err != nil {
		return nil, false, err
	}
	stop := context.AfterFunc(ctx, func() { _ = cmd.Process.Signal(os.Interrupt) })
	defer stop()
	log := &testLog{}
	readErr := log.read(out)
	waitErr := cmd.Wait()
	if ctx.Err() != nil {
		return nil, false, fmt.Errorf("run %s: %w", strings.Join(cmd.Args[:2], " "), ctx.Err())
	}
	return log, waitErr == nil, readErr
}

// pattern is what go test -run wants for tests of these names.
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
