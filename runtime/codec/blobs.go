package codec

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// BlobStore stores offloaded payloads.
type BlobStore = store.BlobStore

// Blob describes a stored blob.
type Blob = store.Blob

// ErrBlobNotFound reports that a blob store does not have a blob.
var ErrBlobNotFound = store.ErrBlobNotFound

// FileBlobs is a [BlobStore] in a directory, which several processes may use. Each blob is a file,
// written under another name and renamed, so that no file has a part of a blob.
type FileBlobs struct {
	root  *os.Root
	write func(f *os.File, data []byte) error
}

var _ BlobStore = (*FileBlobs)(nil)

const (
	unfinished  = ".unfinished" // directory of files that are being written
	leftoverAge = 24 * time.Hour
)

// NewFileBlobs returns a blob store in a directory, which it creates if necessary. It removes
// unfinished files that a process left there more than a day ago.
func NewFileBlobs(dir string) (*FileBlobs, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	b := &FileBlobs{root: root, write: func(f *os.File, data []byte) error { _, err := f.Write(data); return err }}
	if err := b.removeLeftovers(); err != nil {
		root.Close()
		return nil, fmt.Errorf("open blob store: %w", err)
	}
	return b, nil
}

func (b *FileBlobs) removeLeftovers() error {
	if err := b.root.Mkdir(unfinished, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	files, err := b.files(unfinished)
	for _, f := range files {
		if time.Since(f.ModTime()) > leftoverAge {
			err = errors.Join(err, ignore(b.root.Remove(unfinished+"/"+f.Name()), fs.ErrNotExist))
		}
	}
	return err
}

// String returns the directory as a URL.
func (b *FileBlobs) String() string { return "file://" + filepath.ToSlash(b.root.Name()) }

// Close releases the directory. The store must not be used afterwards.
func (b *FileBlobs) Close() error { return b.root.Close() }

// Put stores a blob. If there is a blob of this name and size, it renews its time.
func (b *FileBlobs) Put(ctx context.Context, name string, data []byte) error {
	dir, err := split(name)
	if err != nil {
		return fmt.Errorf("put blob: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return fmt.Errorf("put blob: %w", err)
	}
	if !b.renew(name, len(data)) {
		if err := b.put(dir, name, data); err != nil {
			return fmt.Errorf("put blob: %w", err)
		}
	}
	// A process that stored it before may have stopped before it made the name durable.
	if err := errors.Join(b.sync(dir), b.sync(".")); err != nil {
		return fmt.Errorf("put blob: %w", err)
	}
	return nil
}

// renew renews the time of a blob. It reports false if there is no blob of this size.
func (b *FileBlobs) renew(name string, size int) bool {
	info, err := b.root.Lstat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() != int64(size) {
		return false
	}
	now := time.Now()
	return b.root.Chtimes(name, now, now) == nil
}

func (b *FileBlobs) put(dir, name string, data []byte) error {
	part := unfinished + "/" + rand.Text()
	if err := b.writeFile(part, data); err != nil {
		return errors.Join(err, ignore(b.root.Remove(part), fs.ErrNotExist))
	}
	var err error
	for range 10 { // Delete may remove the directory between the two calls
		if err = ignore(b.root.Mkdir(dir, 0o700), fs.ErrExist); err == nil {
			if err = b.root.Rename(part, name); err == nil {
				return nil
			}
		}
		if !errors.Is(err, fs.ErrNotExist) {
			break
		}
	}
	return errors.Join(err, b.root.Remove(part))
}

func (b *FileBlobs) writeFile(name string, data []byte) (err error) {
	f, err := b.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, f.Close()) }()
	if err := b.write(f, data); err != nil {
		return err
	}
	return f.Sync()
}

// sync makes the names in a directory durable. Directories cannot be synchronized on Windows, where
// NTFS logs changes of names.
func (b *FileBlobs) sync(dir string) error {
	if runtime.GOOS == "windows" {
		return nil
	}
	f, err := b.root.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	return f.Sync()
}

