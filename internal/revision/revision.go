// Package revision reads files of a revision in the git repository that contains a directory.
package revision

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// Revision is a commit of a repository.
type Revision struct {
	Commit string // hash of the commit
	Root   string // root directory of the files on disk
}

// Find returns the revision with the given name in the git repository of dir.
func Find(ctx context.Context, dir, name string) (*Revision, error) {
	if strings.HasPrefix(name, "-") {
		return nil, fmt.Errorf("revision %s: begins with a hyphen", name)
	}
	root, err := git(ctx, dir, nil, "rev-parse", "--show-toplevel")
	if err != nil {
		return nil, fmt.Errorf("find revision %s with git in %s: %w", name, dir, err)
	}
	commit, err := git(ctx, dir, nil, "rev-parse", "--verify", "--quiet", name+"^{commit}")
	if err != nil {
		return nil, fmt.Errorf("find revision %s with git in %s: %w%s", name, dir, err, fetchHint(ctx, dir))
	}
	path := filepath.FromSlash(line(root))
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	return &Revision{Commit: line(commit), Root: path}, nil
}

// MergeBase returns the revision at which HEAD branched off the default branch.
func MergeBase(ctx context.Context, dir string) (*Revision, error) {
	branch := ""
	if out, err := git(ctx, dir, nil, "symbolic-ref", "--quiet", "--short", "refs/remotes/origin/HEAD"); err == nil {
		branch = line(out)
	}
	for _, candidate := range []string{"origin/main", "origin/master", "main", "master"} {
		if branch != "" {
			break
		}
		if _, err := git(ctx, dir, nil, "rev-parse", "--verify", "--quiet", candidate+"^{commit}"); err == nil {
			branch = candidate
		}
	}
	if branch == "" {
		return nil, fmt.Errorf("find the default branch with git in %s: there is no origin/HEAD, main or master: name a revision with -against%s", dir, fetchHint(ctx, dir))
	}
	out, err := git(ctx, dir, nil, "merge-base", "HEAD", branch)
	if err != nil {
		return nil, fmt.Errorf("find where HEAD left %s with git in %s: %w%s", branch, dir, err, fetchHint(ctx, dir))
	}
	return Find(ctx, dir, line(out))
}

// fetchHint returns a suggestion for an error about a missing revision. It is empty unless the clone
// is shallow.
func fetchHint(ctx context.Context, dir string) string {
	out, err := git(ctx, dir, nil, "rev-parse", "--is-shallow-repository")
	if err == nil && line(out) == "true" {
		return "; this clone is shallow: run git fetch --unshallow"
	}
	return ""
}

// Files returns the paths of the files of the revision that are in dir or a subdirectory and have
// one of the names. A name that begins with an asterisk matches all names with the same suffix.
func (r *Revision) Files(ctx context.Context, dir string, names ...string) ([]string, error) {
	out, err := git(ctx, r.Root, nil, "ls-tree", "-r", "-z", "--name-only", "--full-tree", r.Commit)
	if err != nil {
		return nil, fmt.Errorf("list files of revision %s: %w", r.Commit, err)
	}
	return r.below(out, dir, names), nil
}

// Changed returns the paths of the files in dir and its subdirectories that differ between the disk
// and the revision. New files on disk are included.
func (r *Revision) Changed(ctx context.Context, dir string, names ...string) ([]string, error) {
	changed, err := git(ctx, r.Root, nil, "diff", "--no-renames", "--name-only", "-z", r.Commit, "--")
	if err != nil {
		return nil, fmt.Errorf("compare with revision %s: %w", r.Commit, err)
	}
	added, err := git(ctx, r.Root, nil, "ls-files", "--others", "--exclude-standard", "-z")
	if err != nil {
		return nil, fmt.Errorf("list files that git does not know in %s: %w", r.Root, err)
	}
	return r.below(append(changed, added...), dir, names), nil
}

// below returns the absolute paths of the files in list that are in dir or a subdirectory and have
// one of the names.
func (r *Revision) below(list []byte, dir string, names []string) []string {
	var paths []string
	for name := range strings.SplitSeq(string(list), "\x00") {
		path := filepath.Join(r.Root, filepath.FromSlash(name))
		if name == "" || path != dir && !strings.HasPrefix(path, strings.TrimSuffix(dir, string(filepath.Separator))+string(filepath.Separator)) {
			continue
		}
		for _, want := range names {
			if suffix, ok := strings.CutPrefix(want, "*"); ok && strings.HasSuffix(name, suffix) || filepath.Base(path) == want {
				paths = append(paths, path)
				break
			}
		}
	}
	return paths
}

// Contents returns the contents of files in the revision by path. It omits files that the revision
// does not contain.
func (r *Revision) Contents(ctx context.Context, paths []string) (map[string][]byte, error) {
	var ask bytes.Buffer
	for _, path := range paths {
		rel, err := filepath.Rel(r.Root, path)
		if err != nil {
			return nil, fmt.Errorf("read %s of revision %s: %w", path, r.Commit, err)
		}
		fmt.Fprintf(&ask, "%s:%s\n", r.Commit, filepath.ToSlash(rel))
	}
	out, err := git(ctx, r.Root, &ask, "cat-file", "--batch")
	if err != nil {
		return nil, fmt.Errorf("read files of revision %s: %w", r.Commit, err)
	}
	contents := map[string][]byte{}
	for _, path := range paths {
		head, rest, found := bytes.Cut(out, []byte("\n"))
		if !found {
			return nil, fmt.Errorf("read files of revision %s: git said less than it was asked", r.Commit)
		}
		out = rest
		fields := strings.Fields(string(head))
		if len(fields) < 3 || fields[len(fields)-2] != "blob" {
			continue // The revision does not contain the file.
		}
		size, err := strconv.Atoi(fields[len(fields)-1])
		if err != nil || size+1 > len(out) {
			return nil, fmt.Errorf("read %s of revision %s: git said %q", path, r.Commit, head)
		}
		contents[path], out = out[:size], out[size+1:]
	}
	return contents, nil
}

func git(ctx context.Context, dir string, stdin io.Reader, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "git", args...)
	cmd.Dir, cmd.Stdin = dir, stdin
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		return out, fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return out, err
}

func line(out []byte) string { return strings.TrimSpace(string(out)) }
