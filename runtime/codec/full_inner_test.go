package codec

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

func TestOPS11_AFullDiskLeavesNoPartOfABlob(t *testing.T) {
	dir := t.TempDir()
	b, err := NewFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	whole := b.write
	b.write = func(f *os.File, data []byte) error {
		return errors.Join(whole(f, data[:len(data)/2]), &os.PathError{Op: "write", Path: f.Name(), Err: syscall.ENOSPC})
	}
	checkFull(t, b, dir, func() { b.write = whole })
}

// TestOPS11_AFullFileSystemLeavesNoPartOfABlob needs a file system for FLOWTEST_FULL, a directory
// of at most 4 MB:
//
//	mount -t tmpfs -o size=2m tmpfs /mnt/small && FLOWTEST_FULL=/mnt/small go test -run FullFileSystem ./runtime/codec
func TestOPS11_AFullFileSystemLeavesNoPartOfABlob(t *testing.T) {
	at := os.Getenv("FLOWTEST_FULL")
	if at == "" || runtime.GOOS != "linux" {
		t.Skip("FLOWTEST_FULL names no small file system")
	}
	dir := filepath.Join(at, "blobs")
	defer os.RemoveAll(dir)
	b, err := NewFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	ballast := filepath.Join(at, "ballast")
	defer os.Remove(ballast)
	for size := 4 << 20; size > 100<<10; size /= 2 { // the failing ones fill the disk
		if err := os.WriteFile(ballast, make([]byte, size), 0o600); err == nil {
			break
		}
		os.Remove(ballast)
	}
	checkFull(t, b, dir, func() { os.Remove(ballast) })
}

// checkFull stores a large payload while there is no space, and after there is.
func checkFull(t *testing.T, b *FileBlobs, dir string, free func()) {
	t.Helper()
	c, err := New(Config{Blobs: b, CompressAbove: -1})
	if err != nil {
		t.Fatal(err)
	}
	at, plain := Place{Owner: "RUN", Field: "input", Blobs: func(context.Context) (string, error) { return "CHAIN", nil }}, []byte(`"`+strings.Repeat("x", 1<<20)+`"`)
	stored, err := c.Seal(t.Context(), at, plain)
	if _, ok := errors.AsType[*BlobError](err); stored != nil || !ok || !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("full: got %d bytes, %v, want a BlobError with ENOSPC", len(stored), err)
	}
	for _, in := range []string{".", unfinished} {
		files, err := os.ReadDir(filepath.Join(dir, in))
		if err != nil || len(files) > 0 && files[0].Name() != unfinished {
			t.Errorf("full: %s has %v, %v", in, files, err)
		}
	}
	free()
	if stored, err = c.Seal(t.Context(), at, plain); err != nil {
		t.Fatalf("after there is space: %v", err)
	}
	if got, err := c.Open(t.Context(), at, stored); err != nil || !bytes.Equal(got, plain) {
		t.Errorf("after there is space: opened %d bytes, %v", len(got), err)
	}
}
