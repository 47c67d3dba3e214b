package generator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/flowgen/flowgen/internal/client"
	"github.com/flowgen/flowgen/internal/diagnostic"
	"github.com/flowgen/flowgen/internal/emit"
	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/model"
)

// origin begins the line of a client that names the package it was generated for. byFlag ends the
// line if only the command line requested the client.
const (
	origin = "// It is the client of package "
	byFlag = ", by flowgen -client"
)

// claim is a request to generate a client for a package.
type claim struct {
	p    *load.Package
	m    *model.Package
	dir  string // absolute path of the client directory
	at   token.Position
	flag bool
}

// clients updates the client packages that are requested by directives, by the command line, or by
// an earlier command line. It removes all other clients. It returns the directories that it
// examined, which may contain no packages.
func (r *Report) clients(ctx context.Context, packages []*load.Package, models map[*load.Package]*model.Package, dir string, cfg Config) (looked []string, err error) {
	claims := r.claims(packages, models, dir, cfg)
	claimed := map[string]claim{}
	for _, c := range claims {
		if other, twice := claimed[c.dir]; twice && other.p != c.p {
			r.refuse(c, "the client would lie where that of package "+other.p.Path+" does", "name another directory")
			continue
		}
		claimed[c.dir] = c
		looked = append(looked, c.dir)
	}
	kept, sources := r.unclaimed(packages, models, claimed, dir, cfg.Check)
	for _, c := range append(claims, kept...) {
		if kept, ok := claimed[c.dir]; ok && kept.p != c.p {
			continue
		}
		if err := r.client(ctx, c, dir, cfg.Check); err != nil {
			return nil, err
		}
	}
	return append(looked, sources...), nil
}

// claims returns the clients that are requested by directives and by the command line.
func (r *Report) claims(packages []*load.Package, models map[*load.Package]*model.Package, dir string, cfg Config) []claim {
	var claims []claim
	var annotated []*load.Package
	for _, p := range packages {
		m := models[p]
		if m == nil || p.Foreign != "" || m.Empty() {
			continue
		}
		annotated = append(annotated, p)
		if text := m.Client; text.Value != "" && !r.mistaken(p, dir) {
			claims = append(claims, claim{p: p, m: m, dir: filepath.Join(p.Dir, filepath.FromSlash(text.Value)), at: p.Position(text.Pos)})
		}
	}
	if cfg.Client == "" {
		return claims
	}
	if len(annotated) != 1 {
		r.Diagnostics = append(r.Diagnostics, diagnostic.Diagnostic{File: dir,
			What: fmt.Sprintf("-client is for one package, and %d of those that are named have directives", len(annotated)), Fix: "name that package"})
		return claims
	}
	p := annotated[0]
	if r.mistaken(p, dir) {
		return claims
	}
	wanted := cfg.Client
	if !filepath.IsAbs(wanted) {
		wanted = filepath.Join(dir, wanted)
	}
	c := claim{p: p, m: models[p], dir: filepath.Clean(wanted), at: p.Position(models[p].First), flag: true}
	switch {
	case len(claims) == 0:
		return append(claims, c)
	case claims[0].dir != c.dir:
		r.refuse(c, "the package has a client in another directory, by client= of //flow:package", "leave out -client, or change the directive")
	}
	return claims
}

// mistaken reports whether package p has a diagnostic. If so, nothing is generated for it.
func (r *Report) mistaken(p *load.Package, dir string) bool {
	for _, d := range r.Diagnostics {
		file := d.File
		if !filepath.IsAbs(file) {
			file = filepath.Join(dir, file)
		}
		if file == p.Dir || filepath.Dir(file) == p.Dir {
			return true
		}
	}
	return false
}

func (r *Report) refuse(c claim, what, fix string) {
	r.Diagnostics = append(r.Diagnostics, diagnostic.New(c.at, what, fix))
}

// unclaimed finds existing clients that no directive requests. It returns the clients that an
// earlier command line requested, and removes the others. The second result contains the expected
// directories of the packages of all these clients.
func (r *Report) unclaimed(packages []*load.Package, models map[*load.Package]*model.Package, claimed map[string]claim, dir string, check bool) (kept []claim, sources []string) {
	known := map[string]*load.Package{}
	for _, p := range packages {
		known[p.Path] = p
	}
	for _, p := range packages {
		if _, ok := claimed[p.Dir]; ok || p.Dir == "" || p.Foreign != "" {
			continue
		}
		out, err := clientIn(p.Dir)
		source, flag := originOf(out.Content)
		if err != nil || !out.Exists || !out.Generated || source == "" {
			continue
		}
		of := known[source]
		from, inside := directoryOf(p, source)
		if inside {
			sources = append(sources, from)
		}
		switch {
		case of != nil && (models[of] == nil || r.mistaken(of, dir)):
		case of != nil && flag && !models[of].Empty():
			kept = append(kept, claim{p: of, m: models[of], dir: p.Dir, at: of.Position(models[of].First), flag: true})
		case of != nil || inside && empty(from):
			r.remove(out, dir, check)
			if !check {
				_ = os.Remove(p.Dir) // Remove succeeds only if the directory is empty.
			}
		}
	}
	return kept, sources
}

