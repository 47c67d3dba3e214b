package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/store/archive"
	"github.com/flowgen/flowgen/runtime/store/storetest"
)

const goldenBlobs = "testdata/blobs.jsonl"

// offloading is a store with a blob store.
type offloading struct {
	store.Store
	blobs store.BlobStore
}

func (o offloading) Stored() (store.Store, store.Codec) { return o.Store, offloader{nil, o.blobs} }

type offloader struct {
	store.Codec
	blobs store.BlobStore
}

func (o offloader) Blobs() store.BlobStore { return o.blobs }
func (o offloader) MaxSize() int           { return 1 << 30 }

func fileBlobs(t *testing.T) *codec.FileBlobs {
	t.Helper()
	b, err := codec.NewFileBlobs(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { b.Close() })
	return b
}

// reference returns the stored form of data in a blob, and the name of the blob.
func reference(chain event.RunID, data []byte) (stored []byte, name string) {
	sum := sha256.Sum256(data)
	stored = binary.AppendUvarint([]byte{event.SealedMark, event.SealedOffloaded}, uint64(len(data)))
	stored = append(append(stored, make([]byte, 16)...), sum[:]...)
	return binary.AppendUvarint(stored, uint64(len(data))), string(chain) + "/" + hex.EncodeToString(sum[:])
}

// withBlobs returns a source with a run whose stream has four chunks in three blobs: one of a few bytes,
// to which two chunks refer, one of more than two pieces, and one that is missing.
func withBlobs(t *testing.T, large []byte) (s *source, in offloading, missing string) {
	t.Helper()
	s = &source{Store: nil, t: t, ids: &storetest.IDs{}, clock: storetest.NewClock()}
	s.Store = memstore.NewWith(memstore.Config{Clock: s.clock})
	t.Cleanup(func() { _ = s.Close() })
	in = offloading{s.Store, fileBlobs(t)}
	run, fence := s.start(event.Spec{})
	c := run.Commit(fence, run.End(event.StatusCompleted)...)
	c.Effect, c.Status = store.EffectFinish, event.StatusCompleted
	for _, data := range [][]byte{[]byte("small"), large, []byte("small"), []byte("missing")} {
		stored, name := reference(run.Run, data)
		c.Publish = append(c.Publish, store.Publication{Stream: "a", Body: stored})
		if string(data) == "missing" {
			missing = name
		} else if err := in.blobs.Put(t.Context(), name, data); err != nil {
			t.Fatal(err)
		}
	}
	s.commit(run, c)
	return s, in, missing
}

