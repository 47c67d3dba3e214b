// Package unchanged decides within milliseconds, without the go command, that flowgen has nothing
// to do. It records the files that the last invocation read, and compares them with the current
// files.
//
// In case of doubt it assumes a change. It records nothing for packages with cgo, for patterns
// other than directories, and for files that were written while flowgen was reading. It also
// records nothing if the environment replaces files or the go command. See [Question.Remember].
package unchanged

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/internal/manifest"
)

// Env is the environment variable that contains the directory for recorded answers. The value "off"
// disables recording. The default is the directory flowgen in the user's cache directory.
const Env = "FLOWGENCACHE"

// kept is the duration for which an unused answer is kept. fresh is the period before an invocation
// in which no file may have been written. It is needed because some file systems store modification
// times with a resolution of two seconds.
const (
	kept  = 30 * 24 * time.Hour
	fresh = 2 * time.Second
)

// Question identifies an invocation of flowgen. The zero value has no answer.
type Question struct {
	dir   string
	roots []string // directories that are read recursively
	file  string   // path of the file with the answer; empty if nothing is recorded
	began time.Time
}

// answer is the content of a file with a recorded answer.
type answer struct {
	Dirs      []string `json:"dirs"` // absolute paths, sorted
	Digest    string   `json:"digest"`
	Annotated int      `json:"annotated"`
}

// Ask returns the question for an invocation in the absolute directory dir with package patterns.
// words contains all other values that the result depends on.
func Ask(dir string, patterns []string, words ...string) Question {
	none := Question{}
	cache := os.Getenv(Env)
	if cache == "" {
		user, err := os.UserCacheDir()
		if err != nil {
			return none
		}
		cache = filepath.Join(user, "flowgen")
	}
	if cache == "off" || !filepath.IsAbs(cache) {
		return none
	}
	q := Question{dir: dir, began: time.Now()}
	for _, p := range patterns {
		below, all := strings.CutSuffix(filepath.ToSlash(p), "/...")
		if !filepath.IsAbs(below) && below != "." && below != ".." && !strings.HasPrefix(below, "./") && !strings.HasPrefix(below, "../") || strings.Contains(below, "...") {
			return none
		}
		if !filepath.IsAbs(below) {
			below = filepath.Join(dir, below)
		}
		if all {
			q.roots = append(q.roots, below)
		}
	}
	h := sha256.New()
	for _, word := range slices.Concat([]string{dir}, patterns, []string{"\x00"}, words) {
		fmt.Fprintf(h, "%q\n", word)
	}
	if !tool(h) || !environment(h) {
		return none
	}
	q.file = filepath.Join(cache, hex.EncodeToString(h.Sum(nil)[:16])+".json")
	return q
}

// own returns a hash of the running program.
var own = sync.OnceValues(func() (digest string, ok bool) {
	path, err := os.Executable()
	h := sha256.New()
	if err != nil || !file(h, path, time.Time{}) {
		return "", false
	}
	return hex.EncodeToString(h.Sum(nil)), true
})

