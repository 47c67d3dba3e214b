// Package generator implements the flowgen command without its flags. It loads packages, builds
// their models, and updates each flow_gen.go or reports which files are stale.
package generator

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/emit"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
	"github.com/flowgen/flowgen/internal/unchanged"
)

// Config contains the parameters of the generator.
type Config struct {
	Dir      string   // directory for the patterns; the working directory if empty
	Patterns []string // package patterns as for the go command; "." if empty
	Check    bool     // report changes without writing files
	// Since is a git revision. The generator compares the stored names with those in the generated
	// files of the revision. If Since is empty, it compares them with the generated files on disk.
	Since string
	// Manifest requests a manifest for each package. If Manifest is false, only existing manifests
	// are updated.
	Manifest bool
	// Client is the directory for a client of the only package with directives. If Client is empty,
	// only the clients that directives request are generated.
	Client string
}

// Report lists the actions that Run took. With Config.Check, it lists the necessary actions
// instead.
type Report struct {
	Diagnostics []diagnostic.Diagnostic `json:"diagnostics"` // sorted; file names are relative to Config.Dir
	Changes     []Change                `json:"changes"`     // sorted by package
	Annotated   int                     `json:"annotated"`   // number of packages with directives
	// Warnings lists changed stored names. Runs in flight still use the old names.
	Warnings []diagnostic.Diagnostic `json:"warnings"`
	// Notes lists packages that go generate skips. A note is not a failure, and there are no notes
	// with Config.Check.
	Notes []diagnostic.Diagnostic `json:"notes"`
}

// Change is an action on one generated file.
type Change struct {
	File   string `json:"file"` // path relative to Config.Dir
	Action Action `json:"action"`
	Diff   string `json:"diff,omitempty"` // the difference for a stale file, with Config.Check
}

// Action is an action on a generated file, or a problem with the file.
type Action string

// The actions. The ones after Removed occur only with Config.Check.
const (
	Wrote    Action = "wrote"
	Removed  Action = "removed"
	Missing  Action = "missing"  // a package has directives but no generated file
	Stale    Action = "stale"    // the content differs from the generated code
	Leftover Action = "leftover" // a generated file belongs to a package without directives
)

// Run updates the packages that cfg selects. If a package contains mistakes, or cannot be read or
// written, Run does not modify it and continues with the other packages. Run returns an error only
// for a failure that concerns no single package, for example if the go command cannot be started.
func Run(ctx context.Context, cfg Config) (*Report, error) {
	dir, err := filepath.Abs(cfg.Dir)
	if err != nil {
		return nil, fmt.Errorf("find directory %s: %w", cfg.Dir, err)
	}
	patterns := cfg.Patterns
	if len(patterns) == 0 {
		patterns = []string{"."}
	}
	report := &Report{Diagnostics: []diagnostic.Diagnostic{}, Changes: []Change{}, Warnings: []diagnostic.Diagnostic{}, Notes: []diagnostic.Diagnostic{}}
	var question unchanged.Question
	if cfg.Since == "" { // The cached answer covers only files on disk, not the files of a revision.
		question = unchanged.Ask(dir, patterns, strconv.FormatBool(cfg.Check), strconv.FormatBool(cfg.Manifest), cfg.Client)
	}
	if annotated, ok := question.Answer(); ok {
		report.Annotated = annotated
		return report, nil
	}
	set, err := load.Load(ctx, dir, patterns)
	if err != nil {
		return nil, err
	}
	var names model.Registry
	models := make(map[*load.Package]*model.Package)
	for _, p := range set.Packages {
		if isClient(p) {
			continue // The client is handled together with its package.
		}
		if p.Err == nil {
			models[p] = report.generate(ctx, p, &names, dir, cfg)
		} else {
			report.failed(p.Dir, "the package cannot be read", p.Err)
		}
	}
	ofClients, err := report.clients(ctx, set.Packages, models, dir, cfg)
	if err != nil {
		return nil, err
	}
	if err := report.manifests(ctx, set.Packages, dir, cfg); err != nil {
		return nil, err
	}
	if !cfg.Check {
		report.unmentioned(set.Packages, models)
	}
	report.Notes = diagnostic.Sorted(diagnostic.Relative(dir, report.Notes))
	report.Diagnostics = diagnostic.Sorted(diagnostic.Relative(dir, report.Diagnostics))
	report.Warnings = diagnostic.Sorted(diagnostic.Relative(dir, report.Warnings))
	if sources, ok := set.Sources(); ok && len(report.Diagnostics)+len(report.Changes)+len(report.Warnings)+len(report.Notes) == 0 {
		question.Remember(append(sources, ofClients...), report.Annotated)
	}
	return report, nil
}