// exportBlobs exports all runs, and returns the names of the missing blobs.
func (s *source) exportBlobs(from store.Store) (file []byte, missing []string) {
	s.t.Helper()
	var b bytes.Buffer
	w, err := archive.NewWriter(&b, archive.Head{Source: "memory", Exported: s.clock.Now()})
	if err != nil {
		s.t.Fatal(err)
	}
	x := archive.NewExporter(from, w, nil)
	x.Missing(func(name string) { missing = append(missing, name) })
	for _, run := range s.runs {
		if err := errors.Join(x.Run(s.t.Context(), run), x.Run(s.t.Context(), run)); err != nil {
			s.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		s.t.Fatal(err)
	}
	return b.Bytes(), missing
}

func TestOPS11_TheFormatOfBlobsStays(t *testing.T) {
	s, in, _ := withBlobs(t, []byte("second"))
	got, _ := s.exportBlobs(in)
	if *update {
		if err := os.WriteFile(goldenBlobs, got, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(goldenBlobs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("export (-golden +got):\n%s", diff)
	}
}

// blobsIn returns the blobs of a store by name.
func blobsIn(t *testing.T, b store.BlobStore) map[string]string {
	t.Helper()
	found := map[string]string{}
	page, err := b.List(t.Context(), "", "", 100)
	for i := 0; err == nil && i < len(page); i++ {
		var data []byte
		data, err = b.Get(t.Context(), page[i].Name)
		found[page[i].Name] = string(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// TestOPS11_AnExportContainsTheBlobs proves that a file contains each blob once, in lines of bounded
// length, that it can be read as a store, and that an import writes the blobs to another blob store.
func TestOPS11_AnExportContainsTheBlobs(t *testing.T) {
	s, in, missing := withBlobs(t, bytes.Repeat([]byte("0123456789abcdef"), 150_000))
	b, reported := s.exportBlobs(in)
	if !slices.Equal(reported, []string{missing}) {
		t.Errorf("missing: %q, want %q", reported, missing)
	}
	for line := range bytes.Lines(b) {
		if len(line) > 1_500_000 {
			t.Errorf("a line has %d bytes", len(line))
		}
	}
	_, n, err := archive.Check(bytes.NewReader(b))
	if err != nil || n.Blobs != 3 || n.Missing != 1 {
		t.Errorf("the file has %+v, %v, want 3 blobs, of which 1 is missing", n, err)
	}
	read, err := archive.Open(file(t, b))
	if err != nil {
		t.Fatal(err)
	}
	defer read.Close()
	want := blobsIn(t, in.blobs)
	if len(want) != 2 || !maps.Equal(blobsIn(t, read.Blobs()), want) {
		t.Errorf("the blobs of the file differ from the %d blobs of the source", len(want))
	}

	other := offloading{memstore.New(), fileBlobs(t)}
	defer other.Close()
	for range 2 { // an import can be repeated
		var got []archive.Imported
		if err := archive.Import(t.Context(), bytes.NewReader(b), other, "test", func(r archive.Imported) { got = append(got, r) }); err != nil {
			t.Fatal(err)
		}
		if len(got) != 1 || got[0].Err != nil || !slices.Equal(got[0].Missing, []string{missing}) {
			t.Errorf("imported %+v, want one run without %s", got, missing)
		}
	}
	if !maps.Equal(blobsIn(t, other.blobs), want) {
		t.Error("the imported blobs differ from those of the source")
	}
	if again, _ := s.exportBlobs(other); !bytes.Equal(again[bytes.IndexByte(again, '\n'):], b[bytes.IndexByte(b, '\n'):]) {
		t.Error("an export of the import differs from its source")
	}
}

// refusing is a blob store that refuses to write.
type refusing struct{ store.BlobStore }

var errFull = errors.New("the disk is full")

func (refusing) Put(context.Context, string, []byte) error { return errFull }

func TestOPS11_BlobsAreDurableBeforeTheLogThatNeedsThem(t *testing.T) {
	s, in, _ := withBlobs(t, []byte("second"))
	b, _ := s.exportBlobs(in)
	for name, to := range map[string]struct {
		blobs store.BlobStore
		want  error
	}{"none": {nil, store.ErrNoBlobStore}, "full": {refusing{fileBlobs(t)}, errFull}} {
		other := memstore.New()
		err := archive.Import(t.Context(), bytes.NewReader(b), offloading{other, to.blobs}, "test", func(archive.Imported) { t.Errorf("%s: a run was imported", name) })
		if !errors.Is(err, to.want) {
			t.Errorf("%s: %v, want %v", name, err, to.want)
		}
		if got, err := other.Load(t.Context(), []store.Load{{Run: s.runs[0]}}); err != nil || !errors.Is(got[0].Err, store.ErrRunNotFound) {
			t.Errorf("%s: the store has the run: %v", name, err)
		}
		_ = other.Close()
	}
	w, err := archive.NewWriter(&bytes.Buffer{}, archive.Head{})
	if err != nil {
		t.Fatal(err)
	}
	x := archive.NewExporter(s.Store, w, nil)
	if err := x.Run(t.Context(), s.runs[0]); !errors.Is(err, store.ErrNoBlobStore) || !strings.Contains(err.Error(), "blob "+string(s.runs[0])+"/") {
		t.Errorf("export without a blob store: %v", err)
	}
}

// TestOPS11_AlteredBlobsAreNotRead proves that a reader refuses blobs with other content, other names
// or missing pieces, although all lines have valid sums.
func TestOPS11_AlteredBlobsAreNotRead(t *testing.T) {
	s, in, _ := withBlobs(t, []byte("second"))
	b, _ := s.exportBlobs(in)
	lines := bytes.SplitAfter(b, []byte("\n"))
	for name, edit := range map[string]func(line string) string{
		"content": func(l string) string {
			return strings.Replace(l, `"line":"piece","n":1,"body":"c2`, `"line":"piece","n":1,"body":"d2`, 1)
		},
		"another chain":   func(l string) string { return strings.Replace(l, `"blob":"wrun_`, `"blob":"wrun_0`, 1) },
		"a path":          func(l string) string { return strings.Replace(l, `"blob":"wrun_`, `"blob":"../wrun_`, 1) },
		"a missing piece": func(l string) string { return strings.Replace(l, `,"size":5`, `,"size":6`, 1) },
		"a larger piece":  func(l string) string { return strings.Replace(l, `,"size":5`, `,"size":4`, 1) },
		"nothing missing": func(l string) string { return strings.Replace(l, `,"missing":true`, ``, 1) },
	} {
		var edited []byte
		for _, line := range lines {
			edited = append(edited, edit(string(line))...)
		}
		if bytes.Equal(edited, b) {
			t.Errorf("%s: nothing was changed", name)
		}
		if _, _, err := archive.Check(bytes.NewReader(archive.Resealed(edited, []byte("{}")))); !errors.As(err, new(*archive.LineError)) {
			t.Errorf("%s: %v, want a LineError", name, err)
		}
	}
}
