package codectest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/runtime/codec"
)

func getReturnsWhatPutStored(t *testing.T, k *kit) {
	for i, size := range []int{0, 1, 4096, 1<<20 + 1, 20 << 20} {
		data := Data(byte(i), size)
		k.want(t, k.put(t, "", data), data)
	}
}

func putAgainKeepsTheBlob(t *testing.T, k *kit) {
	data := Data(1, 100)
	name := k.put(t, "", data)
	if err := k.store.Put(t.Context(), name, data); err != nil {
		t.Errorf("Put of a blob that exists: %v", err)
	}
	k.want(t, name, data)
	if got := k.list(t, k.prefix+"/", "", 10); !slices.Equal(got, []string{name}) {
		t.Errorf("List returns %q, want %q once", got, name)
	}
}

func anotherHandleSeesABlob(t *testing.T, k *kit) {
	data := Data(1, 100)
	name := k.put(t, "", data)
	other := kit{store: k.open(t), prefix: k.prefix}
	other.want(t, name, data)
	if got := other.list(t, k.prefix+"/", "", 10); !slices.Equal(got, []string{name}) {
		t.Errorf("List of another handle returns %q, want %q", got, name)
	}
}

func getOfAMissingBlob(t *testing.T, k *kit) {
	for _, when := range []string{"without a blob of its prefix", "beside another blob"} {
		if data, err := k.store.Get(t.Context(), Name(k.prefix, []byte("missing"))); !errors.Is(err, codec.ErrBlobNotFound) {
			t.Errorf("Get of a missing blob, %s, returns %d bytes and error %v, want ErrBlobNotFound", when, len(data), err)
		}
		k.put(t, "", []byte("beside"))
	}
}

func dataBelongsToTheCaller(t *testing.T, k *kit) {
	data := Data(1, 100)
	name, given := k.name(t, "", data), slices.Clone(data)
	if err := k.store.Put(t.Context(), name, given); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(given, data) {
		t.Error("Put has changed its argument")
	}
	clear(given)
	k.want(t, name, data)
	if got, err := k.store.Get(t.Context(), name); err == nil {
		clear(got)
	}
	k.want(t, name, data)
}

func concurrentCallsSeeWholeBlobs(t *testing.T, k *kit) {
	data := Data(1, 300<<10)
	name := k.name(t, "", data)
	var calls sync.WaitGroup
	for range 4 {
		calls.Go(func() {
			if err := k.store.Put(t.Context(), name, data); err != nil {
				t.Errorf("Put beside others: %v", err)
			}
		})
		calls.Go(func() {
			for range 5 {
				if got, err := k.store.Get(t.Context(), name); err == nil && !bytes.Equal(got, data) {
					t.Errorf("Get beside Put returns %d bytes that differ from the %d bytes of Put", len(got), len(data))
				} else if err != nil && !errors.Is(err, codec.ErrBlobNotFound) {
					t.Errorf("Get beside Put: %v", err)
				}
			}
		})
	}
	calls.Wait()
	k.want(t, name, data)
}

// canceledPutStoresAllOrNothing ends the contexts of Puts at different times.
func canceledPutStoresAllOrNothing(t *testing.T, k *kit) {
	const size, puts = 4 << 20, 10
	begin := time.Now()
	k.put(t, "", Data(0, size))
	whole := time.Since(begin)
	for i := range puts {
		data := Data(byte(i+1), size)
		name := k.name(t, "", data)
		ctx, cancel := context.WithTimeout(t.Context(), whole*time.Duration(i)/puts)
		putErr := k.store.Put(ctx, name, data)
		cancel()
		switch got, err := k.store.Get(t.Context(), name); {
		case err == nil && !bytes.Equal(got, data):
			t.Errorf("a canceled Put stored %d bytes that differ from its %d bytes", len(got), size)
		case err != nil && !errors.Is(err, codec.ErrBlobNotFound):
			t.Errorf("Get after a canceled Put: %v", err)
		case err != nil && putErr == nil:
			t.Errorf("Put succeeded, and the blob is missing")
		}
	}
	page, err := k.store.List(t.Context(), k.prefix, "", 2*puts)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range page {
		if b.Size != size {
			t.Errorf("List returns %s with %d bytes after canceled Puts of %d bytes", b.Name, b.Size, size)
		}
	}
}

