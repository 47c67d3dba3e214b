package codec_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/runtime/codec"
)

func newFileBlobs(t *testing.T, dir string) *codec.FileBlobs {
	t.Helper()
	b, err := codec.NewFileBlobs(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// blobName returns the name of a blob with a prefix.
func blobName(prefix string, data []byte) string {
	hash := sha256.Sum256(data)
	return prefix + "/" + hex.EncodeToString(hash[:])
}

// tree returns the paths of all files in a directory.
func tree(t *testing.T, dir string) (files []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestOPS11_ABlobIsStoredListedAndDeleted(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "blobs")
	b := newFileBlobs(t, dir)
	data := noise(1000)
	name := blobName("A", data)
	if _, err := b.Get(t.Context(), name); !errors.Is(err, codec.ErrBlobNotFound) {
		t.Errorf("before it is stored: %v, want ErrBlobNotFound", err)
	}
	for range 2 { // Put is idempotent
		if err := b.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{name}, tree(t, dir)); diff != "" {
			t.Errorf("files differ (-want +got):\n%s", diff)
		}
	}
	for _, b := range []*codec.FileBlobs{b, newFileBlobs(t, dir)} {
		if got, err := b.Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
			t.Errorf("got %d bytes, %v", len(got), err)
		}
	}
	list, err := b.List(t.Context(), "", "", 10)
	if err != nil || len(list) != 1 || list[0].Name != name || list[0].Size != 1000 || time.Since(list[0].Time).Abs() > time.Hour {
		t.Errorf("listed %+v, %v", list, err)
	}
	if err := b.Delete(t.Context(), name, blobName("B", data), name); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "A")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory of the prefix remains: %v", err)
	}
	if err := b.Put(t.Context(), name, data); err != nil {
		t.Errorf("after it was deleted: %v", err)
	}
}

func TestOPS11_ATruncatedBlobIsWrittenAgain(t *testing.T) {
	dir := t.TempDir()
	b := newFileBlobs(t, dir)
	data := noise(1000)
	name := blobName("A", data)
	if err := errors.Join(b.Put(t.Context(), name, data), os.Truncate(filepath.Join(dir, name), 10), b.Put(t.Context(), name, data)); err != nil {
		t.Fatal(err)
	}
	if got, err := b.Get(t.Context(), name); err != nil || !bytes.Equal(got, data) {
		t.Errorf("got %d bytes, %v", len(got), err)
	}
}

func TestOPS11_ListReturnsPagesInTheOrderOfNames(t *testing.T) {
	dir := t.TempDir()
	b := newFileBlobs(t, dir)
	var want []string
	for i := range 60 {
		data := noise(i)
		name := blobName([]string{"a", "a-b", "a.b", "aa", "B", "a_"}[i%6], data)
		if err := b.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
		want = append(want, name)
	}
	slices.Sort(want)
	for _, other := range []string{"file", "a/short", "a/" + strings.Repeat("X", 64), ".hidden/" + strings.Repeat("0", 64)} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(dir, other)), 0o700), os.WriteFile(filepath.Join(dir, other), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, "a", strings.Repeat("1", 64)), 0o700); err != nil {
		t.Fatal(err)
	}
	for _, prefix := range []string{"", "a", "a/", "a-", "aa/", "B", want[20][:10], want[20], "zz", "a/x"} {
		for _, limit := range []int{1, 7, 60, 100} {
			var got []string
			for after := ""; ; after = got[len(got)-1] {
				page, err := b.List(t.Context(), prefix, after, limit)
				if err != nil || len(page) > limit {
					t.Fatalf("%d blobs after %q, %v; want at most %d", len(page), after, err, limit)
				}
				if len(page) == 0 {
					break
				}
				for _, blob := range page {
					got = append(got, blob.Name)
				}
			}
			var of []string
			for _, name := range want {
				if strings.HasPrefix(name, prefix) {
					of = append(of, name)
				}
			}
			if diff := cmp.Diff(of, got); diff != "" {
				t.Errorf("prefix %q, limit %d (-want +got):\n%s", prefix, limit, diff)
			}
		}
	}
}

