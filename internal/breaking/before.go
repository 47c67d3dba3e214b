package breaking

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/flowgen/flowgen/internal/compat"
	"github.com/flowgen/flowgen/internal/manifest"
	"github.com/flowgen/flowgen/internal/name"
	"github.com/flowgen/flowgen/internal/revision"
)

// before returns the manifests of the old state and a description of their source.
func before(ctx context.Context, cfg Config, now compat.Set) (compat.Set, string, error) {
	path := cfg.Against
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(cfg.Dir, path)
	}
	if info, err := os.Stat(path); cfg.Against != "" && err == nil {
		if info.IsDir() {
			set, err := ofDirectory(ctx, path, cfg.Patterns)
			return set, path, err
		}
		set, err := ofFile(path)
		return set, path, err
	}
	r, err := revision.MergeBase(ctx, cfg.Dir)
	if cfg.Against != "" {
		r, err = revision.Find(ctx, cfg.Dir, cfg.Against)
	}
	if err != nil {
		return nil, "", err
	}
	set, err := ofRevision(ctx, r, cfg, now)
	return set, r.Commit, err
}

func ofFile(path string) (compat.Set, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the state before: %w", err)
	}
	m, err := manifest.Decode(data)
	if err != nil {
		return nil, fmt.Errorf("read the state before, %s: %w", path, err)
	}
	if !m.Current() {
		return nil, fmt.Errorf("read the state before, %s: its hashes are of another release of flowgen: name the revision or the sources instead", path)
	}
	return compat.Set{m.Package: m}, nil
}

// ofDirectory reads the manifests in dir and its subdirectories. If dir contains no manifests,
// ofDirectory creates them from the sources.
func ofDirectory(ctx context.Context, dir string, patterns []string) (compat.Set, error) {
	if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
		return Manifests(ctx, dir, patterns, nil)
	}
	set := compat.Set{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() != manifest.File {
			return err
		}
		found, err := ofFile(path)
		maps.Copy(set, found)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("read the state before, %s: %w", dir, err)
	}
	if len(set) == 0 {
		return nil, fmt.Errorf("read the state before: %s has neither a go.mod nor a %s", dir, manifest.File)
	}
	return set, nil
}

// ofRevision reads the manifests of a revision. If the manifest of a generated package is missing
// or has another format, ofRevision creates all manifests from the sources of the revision. It
// overlays these sources on the files on disk under the same paths, so that the build cache is
// valid for unchanged packages.
func ofRevision(ctx context.Context, r *revision.Revision, cfg Config, now compat.Set) (compat.Set, error) {
	module := moduleRoot(cfg.Dir)
	files, err := r.Files(ctx, module, manifest.File, name.Output)
	if err != nil {
		return nil, err
	}
	set, complete, err := storedManifests(ctx, r, files)
	if err != nil {
		return nil, err
	}
	if complete && len(set) > 0 && everything(cfg.Patterns) {
		return set, nil
	}
	if complete && len(set) > 0 {
		return chosen(set, now), nil
	}
	overlay, err := laidOver(ctx, r, module)
	if err != nil {
		return nil, err
	}
	return Manifests(ctx, cfg.Dir, cfg.Patterns, overlay)
}

// everything reports whether patterns select all packages of the module.
func everything(patterns []string) bool { return len(patterns) == 1 && patterns[0] == "./..." }

// chosen returns the manifests in set whose packages are part of now.
func chosen(set, now compat.Set) compat.Set {
	some := compat.Set{}
	for path := range now {
		if m := set[path]; m != nil {
			some[path] = m
		}
	}
	return some
}

// storedManifests reads the manifests of a revision. The second result reports whether each
// generated package has a manifest of the current format.
func storedManifests(ctx context.Context, r *revision.Revision, files []string) (compat.Set, bool, error) {
	var paths []string
	generated := map[string]bool{}
	for _, path := range files {
		if filepath.Base(path) == manifest.File {
			paths = append(paths, path)
		} else {
			generated[filepath.Dir(path)] = true
		}
	}
	contents, err := r.Contents(ctx, paths)
	if err != nil {
		return nil, false, err
	}
	set := compat.Set{}
	for path, data := range contents {
		m, err := manifest.Decode(data)
		if err != nil || !m.Current() {
			continue // The manifest is created from the sources instead.
		}
		set[m.Package] = m
		delete(generated, filepath.Dir(path))
	}
	return set, len(generated) == 0, nil
}

// hidden is the overlay content for a file that did not exist in the old state. Its build tag
// excludes the file.
const hidden = "//go:build flowgen_was_not_there\n\npackage hidden\n"

// laidOver returns an overlay with the old contents of all files of a module that differ from the
// files on disk.
func laidOver(ctx context.Context, r *revision.Revision, module string) (map[string][]byte, error) {
	paths, err := r.Changed(ctx, module, "*.go", "go.mod", "go.sum")
	if err != nil {
		return nil, err
	}
	overlay, err := r.Contents(ctx, paths)
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		if _, was := overlay[path]; !was && strings.HasSuffix(path, ".go") {
			overlay[path] = []byte(hidden)
		}
	}
	return overlay, nil
}

// moduleRoot returns the closest directory at or above dir that contains a go.mod. If there is
// none, it returns dir.
func moduleRoot(dir string) string {
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "go.mod")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			return dir
		}
	}
}
