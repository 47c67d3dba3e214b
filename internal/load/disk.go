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

// disk reads the files of the user. An overlay can replace their contents.
type disk struct {
	overlay map[string][]byte // contents by path; nil if there is no overlay
}

func (d disk) read(path string) ([]byte, error) {
	if text, ok := d.overlay[path]; ok {
		return text, nil
	}
	return os.ReadFile(path)
}

// goFiles returns the sorted paths of the Go files in a directory.
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

// under returns the overlay content for a file that the go command names. The path may differ from
// the overlay's path of the same file.
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

// flags returns the flags with which the go command reads the overlay, and a function that removes
// the temporary files. If a file of the overlay does not exist on disk, it returns no flags,
// because go/packages reads the file only from the field Config.Overlay.
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

// overlayFlag returns the flag with which the go command reads the contents instead of the files
// and ignores the hidden files. It also returns a function that removes the temporary files. The
// field Overlay of go/packages is unsuitable, because go/packages would then ignore all export data
// and type-check all imports from source, including the standard library.
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
