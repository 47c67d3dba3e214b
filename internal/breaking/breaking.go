// Package breaking compares a module with an earlier state of it and reports the changes that block
// runs in flight.
//
// Begin with breaking.go, which combines the parts. before.go finds the old state in manifests, in
// another directory or in a revision of git. accept.go reads the list of accepted changes.
package breaking

import (
	"context"
	"fmt"
	"path/filepath"

	"github.com/flowgen/flowgen/internal/compat"
	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/manifest"
)

// Config configures a comparison.
type Config struct {
	Dir      string   // directory for the patterns; the working directory if empty
	Patterns []string // package patterns as for the go command; "." if empty
	// Against selects the old state: a revision of git, a manifest, or a directory of manifests or
	// sources. If it is empty, the old state is the commit at which HEAD branched off the default
	// branch.
	Against string
}

// Report is the result of a comparison.
type Report struct {
	Against   string   `json:"against"`   // full description of the old state
	Packages  int      `json:"packages"`  // packages that have workflows or steps in the new state
	Workflows int      `json:"workflows"` // workflows in these packages
	Changes   []Change `json:"changes"`   // changes that are not accepted
	Accepted  []Change `json:"accepted"`
}

// Change is a reported change with its position in the source. The file name is relative to
// Config.Dir.
type Change struct {
	compat.Change
	File string `json:"file"`
	Line int    `json:"line,omitempty"`
}

// String returns the change on one line, as "file:line: class: subject: what: way out".
func (c Change) String() string {
	s := diagnostic.Printable(c.File)
	if c.Line > 0 {
		s += fmt.Sprintf(":%d", c.Line)
	}
	s += fmt.Sprintf(": %s: %s: %s", c.Class, c.Subject, c.What)
	if c.WayOut != "" {
		s += ": " + c.WayOut
	}
	return s
}

// Breaks reports whether a change blocks runs. If strict is true, Breaks also counts changes that
// may block some runs.
func (r *Report) Breaks(strict bool) bool {
	for _, c := range r.Changes {
		if c.Class == compat.Breaks || strict && c.Class == compat.Care {
			return true
		}
	}
	return false
}

// Run compares the packages that cfg selects with their old state and returns the changes.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", cfg.Dir, err)
	}
	if resolved, err := filepath.EvalSymlinks(dir); err == nil {
		dir = resolved
	}
	if len(cfg.Patterns) == 0 {
		cfg.Patterns = []string{"."}
	}
	cfg.Dir = dir
	now, err := Manifests(ctx, dir, cfg.Patterns, nil)
	if err != nil {
		return nil, err
	}
	old, against, err := before(ctx, cfg, now)
	if err != nil {
		return nil, err
	}
	accepted, err := readAccepted(dir)
	if err != nil {
		return nil, err
	}
	report := &Report{Against: against, Packages: len(now), Changes: []Change{}, Accepted: []Change{}}
	for _, m := range now {
		report.Workflows += len(m.Workflows)
	}
	for _, c := range compat.Compare(old, now) {
		change := Change{Change: c, File: diagnostic.RelativePath(dir, c.Position.Filename), Line: c.Position.Line}
		if accepted.has(c) {
			report.Accepted = append(report.Accepted, change)
		} else {
			report.Changes = append(report.Changes, change)
		}
	}
	return report, nil
}

// Manifests creates the manifests of the packages that match patterns relative to dir. The overlay
// maps file paths to the contents that replace the files on disk.
func Manifests(ctx context.Context, dir string, patterns []string, overlay map[string][]byte) (compat.Set, error) {
	set, roots, err := load.Module(ctx, dir, patterns, overlay)
	if err != nil {
		return nil, err
	}
	world := manifest.NewWorld(set.Packages)
	all := compat.Set{}
	for _, path := range roots {
		if m := world.Of(path); m != nil {
			all[path] = m
		}
	}
	return all, nil
}