// Get returns a blob.
func (b *FileBlobs) Get(ctx context.Context, name string) ([]byte, error) {
	if _, err := split(name); err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	data, err := b.root.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrBlobNotFound
	}
	if err != nil {
		return nil, fmt.Errorf("get blob: %w", err)
	}
	return data, nil
}

// Delete removes blobs, and the directories of prefixes without blobs. It removes none if a name is
// invalid.
func (b *FileBlobs) Delete(ctx context.Context, names ...string) error {
	dirs := map[string]bool{}
	for _, name := range names {
		dir, err := split(name)
		if err != nil {
			return fmt.Errorf("delete blobs: %w", err)
		}
		dirs[dir] = true
	}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("delete blobs: %w", err)
		}
		if err := ignore(b.root.Remove(name), fs.ErrNotExist); err != nil {
			return fmt.Errorf("delete blobs: %w", err)
		}
	}
	for dir := range dirs {
		b.root.Remove(dir) // fails if it has other blobs
	}
	return nil
}

// List returns blobs. Other files in the directory are ignored.
func (b *FileBlobs) List(ctx context.Context, prefix, after string, limit int) ([]Blob, error) {
	dirs, err := b.files(".")
	if err != nil {
		return nil, fmt.Errorf("list blobs: %w", err)
	}
	// A name that follows in the order of directories may precede in the order of names: "a" and
	// "a-b" have the blobs "a/…" and "a-b/…".
	slices.SortFunc(dirs, func(x, y fs.FileInfo) int { return cmp.Compare(x.Name()+"/", y.Name()+"/") })
	var blobs []Blob
	for _, dir := range dirs {
		begin := dir.Name() + "/"
		if !dir.IsDir() || !validPrefix(dir.Name()) || !overlap(begin, prefix) || begin < after && !strings.HasPrefix(after, begin) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		files, err := b.files(dir.Name())
		if ignore(err, fs.ErrNotExist) != nil {
			return nil, fmt.Errorf("list blobs: %w", err)
		}
		slices.SortFunc(files, func(x, y fs.FileInfo) int { return cmp.Compare(x.Name(), y.Name()) })
		for _, f := range files {
			name := begin + f.Name()
			if !f.Mode().IsRegular() || !validHex(f.Name()) || !strings.HasPrefix(name, prefix) || name <= after {
				continue
			}
			if len(blobs) >= limit {
				return blobs, nil
			}
			blobs = append(blobs, Blob{Name: name, Size: f.Size(), Time: f.ModTime()})
		}
	}
	return blobs, nil
}

// files returns the files in a directory, in no order.
func (b *FileBlobs) files(dir string) ([]fs.FileInfo, error) {
	f, err := b.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	files, err := f.Readdir(-1) // skips files that are removed meanwhile
	if err == io.EOF {
		err = nil
	}
	return files, err
}

// overlap reports whether one of the texts begins with the other.
func overlap(a, b string) bool { return strings.HasPrefix(a, b) || strings.HasPrefix(b, a) }

// CheckBlobName returns an error if a name does not have the form PREFIX/HEX. All stores refuse the
// same names.
func CheckBlobName(name string) error {
	_, err := split(name)
	return err
}

// split returns the prefix of the name of a blob. It returns an error if the name is invalid.
func split(name string) (prefix string, err error) {
	prefix, hex, ok := strings.Cut(name, "/")
	if !ok || !validPrefix(prefix) || !validHex(hex) {
		return "", fmt.Errorf("the name %.200q is invalid: want PREFIX/HEX, with letters, digits, '-', '_' and '.' and a SHA-256", name)
	}
	return prefix, nil
}

// validPrefix reports whether a prefix is the name of a directory on all platforms.
func validPrefix(prefix string) bool {
	return validID(prefix) && !strings.HasPrefix(prefix, ".") && !strings.HasSuffix(prefix, ".")
}

func validHex(text string) bool {
	return len(text) == 2*hashSize && strings.Trim(text, "0123456789abcdef") == ""
}

// ignore returns nil if err matches the target, otherwise err.
func ignore(err, target error) error {
	if errors.Is(err, target) {
		return nil
	}
	return err
}
