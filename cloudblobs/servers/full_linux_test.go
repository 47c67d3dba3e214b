package servers_test

import (
	"os"
	"syscall"
	"testing"

	"github.com/flowgen/flowgen/cloudblobs"
)

func init() {
	mount = func(dir, size string) error { return syscall.Mount("tmpfs", dir, "tmpfs", 0, "size="+size) }
}

func TestOPS11_AFullBucketStoresNothingOfABlob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can mount a file system of a limited size")
	}
	s := &server{proxy: newProxy(t), dir: t.TempDir(), storage: "24m", attr: &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}}
	s.run(t)
	s.createBucket(t)
	store := s.open(t)
	small, data := payload(1, 15<<20)
	if err := store.Put(t.Context(), small, data); err != nil {
		t.Fatal(err)
	}
	for i, size := range []int{12 << 20, 20 << 20} { // by one request and in parts
		name, data := payload(byte(2+i), size)
		wantReason(t, "Put in a full bucket", store.Put(t.Context(), name, data), cloudblobs.Full)
		if page, err := store.List(t.Context(), "", "", 10); err != nil || len(page) != 1 || page[0].Name != small {
			t.Errorf("List returns %v and error %v, want %s", page, err, small)
		}
	}
	if err := store.Delete(t.Context(), small); err != nil {
		t.Fatal(err)
	}
	wantStored(t, store, small, data)
}