// generate generates the code of one package and returns its model.
func (r *Report) generate(ctx context.Context, p *load.Package, names *model.Registry, dir string, cfg Config) *model.Package {
	m, ds := model.New(p)
	if !m.Empty() || len(ds) > 0 {
		r.Annotated++
	}
	if p.Foreign != "" {
		if len(ds) > 0 || !m.Empty() {
			r.Diagnostics = append(r.Diagnostics, diagnostic.Diagnostic{File: p.Dir,
				What: "package " + p.Path + " is part of " + p.Foreign + ", where nothing may be written",
				Fix:  "run flowgen where that code is kept, or name the packages of your own module only"})
		}
		return m
	}
	if !m.Empty() && p.Output.Exists && !p.Output.Generated {
		ds = append(ds, diagnostic.Diagnostic{File: p.Output.Path, Line: 1, Column: 1,
			What: "this file was not generated by flowgen, which writes to this name", Fix: "rename it"})
	}
	ds = append(ds, names.Add(m, p.Position)...)
	if len(ds) == 0 && !m.Empty() && !p.Requires(ctx, emit.Module) {
		ds = append(ds, diagnostic.New(p.Position(m.First),
			"no required module provides what the generated code imports", "run go get "+emit.Module))
	}
	if len(ds) > 0 {
		r.Diagnostics = append(r.Diagnostics, ds...)
		return m
	}
	if m.Empty() {
		r.warn(ctx, m, p, nil, cfg.Since)
		r.remove(p.Output, dir, cfg.Check)
		return m
	}
	source, err := emit.Source(m)
	if err != nil {
		r.failed(p.Output.Path, "nothing was generated, by a fault of flowgen: please report it", err)
		return m
	}
	r.warn(ctx, m, p, source, cfg.Since)
	r.write(p.Output, source, dir, cfg.Check)
	return m
}

// failed adds a diagnostic for an error that prevented the processing of path.
func (r *Report) failed(path, what string, err error) {
	r.Diagnostics = append(r.Diagnostics, diagnostic.Diagnostic{File: path, What: what, Fix: err.Error()})
}

// remove deletes a generated file that a package without directives does not need.
func (r *Report) remove(out load.Output, dir string, check bool) {
	if !out.Exists || !out.Generated {
		return
	}
	change := Change{File: diagnostic.RelativePath(dir, out.Path), Action: Leftover}
	if !check {
		change.Action = Removed
		if err := os.Remove(out.Path); err != nil {
			r.failed(out.Path, "the file is not needed any more, but cannot be removed", err)
			return
		}
	}
	r.Changes = append(r.Changes, change)
}

func (r *Report) write(out load.Output, source []byte, dir string, check bool) {
	if out.UpToDate(source) {
		return
	}
	change := Change{File: diagnostic.RelativePath(dir, out.Path), Action: Missing}
	switch {
	case !check:
		change.Action = Wrote
		if err := replace(out.Path, source); err != nil {
			r.failed(out.Path, "the file cannot be written", err)
			return
		}
	case out.Exists:
		change.Action = Stale
		change.Diff = diff(change.File, string(out.Content), string(source))
	}
	r.Changes = append(r.Changes, change)
}
