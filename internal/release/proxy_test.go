package release

import (
	"bytes"
	"cmp"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

const root = "../.."

// own is the path of the root module. The paths of all other modules of the tree begin with it.
const own = "github.com/flowgen/flowgen"

// aModule is a module of the workspace.
type aModule struct {
	dir  string // path from the root; "." for the root module
	file *modfile.File
	text []byte // content of go.mod
}

func (m aModule) path() string { return m.file.Module.Mod.Path }

// workspace returns go.work and the modules that it lists.
func workspace(t *testing.T) (*modfile.WorkFile, []aModule) {
	t.Helper()
	text := read(t, filepath.Join(root, "go.work"))
	work, err := modfile.ParseWork("go.work", text, nil)
	if err != nil {
		t.Fatal(err)
	}
	var all []aModule
	for _, use := range work.Use {
		m := aModule{dir: filepath.Clean(use.Path)}
		m.text = read(t, filepath.Join(root, m.dir, "go.mod"))
		if m.file, err = modfile.Parse("go.mod", m.text, nil); err != nil {
			t.Fatal(err)
		}
		all = append(all, m)
	}
	return work, all
}

// released returns the version of the root module that the modules of the workspace require.
func released(t *testing.T, work *modfile.WorkFile) string {
	t.Helper()
	for _, r := range work.Replace {
		if r.Old.Path == own {
			return r.Old.Version
		}
	}
	t.Fatal("go.work replaces no version of the root module")
	return ""
}

// fillProxy writes all modules, in the state of the working tree, to a directory that serves as a
// module proxy. The modules get the given version.
func fillProxy(t *testing.T, dir string, modules []aModule, version string) {
	t.Helper()
	names := strings.Split(strings.TrimRight(string(run(t, root, nil, "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard")), "\x00"), "\x00")
	files := map[string][]zip.File{}
	deepest := slices.SortedFunc(slices.Values(modules), func(a, b aModule) int { return cmp.Compare(len(b.dir), len(a.dir)) })
	for _, name := range names {
		if _, err := os.Lstat(filepath.Join(root, name)); err != nil {
			continue // the file was removed, and the removal is not committed
		}
		for _, m := range deepest {
			if rest, isIn := strings.CutPrefix(name, m.dir+"/"); isIn || m.dir == "." {
				if m.dir == "." {
					rest = name
				}
				files[m.path()] = append(files[m.path()], source{rest, filepath.Join(root, name)})
				break
			}
		}
	}
	for _, m := range modules {
		at := filepath.Join(dir, filepath.FromSlash(m.path()), "@v")
		if err := os.MkdirAll(at, 0o750); err != nil {
			t.Fatal(err)
		}
		var archive bytes.Buffer
		if err := zip.Create(&archive, module.Version{Path: m.path(), Version: version}, files[m.path()]); err != nil {
			t.Fatalf("pack module %s: %v", m.path(), err)
		}
		info, err := json.Marshal(map[string]any{"Version": version, "Time": time.Unix(0, 0).UTC()})
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string][]byte{
			"list": []byte(version + "\n"), version + ".info": info, version + ".mod": m.text, version + ".zip": archive.Bytes(),
		} {
			write(t, filepath.Join(at, name), content)
		}
	}
}

// source is a file of a module: its path in the module and its path on disk.
type source struct{ inModule, onDisk string }

func (s source) Path() string                 { return s.inModule }
func (s source) Lstat() (os.FileInfo, error)  { return os.Lstat(s.onDisk) }
func (s source) Open() (io.ReadCloser, error) { return os.Open(s.onDisk) }

func read(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func write(t *testing.T, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o750); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, content, 0o600); err != nil {
		t.Fatal(err)
	}
}

// run executes a command in a directory with additional environment variables, and returns the
// output.
func run(t *testing.T, dir string, env []string, name string, args ...string) []byte {
	t.Helper()
	began := time.Now()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, stderr.Bytes())
	}
	t.Logf("%s %s: %v, %s", name, strings.Join(args, " "), time.Since(began).Round(time.Millisecond), bytes.TrimSpace(stderr.Bytes()))
	return out
}