// tool adds the identity of flowgen and of the go command to h. It returns false if the go command
// is a script or a link to another program. Such a command may select the actual program by its own
// rules.
func tool(h io.Writer) bool {
	digest, ok := own()
	if !ok {
		return false
	}
	fmt.Fprintf(h, "%s\n", digest)
	found, err := exec.LookPath("go")
	if err != nil {
		return false
	}
	path, err := filepath.EvalSymlinks(found)
	if err != nil || strings.TrimSuffix(filepath.Base(path), ".exe") != "go" {
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // The file is only read, so an error of Close is irrelevant.
	var magic [2]byte
	info, err := f.Stat()
	if _, short := io.ReadFull(f, magic[:]); err != nil || short != nil || string(magic[:]) == "#!" {
		return false
	}
	fmt.Fprintf(h, "%q %d %d %s\n", path, info.Size(), info.ModTime().UnixNano(), runtime.Version())
	root := filepath.Dir(filepath.Dir(path))
	return file(h, filepath.Join(root, "VERSION"), time.Time{}) && file(h, filepath.Join(root, "go.env"), time.Time{})
}

// environment adds the environment variables and the configuration file that the go command reads
// to h.
func environment(h io.Writer) bool {
	set := os.Environ()
	slices.Sort(set)
	for _, variable := range set {
		name, value, _ := strings.Cut(variable, "=")
		switch {
		case slices.Contains([]string{"GOFILE", "GOLINE", "GOPACKAGE", "GOMAXPROCS", "GOGC", "GOMEMLIMIT"}, name): // The output does not depend on these variables.
			continue
		case name == "GOPACKAGESDRIVER" && value != "" && value != "off", name == "GO111MODULE" && value == "off", name == "GOTOOLCHAIN" && strings.Contains(value, "path"):
			return false
		case name == "GOFLAGS" && strings.ContainsAny(value, "'\""), name == "GOFLAGS" && replaces(value):
			return false
		case strings.HasPrefix(name, "GO"), strings.HasPrefix(name, "CGO_"), name == "CC", name == "CXX":
			fmt.Fprintf(h, "%q\n", variable)
		}
	}
	of := os.Getenv("GOENV")
	if of == "off" {
		return true
	}
	if of == "" {
		config, err := os.UserConfigDir()
		if err != nil {
			return true // The go command finds no such file either.
		}
		of = filepath.Join(config, "go", "env")
	}
	text, err := os.ReadFile(of)
	if errors.Is(err, fs.ErrNotExist) {
		return true
	}
	if err != nil || bytes.Contains(text, []byte("GOFLAGS")) && replaces(string(text)) || bytes.Contains(text, []byte("GOPACKAGESDRIVER")) {
		return false
	}
	fmt.Fprintf(h, "%q\n", text)
	return true
}

// replaces reports whether flags make the go command read other files than the ones on disk.
func replaces(flags string) bool {
	return strings.Contains(flags, "-modfile") || strings.Contains(flags, "-overlay") || strings.Contains(flags, "-C") || strings.Contains(flags, "-toolexec")
}

// Answer returns the recorded number of packages with directives. ok is false if any relevant file
// has changed since the number was recorded.
func (q Question) Answer() (annotated int, ok bool) {
	if q.file == "" {
		return 0, false
	}
	text, err := os.ReadFile(q.file)
	if err != nil {
		return 0, false
	}
	var a answer
	if json.Unmarshal(text, &a) != nil {
		return 0, false
	}
	digest, ok := q.digest(a.Dirs, time.Time{})
	if !ok || digest != a.Digest {
		return 0, false
	}
	if info, err := os.Stat(q.file); err == nil && time.Since(info.ModTime()) > kept/10 {
		_ = os.Chtimes(q.file, time.Time{}, time.Now()) // The modification time marks the answer as used.
	}
	return a.Annotated, true
}

// Remember records that the invocation has nothing to do while certain files are unchanged. These
// are the Go files and manifests of dirs and of the directories that the patterns name, and the
// module and workspace files. Remember records nothing unless all files are older than the
// question, because a newer file may have been written after it was read. A failure only causes
// more work for the next invocation.
func (q Question) Remember(dirs []string, annotated int) {
	if q.file == "" {
		return
	}
	dirs = slices.Compact(slices.Sorted(slices.Values(dirs)))
	digest, ok := q.digest(dirs, q.began.Add(-fresh))
	if !ok {
		return
	}
	text, err := json.Marshal(answer{Dirs: dirs, Digest: digest, Annotated: annotated})
	if err != nil {
		return
	}
	cache := filepath.Dir(q.file)
	if os.MkdirAll(cache, 0o755) != nil { //nolint:gosec // as that of the go command; its files are for their owner
		return
	}
	tidy(cache)
	temp, err := os.CreateTemp(cache, "new-*")
	if err != nil {
		return
	}
	_, err = temp.Write(text)
	if err = cmp.Or(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), q.file)
	}
	if err != nil {
		_ = os.Remove(temp.Name())
	}
}

// tidy removes answers that have not been used for the duration kept.
func tidy(cache string) {
	entries, _ := os.ReadDir(cache)
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > kept {
			_ = os.Remove(filepath.Join(cache, e.Name()))
		}
	}
}

// digest returns a hash of all files that the answer depends on. It returns false if a file cannot
// be read. It also returns false if a file was written after before, unless before is zero.
func (q Question) digest(dirs []string, before time.Time) (string, bool) {
	h := sha256.New()
	m := modules{h: h, before: before, seen: map[string]bool{}}
	for dir := q.dir; ; dir = filepath.Dir(dir) {
		if !m.add(dir) {
			return "", false
		}
		if dir == filepath.Dir(dir) {
			break
		}
	}
	if named := os.Getenv("GOWORK"); named != "" && named != "off" && !m.workspace(named) {
		return "", false
	}
	all, ok := q.below(dirs)
	if !ok {
		return "", false
	}
	for _, dir := range all {
		if !directory(h, dir, before) {
			return "", false
		}
	}
	return hex.EncodeToString(h.Sum(nil)), true
}

// below adds to dirs the directories that patterns with dots name.
func (q Question) below(dirs []string) ([]string, bool) {
	all := map[string]bool{}
	for _, dir := range dirs {
		all[dir] = true
	}
	for _, root := range q.roots {
		err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			base := e.Name()
			if !e.IsDir() {
				return nil
			}
			if path != root && (base == "testdata" || base == "vendor" || strings.HasPrefix(base, ".") || strings.HasPrefix(base, "_")) {
				return filepath.SkipDir
			}
			all[path] = true
			return nil
		})
		if err != nil {
			return nil, false
		}
	}
	sorted := make([]string, 0, len(all))
	for dir := range all {
		sorted = append(sorted, dir)
	}
	slices.Sort(sorted)
	return sorted, true
}

// directory adds the relevant files of a directory to h.
func directory(h hash.Hash, dir string, before time.Time) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	read := false
	for _, e := range entries {
		if name := e.Name(); filepath.Ext(name) == ".go" || name == "go.mod" || name == "go.sum" || name == manifest.File {
			read = true
			if !file(h, filepath.Join(dir, name), before) {
				return false
			}
		}
	}
	if !read || before.IsZero() {
		return true
	}
	info, err := os.Stat(dir)
	return err == nil && info.ModTime().Before(before) // The directory is old as well, so no file was removed from it.
}

// file adds the name of a file and its content, or the fact that it does not exist.
func file(h io.Writer, path string, before time.Time) bool {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(h, "%q -\n", path)
		return true
	}
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // The file is only read, so an error of Close is irrelevant.
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() || !before.IsZero() && !info.ModTime().Before(before) {
		return false
	}
	fmt.Fprintf(h, "%q %d\n", path, info.Size())
	n, err := io.Copy(h, f)
	return err == nil && n == info.Size()
}