// directoryOf returns the directory of a package if the package belongs to the module of p.
func directoryOf(p *load.Package, path string) (dir string, ok bool) {
	rel, ok := strings.CutPrefix(path, p.Module())
	if !ok || p.Module() == "" {
		return "", false
	}
	return filepath.Join(p.Root, filepath.FromSlash(rel)), true
}

// empty reports whether a directory contains no Go files.
func empty(dir string) bool {
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	return err == nil && len(files) == 0
}

// originOf returns the path of the package for which the client with the given content was
// generated.
func originOf(content []byte) (path string, flag bool) {
	for line := range bytes.Lines(content) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(string(line), "\r\n"), origin); ok {
			path, flag := strings.CutSuffix(strings.TrimSuffix(rest, "."), byFlag)
			return path, flag
		}
	}
	return "", false
}

// isClient reports whether the directory of p contains only a client.
func isClient(p *load.Package) bool {
	if p.Dir == "" {
		return false
	}
	out, err := clientIn(p.Dir)
	source, _ := originOf(out.Content)
	other, _ := otherGoFile(p.Dir)
	return err == nil && out.Generated && other == "" && (source != "" || len(bytes.TrimSpace(out.Content)) == 0)
}

func clientIn(dir string) (load.Output, error) {
	return load.ReadOutput(filepath.Join(dir, client.File))
}

// client generates, compares and writes one client.
func (r *Report) client(ctx context.Context, c claim, dir string, check bool) error {
	importPath, ok := r.place(c)
	if !ok {
		return nil
	}
	source := func(ctx context.Context, path string) (*load.Package, error) {
		set, err := load.Load(ctx, c.p.Dir, []string{path})
		if err != nil {
			return nil, err
		}
		if len(set.Packages) != 1 || set.Packages[0].Types == nil {
			return nil, fmt.Errorf("package %s cannot be read", path)
		}
		return set.Packages[0], nil
	}
	pkg, ds, err := client.New(ctx, c.p, c.m, importPath, path.Base(importPath), source)
	if err != nil {
		return err
	}
	if len(ds) > 0 {
		r.Diagnostics = append(r.Diagnostics, ds...)
		return nil
	}
	line := origin + c.p.Path
	if c.flag {
		line += byFlag
	}
	text, err := emit.Client(pkg, line+".")
	if err == nil {
		err = load.Compiles(ctx, c.p, filepath.Join(c.dir, client.File), text)
	}
	out, readErr := clientIn(c.dir)
	switch {
	case err != nil:
		r.failed(filepath.Join(c.dir, client.File), "the client was not generated, by a fault of flowgen: please report it", err)
		return nil
	case readErr != nil:
		r.failed(filepath.Join(c.dir, client.File), "the file cannot be read", readErr)
		return nil
	}
	if !check {
		if err := os.MkdirAll(c.dir, 0o755); err != nil { //nolint:gosec // source is for everybody
			r.failed(c.dir, "the directory cannot be made", err)
			return nil
		}
	}
	r.write(out, text, dir, check)
	return nil
}

// place validates the directory of a client and returns the import path of the client. The second
// result is false if there is a diagnostic.
func (r *Report) place(c claim) (string, bool) {
	root := c.p.Root
	rel, err := filepath.Rel(root, c.dir)
	base := filepath.Base(c.dir)
	refuse := func(what, fix string) (string, bool) {
		r.refuse(c, what, fix)
		return "", false
	}
	switch {
	case root == "":
		return refuse("the package is part of no module, and so cannot have a client", "run go mod init")
	case c.dir == c.p.Dir:
		return refuse("the client would lie in the package itself", "name a directory of its own, as in client=ordersclient")
	case err != nil || rel == ".." || strings.HasPrefix(rel, ".."+string(filepath.Separator)):
		return refuse("the directory of the client is outside of module "+c.p.Module(), "name one inside of it")
	case rel == "." || !token.IsIdentifier(base) || base == "main" || base == "documentation" || base == "internal" || base == "vendor" || strings.HasPrefix(base, "_") || strings.HasSuffix(base, "_test"):
		return refuse("the client would be called "+base+", as its directory is, which is no name for a package that is imported", "name the directory after the package, as in client=ordersclient")
	}
	for at := c.dir; at != root && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return refuse("the directory of the client is outside of module "+c.p.Module()+": another one begins there", "name one inside of it")
		}
	}
	other, err := otherGoFile(c.dir)
	switch {
	case err != nil:
		r.failed(c.dir, "the directory of the client cannot be read", err)
		return "", false
	case other != "":
		return refuse("the directory of the client holds "+other+", which is no part of it", "name a directory of its own")
	}
	if out, err := clientIn(c.dir); err == nil && out.Exists && !out.Generated {
		return refuse(client.File+" in the directory of the client was not generated by flowgen", "rename it, or name another directory")
	}
	return path.Join(c.p.Module(), filepath.ToSlash(rel)), true
}

// otherGoFile returns the name of a Go file in dir that is not the client, or "".
func otherGoFile(dir string) (string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".go" && e.Name() != client.File {
			return e.Name(), nil
		}
	}
	return "", nil
}