func TestOPS11_NamesThatEscapeTheDirectoryAreRefused(t *testing.T) {
	parent := t.TempDir()
	dir := filepath.Join(parent, "blobs")
	b := newFileBlobs(t, dir)
	hex := strings.Repeat("a", 64)
	outside := filepath.Join(parent, hex)
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"", hex, "/" + hex, "../" + hex, "./" + hex, "a/../../" + hex, "a/b/" + hex, parent + "/" + hex, "..", "a", "a/", "a/" + hex[1:], "a/" + hex + "0", "a/" + strings.ToUpper(hex),
		".unfinished/" + hex, ".a/" + hex, `a\b/` + hex, "a\x00/" + hex, "a b/" + hex, "ä/" + hex, "a./" + hex, strings.Repeat("a", 65) + "/" + hex, "a//" + hex, "C:/" + hex,
	} {
		_, getErr := b.Get(t.Context(), name)
		for what, err := range map[string]error{"Put": b.Put(t.Context(), name, []byte("x")), "Get": getErr, "Delete": b.Delete(t.Context(), name)} {
			if err == nil || errors.Is(err, codec.ErrBlobNotFound) || !strings.Contains(err.Error(), "invalid") {
				t.Errorf("%s of %q: %v, want an error about the name", what, name, err)
			}
		}
	}
	if err := os.Symlink(parent, filepath.Join(dir, "link")); err != nil {
		t.Skip(err)
	}
	name := "link/" + hex
	if data, err := b.Get(t.Context(), name); err == nil {
		t.Errorf("a link out of the directory was followed: %q", data)
	}
	if err := b.Put(t.Context(), name, []byte("altered")); err == nil {
		t.Error("Put followed a link out of the directory")
	}
	if err := b.Delete(t.Context(), name); err == nil {
		t.Error("Delete followed a link out of the directory")
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "secret" {
		t.Errorf("the file outside has changed: %q, %v", data, err)
	}
	if files := tree(t, filepath.Join(dir, ".unfinished")); len(files) > 0 {
		t.Errorf("unfinished files remain: %q", files)
	}
}

func TestOPS11_UnfinishedFilesOfDeadProcessesAreRemovedAfterADay(t *testing.T) {
	dir := t.TempDir()
	newFileBlobs(t, dir)
	old, fresh := filepath.Join(dir, ".unfinished", "OLD"), filepath.Join(dir, ".unfinished", "FRESH")
	past := time.Now().Add(-25 * time.Hour)
	if err := errors.Join(os.WriteFile(old, nil, 0o600), os.WriteFile(fresh, nil, 0o600), os.Chtimes(old, past, past)); err != nil {
		t.Fatal(err)
	}
	newFileBlobs(t, dir)
	if diff := cmp.Diff([]string{".unfinished/FRESH"}, tree(t, dir)); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
}

func TestOPS11_ConcurrentPutsAndDeletesOfAPrefixLeaveWholeBlobs(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for i := range 4 {
		b := newFileBlobs(t, dir)
		all.Go(func() {
			for j := range 30 {
				data := noise(1000 + i*100 + j)
				name, shared := blobName("A", data), blobName("A", []byte("shared"))
				err := errors.Join(b.Put(t.Context(), name, data), b.Delete(t.Context(), name))
				if err != nil {
					t.Error(err)
				}
				if err := b.Put(t.Context(), shared, []byte("shared")); err != nil && !errors.Is(err, fs.ErrNotExist) { // deleted meanwhile
					t.Error(err)
				}
				if got, err := b.Get(t.Context(), shared); err != nil && !errors.Is(err, codec.ErrBlobNotFound) || err == nil && string(got) != "shared" {
					t.Errorf("got %q, %v", got, err)
				}
				if err := b.Delete(t.Context(), shared); err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if files := tree(t, dir); len(files) > 0 {
		t.Errorf("%d files remain: %q", len(files), files)
	}
}

func TestOPS11_ACanceledCallDoesNothing(t *testing.T) {
	dir := t.TempDir()
	b := newFileBlobs(t, dir)
	ctx, cancel := context.WithCancel(t.Context())
	data := noise(10)
	name := blobName("A", data)
	if err := b.Put(ctx, name, data); err != nil {
		t.Fatal(err)
	}
	cancel()
	_, getErr := b.Get(ctx, name)
	_, listErr := b.List(ctx, "", "", 10)
	for i, err := range []error{b.Put(ctx, blobName("B", data), data), b.Delete(ctx, name), getErr, listErr} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("call %d: %v, want context.Canceled", i, err)
		}
	}
	if diff := cmp.Diff([]string{name}, tree(t, dir)); diff != "" {
		t.Errorf("files differ (-want +got):\n%s", diff)
	}
}

func TestOPS11_ADirectoryThatCannotBeUsedIsAnError(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{file, file + "/below", ""} {
		if _, err := codec.NewFileBlobs(dir); err == nil {
			t.Errorf("%q was accepted", dir)
		}
	}
}

func ExampleNewFileBlobs() {
	dir, err := os.MkdirTemp("", "blobs")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	blobs, err := codec.NewFileBlobs(dir)
	if err != nil {
		panic(err)
	}
	defer blobs.Close()
	c, err := codec.New(codec.Config{Blobs: blobs, OffloadAbove: 100})
	if err != nil {
		panic(err)
	}
	at := codec.Place{Owner: "RUN", Field: "input", Blobs: func(context.Context) (string, error) { return "CHAIN", nil }}
	stored, err := c.Seal(context.Background(), at, []byte(`"`+strings.Repeat("long", 20)+strings.Repeat("text", 20)+`"`))
	if err != nil {
		panic(err)
	}
	info, err := codec.Inspect(stored)
	fmt.Println(info.PlainSize, info.BlobSize, err)
	// Output: 162 162 <nil>
}