func callsWithAnEndedContextFail(t *testing.T, k *kit) {
	stored := k.put(t, "", []byte("stored"))
	data := []byte("canceled")
	name := k.name(t, "", data)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, getErr := k.store.Get(ctx, stored)
	_, listErr := k.store.List(ctx, k.prefix, "", 10)
	for call, err := range map[string]error{
		"Put": k.store.Put(ctx, name, data), "Get": getErr, "List": listErr, "Delete": k.store.Delete(ctx, stored),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s with a canceled context returns error %v, want context.Canceled", call, err)
		}
	}
	if got := k.list(t, k.prefix, "", 10); !slices.Equal(got, []string{stored}) {
		t.Errorf("after calls with a canceled context List returns %q, want %q", got, stored)
	}
}

func deleteRemovesItsNamesOnly(t *testing.T, k *kit) {
	kept := []byte("kept")
	removed, stays := k.put(t, "", []byte("removed")), k.put(t, "", kept)
	if err := k.store.Delete(t.Context(), removed); err != nil {
		t.Fatal(err)
	}
	if _, err := k.store.Get(t.Context(), removed); !errors.Is(err, codec.ErrBlobNotFound) {
		t.Errorf("Get of a deleted blob returns error %v, want ErrBlobNotFound", err)
	}
	k.want(t, stays, kept)
	if got := k.list(t, k.prefix, "", 10); !slices.Equal(got, []string{stays}) {
		t.Errorf("List after Delete returns %q, want %q", got, stays)
	}
	data := []byte("removed")
	k.want(t, k.put(t, "", data), data)
}

func deleteIgnoresMissingBlobs(t *testing.T, k *kit) {
	name := k.put(t, "", []byte("stored"))
	missing := Name(k.prefix, []byte("missing"))
	for _, names := range [][]string{nil, {missing}, {missing, name, name, missing}, {name}} {
		if err := k.store.Delete(t.Context(), names...); err != nil {
			t.Errorf("Delete(%q): %v", names, err)
		}
	}
	if got := k.list(t, k.prefix, "", 10); len(got) != 0 {
		t.Errorf("List after Delete returns %q, want none", got)
	}
}

// deleteRemovesManyNames deletes 1,100 names, since some services accept 1,000 at a time. Few of the
// blobs exist.
func deleteRemovesManyNames(t *testing.T, k *kit) {
	var names []string
	for i := range 1100 {
		data := fmt.Append(nil, i)
		if i%100 == 50 {
			names = append(names, k.put(t, "", data))
		} else {
			names = append(names, Name(k.prefix, data))
		}
	}
	if err := k.store.Delete(t.Context(), names...); err != nil {
		t.Fatal(err)
	}
	if got := k.list(t, k.prefix, "", 20); len(got) != 0 {
		t.Errorf("List after Delete of %d names returns %q, want none", len(names), got)
	}
}

func invalidNamesAreRefused(t *testing.T, k *kit) {
	data := []byte("escapes")
	hex := strings.TrimPrefix(Name("", data), "/")
	for _, name := range []string{
		"", "/", ".", "..", "/" + hex, "./" + hex, "../" + hex, k.prefix + "/../../" + hex, k.prefix + "/./" + hex, k.prefix + "//" + hex,
		k.prefix + "/", k.prefix + "/..", k.prefix + "/" + hex + "/", k.prefix + "\x00/" + hex, k.prefix + "\\..\\" + hex, strings.Repeat("x", 5000) + "/" + hex,
	} {
		if err := k.store.Put(t.Context(), name, data); err == nil {
			t.Errorf("Put accepts the name %.80q", name)
		}
		if got, err := k.store.Get(t.Context(), name); err == nil || errors.Is(err, codec.ErrBlobNotFound) {
			t.Errorf("Get of the name %.80q returns %d bytes and error %v, want an error that is not ErrBlobNotFound", name, len(got), err)
		}
		if err := k.store.Delete(t.Context(), name); err == nil {
			t.Errorf("Delete accepts the name %.80q", name)
		}
	}
	if got := k.list(t, k.prefix, "", 10); len(got) != 0 {
		t.Errorf("List returns %q, want none", got)
	}
	if page, err := k.store.List(t.Context(), "../", "", 10); err == nil && len(page) > 0 {
		t.Errorf("List(../) returns %v, want none", page)
	}
}
