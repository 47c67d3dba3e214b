package load

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
)

// disk is the files of the user, some of which may have other contents than on disk.
type disk struct {
	overlay map[string][]byte // by path; nil: there is no overlay
}

func (d disk) read(path string) ([]byte, error) {
	if text, ok := d.overlay[path]; ok {
		return text, nil
	}
	return os.ReadFile(path)
}

// goFiles returns the paths of the Go files in a directory, sorted.
func (d disk) goFiles(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	var paths []string
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".go" {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	for path := range d.overlay {
		if filepath.Dir(path) == dir && filepath.Ext(path) == ".go" && !slices.Contains(paths, path) {
			paths = append(paths, path)
			err = nil
		}
	}
	slices.Sort(paths)
	return paths, err
}

// under returns what an overlay has in place of a file that the go command names: by the same path, or by one
// that leads to the same file.
func (d disk) under(path string) ([]byte, bool) {
	if text, ok := d.overlay[path]; ok {
		return text, true
	}
	for other, text := range d.overlay {
		if filepath.Base(other) == filepath.Base(path) && sameFile(other, path) {
			return text, true
		}
	}
	return nil, false
}

func sameFile(a, b string) bool {
	one, err := os.Stat(a)
	if err != nil {
		return false
	}
	other, err := os.Stat(b)
	return err == nil && os.SameFile(one, other)
}

// flags returns the flags that make the go command read the overlay, and what removes the temporary files behind
// them. There are none if a file of the overlay is not on disk: go/packages only reads such a file if it has the
// overlay itself.
func (d disk) flags() (flags []string, cleanup func(), err error) {
	for path := range d.overlay {
		if _, err := os.Stat(path); err != nil {
			return nil, func() {}, nil //nolint:nilerr // it is read without flags then
		}
	}
	if len(d.overlay) == 0 {
		return nil, func() {}, nil
	}
	flag, cleanup, err := overlayFlag(d.overlay, nil)
	if err != nil {
		return nil, nil, err
	}
	return []string{flag}, cleanup, nil
}

// overlayFlag returns the flag that makes the go command read contents in place of files, and not see the hidden
// ones, and what removes the temporary files behind it. It is not the Overlay of go/packages, which would make it
// distrust all export data and read what is imported from source, the standard library too.
func overlayFlag(contents map[string][]byte, hidden []string) (flag string, cleanup func(), err error) {
	dir, err := os.MkdirTemp("", "flowgen-")
	if err != nil {
		return "", nil, fmt.Errorf("create a directory for an overlay: %w", err)
	}
	cleanup = func() { _ = os.RemoveAll(dir) }
	replace := make(map[string]string)
	for _, path := range hidden {
		replace[path] = ""
	}
	for path, text := range contents {
		replace[path] = filepath.Join(dir, strconv.Itoa(len(replace)))
		err = errors.Join(err, os.WriteFile(replace[path], text, 0o600))
	}
	data, jsonErr := json.Marshal(map[string]any{"Replace": replace})
	list := filepath.Join(dir, "overlay.json")
	if err = errors.Join(err, jsonErr, os.WriteFile(list, data, 0o600)); err != nil {
		cleanup()
		return "", nil, fmt.Errorf("write an overlay: %w", err)
	}
	return "-overlay=" + list, cleanup, nil
}
