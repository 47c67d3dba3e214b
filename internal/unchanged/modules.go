package unchanged

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/mod/modfile"
)

// modules adds the files that determine the versions of all dependencies. These are the files of a
// module, of its workspace, of each module that the workspace uses, and of each module on disk that
// replaces another one. They are added even if no package of the module was read.
type modules struct {
	h      io.Writer
	before time.Time
	seen   map[string]bool // visited directories
}

// add adds the module files of a directory.
func (m modules) add(dir string) bool {
	if m.seen[dir] {
		return true
	}
	m.seen[dir] = true
	path := filepath.Join(dir, "go.mod")
	if !file(m.h, path, m.before) || !file(m.h, filepath.Join(dir, "go.sum"), m.before) || !file(m.h, filepath.Join(dir, "vendor", "modules.txt"), m.before) {
		return false
	}
	text, ok := read(path)
	if !ok {
		return false
	}
	if text != nil {
		mod, err := modfile.Parse(path, text, nil)
		if err != nil || !m.replaced(dir, mod.Replace) {
			return false
		}
	}
	return m.workspace(filepath.Join(dir, "go.work"))
}

// workspace adds a go.work file, if it exists, and the modules that the file uses.
func (m modules) workspace(path string) bool {
	if !file(m.h, path, m.before) || !file(m.h, path+".sum", m.before) {
		return false
	}
	text, ok := read(path)
	if text == nil {
		return ok
	}
	work, err := modfile.ParseWork(path, text, nil)
	if err != nil {
		return false
	}
	dir := filepath.Dir(path)
	for _, use := range work.Use {
		if !m.add(absolute(dir, use.Path)) {
			return false
		}
	}
	return m.replaced(dir, work.Replace)
}

// replaced adds the modules on disk that replace other modules.
func (m modules) replaced(dir string, by []*modfile.Replace) bool {
	for _, r := range by {
		if modfile.IsDirectoryPath(r.New.Path) && !m.add(absolute(dir, r.New.Path)) {
			return false
		}
	}
	return true
}

func absolute(dir, path string) string {
	if filepath.IsAbs(path) {
		return filepath.Clean(path)
	}
	return filepath.Join(dir, filepath.FromSlash(path))
}

// read returns the content of a file, or nil if the file does not exist. ok is false if the file
// cannot be read.
func read(path string) ([]byte, bool) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, true
	}
	return text, err == nil
}
