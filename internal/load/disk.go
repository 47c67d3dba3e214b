package load

import (
	"os"
	"path/filepath"
	"slices"
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
