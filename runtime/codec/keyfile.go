package codec

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
)

// keyFile is a file of keys. It is read again when it changes.
type keyFile struct {
	path string

	mu      sync.Mutex
	keys    keyList
	read    os.FileInfo // of the file when it was read
	checked time.Time   // when the file was last compared with read
	err     error       // why the file could not be read again
}

// recheck is the time between two checks whether a file of keys has changed.
const recheck = time.Second

// KeysFromFile returns a provider of the keys in a file. Each line has the form ID BASE64, as
// [Key.Text] returns it. The first key seals payloads, all keys open them. Empty lines and lines
// that begin with # are ignored.
//
// The provider reads the file again within a second after it has changed, so that keys can be
// rotated without a restart. If the changed file cannot be used, the provider continues with the
// keys that it has, and its errors about missing keys contain the reason.
//
// The file must not be accessible by other users or writable by its group. Windows has no such
// check.
func KeysFromFile(path string) (KeyProvider, error) {
	f := &keyFile{path: path, checked: time.Now()}
	if err := f.reload(); err != nil {
		return nil, err
	}
	return f, nil
}

// Active returns the first key of the file.
func (f *keyFile) Active(context.Context) (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh(false)
	return f.keys[0], nil
}

// Key returns the key with an ID. It reads a changed file at once if it does not have the key.
func (f *keyFile) Key(ctx context.Context, id string) (Key, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh(false)
	if k, err := f.keys.Key(ctx, id); err == nil {
		return k, nil
	}
	f.refresh(true)
	k, err := f.keys.Key(ctx, id)
	if err != nil {
		err = fmt.Errorf("%w in %s", err, f.path)
		if f.err != nil {
			err = fmt.Errorf("%w, of which an earlier version is in use: %w", err, f.err)
		}
	}
	return k, err
}

// IDs returns the IDs of the keys.
func (f *keyFile) IDs() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refresh(false)
	return f.keys.IDs()
}

// refresh reads the file if it has changed. Unless now is set, it checks the file at most once per
// second.
func (f *keyFile) refresh(now bool) {
	if !now && time.Since(f.checked) < recheck {
		return
	}
	f.checked = time.Now()
	info, err := os.Stat(f.path)
	if err != nil {
		f.err = err
		return
	}
	if f.err == nil && os.SameFile(info, f.read) && info.ModTime().Equal(f.read.ModTime()) && info.Size() == f.read.Size() {
		return
	}
	f.err = f.reload()
}

// reload reads the file. If that fails, it changes nothing.
func (f *keyFile) reload() error {
	file, err := os.Open(f.path)
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	// Kubernetes gives the group of a pod access to secrets.
	if mode := info.Mode().Perm(); mode&0o027 != 0 && runtime.GOOS != "windows" {
		return fmt.Errorf("read keys: other users can access %s (mode %04o): chmod 600 %s", f.path, mode, f.path)
	}
	const most = 1 << 20
	text, err := io.ReadAll(io.LimitReader(file, most+1))
	if err == nil && len(text) > most {
		err = fmt.Errorf("%s has more than %d bytes: want lines of the form ID BASE64", f.path, most)
	}
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	keys, err := parseKeys(f.path, string(text))
	if err != nil {
		return fmt.Errorf("read keys: %w", err)
	}
	f.keys, f.read = keys, info
	return nil
}

// parseKeys parses lines of keys. Errors contain no part of a line, which may be secret.
func parseKeys(name, text string) (keyList, error) {
	var keys keyList
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		k, err := ParseKey(line)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, n, err)
		}
		keys = append(keys, k)
	}
	if len(keys) == 0 {
		return nil, fmt.Errorf("%s has no key: want lines of the form ID BASE64", name)
	}
	if err := keys.Check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return keys, nil
}
