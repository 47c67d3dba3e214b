package codectest

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
)

// Conformance tests that a store keeps the contract of [codec.BlobStore]. Each call of open returns
// another handle to the same blobs, and registers with t.Cleanup what closes it. The store may
// contain other blobs. The tests remove the blobs that they store.
func Conformance(t *testing.T, open func(t *testing.T) codec.BlobStore) {
	for _, b := range behaviors {
		t.Run(b.name, func(t *testing.T) {
			b.test(t, &kit{store: open(t), open: open, prefix: "codectest-" + strings.ToLower(rand.Text())})
		})
	}
}

// behaviors contains a function for each behavior of a store.
var behaviors = []struct {
	name string
	test func(t *testing.T, k *kit)
}{
	{"Get returns what Put stored", getReturnsWhatPutStored},
	{"Put again keeps the blob", putAgainKeepsTheBlob},
	{"Another handle sees a blob after Put returns", anotherHandleSeesABlob},
	{"Get of a missing blob is ErrBlobNotFound", getOfAMissingBlob},
	{"Data belongs to the caller", dataBelongsToTheCaller},
	{"Concurrent Puts and Gets see whole blobs", concurrentCallsSeeWholeBlobs},
	{"A Put that is canceled stores all or nothing", canceledPutStoresAllOrNothing},
	{"Calls with an ended context fail", callsWithAnEndedContextFail},
	{"Delete removes its names only", deleteRemovesItsNamesOnly},
	{"Delete ignores missing blobs", deleteIgnoresMissingBlobs},
	{"Delete removes more names than a page", deleteRemovesManyNames},
	{"List describes blobs", listDescribesBlobs},
	{"List returns pages in the order of names", listReturnsPages},
	{"List sorts the names of all prefixes by bytes", listSortsNamesByBytes},
	{"List finds what begins with the prefix", listFindsThePrefix},
	{"List continues after a deleted name", listContinuesAfterADeletedName},
	{"Names that are not valid are refused", invalidNamesAreRefused},
}

// kit has the store under test and a prefix that no other test uses.
type kit struct {
	store  codec.BlobStore
	open   func(t *testing.T) codec.BlobStore
	prefix string
}

// put stores data under the prefix of the test followed by more, and removes it after the test. It
// returns the name.
func (k *kit) put(t *testing.T, more string, data []byte) string {
	t.Helper()
	name := k.name(t, more, data)
	if err := k.store.Put(t.Context(), name, data); err != nil {
		t.Fatalf("Put(%s) of %d bytes: %v", name, len(data), err)
	}
	return name
}

// name returns the name of data and removes the blob after the test.
func (k *kit) name(t *testing.T, more string, data []byte) string {
	name := Name(k.prefix+more, data)
	t.Cleanup(func() {
		if err := k.store.Delete(context.Background(), name); err != nil {
			t.Errorf("remove the blob of the test: %v", err)
		}
	})
	return name
}

// want fails the test if the blob does not contain data.
func (k *kit) want(t *testing.T, name string, data []byte) {
	t.Helper()
	got, err := k.store.Get(t.Context(), name)
	if err != nil {
		t.Errorf("Get(%s): %v", name, err)
	} else if !bytes.Equal(got, data) {
		t.Errorf("Get(%s) returns %d bytes that differ from the %d bytes of Put", name, len(got), len(data))
	}
}

// list returns the names of a page.
func (k *kit) list(t *testing.T, prefix, after string, limit int) []string {
	t.Helper()
	page, err := k.store.List(t.Context(), prefix, after, limit)
	if err != nil {
		t.Fatalf("List(%q, %q, %d): %v", prefix, after, limit, err)
	}
	names := make([]string, len(page))
	for i, b := range page {
		names[i] = b.Name
	}
	return names
}

// Name returns the name of data under a prefix, as a codec chooses it.
func Name(prefix string, data []byte) string {
	sum := sha256.Sum256(data)
	return prefix + "/" + hex.EncodeToString(sum[:])
}

// Data returns size bytes that differ for each seed and do not compress.
func Data(seed byte, size int) []byte {
	data := make([]byte, size)
	block := sha256.Sum256([]byte{seed})
	for n := 0; n < size; {
		n += copy(data[n:], block[:])
		block = sha256.Sum256(block[:])
	}
	return data
}
