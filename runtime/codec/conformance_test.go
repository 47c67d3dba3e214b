package codec_test

import (
	"testing"

	"github.com/flowgen/flowgen/runtime/codec"
	"github.com/flowgen/flowgen/runtime/codec/codectest"
)

func TestOPS11_FileBlobsKeepTheContractOfBlobStores(t *testing.T) {
	dir := t.TempDir()
	codectest.Conformance(t, func(t *testing.T) codec.BlobStore { return newFileBlobs(t, dir) })
}
