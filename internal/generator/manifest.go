package generator

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/flowgen/flowgen/internal/load"
	"github.com/flowgen/flowgen/internal/manifest"
)

// manifests updates all manifests if cfg requests them, otherwise only the existing ones. Unlike
// all other outputs, manifests need the source of helpers in other packages. Therefore the packages
// are loaded a second time, but only if there is a manifest to write.
func (r *Report) manifests(ctx context.Context, packages []*load.Package, dir string, cfg Config) error {
	outputs := map[string]load.Output{}
	var paths []string
	for _, p := range packages {
		if p.Dir == "" || p.Foreign != "" || p.Err != nil {
			continue
		}
		out, err := manifestIn(p.Dir)
		if err != nil {
			r.failed(p.Dir, "the manifest cannot be read", err)
			continue
		}
		if out.Exists || cfg.Manifest {
			outputs[p.Path] = out
			paths = append(paths, p.Path)
		}
	}
	if len(paths) == 0 || len(r.Diagnostics) > 0 {
		return nil
	}
	set, _, err := load.Module(ctx, dir, paths, nil)
	if err != nil {
		return err
	}
	world := manifest.NewWorld(set.Packages)
	for _, path := range paths {
		if m := world.Of(path); m != nil {
			r.write(outputs[path], m.Encode(), dir, cfg.Check)
		} else {
			r.remove(outputs[path], dir, cfg.Check)
		}
	}
	return nil
}

// manifestIn returns the existing manifest in a directory.
func manifestIn(dir string) (load.Output, error) {
	out := load.Output{Path: filepath.Join(dir, manifest.File)}
	content, err := os.ReadFile(out.Path)
	if errors.Is(err, fs.ErrNotExist) {
		return out, nil
	}
	if err != nil {
		return out, fmt.Errorf("read manifest: %w", err)
	}
	out.Exists, out.Generated, out.Content = true, true, content
	return out, nil
}
