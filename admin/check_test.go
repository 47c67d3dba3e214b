package admin_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// scanned is a store that counts the reads of its partition, and the maximum number of concurrent
// reads.
type scanned struct {
	store.Store

	during         func() // called during a read
	now, most, all atomic.Int64
}

var errScan = errors.New("not readable")

func (s *scanned) ReadPartition(context.Context, int) (*store.PartitionState, error) {
	s.all.Add(1)
	n := s.now.Add(1)
	defer s.now.Add(-1)
	for m := s.most.Load(); n > m && !s.most.CompareAndSwap(m, n); m = s.most.Load() {
	}
	s.during()
	return nil, errScan
}

func TestCheck_OneRunsAtATime(t *testing.T) {
	st := &scanned{Store: memstore.New()}
	defer func() { _ = st.Close() }()
	check := func(ctx context.Context) error { // each check uses its own service, as the API and the console do
		_, err := admin.New(workflow.NewClient(st, workflow.ClientConfig{})).Check(ctx)
		return err
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	st.during = func() {
		if err := check(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("a check that waits, and whose caller is gone: got %v, want %v", err, context.Canceled)
		}
		for range 1000 { // let the other goroutines run
			runtime.Gosched()
		}
	}
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if err := check(t.Context()); !errors.Is(err, errScan) {
				t.Errorf("check: got %v, want the error of the store", err)
			}
		})
	}
	all.Wait()
	if most, n := st.most.Load(), st.all.Load(); most != 1 || n != 6 {
		t.Errorf("%d checks read the store, %d at once; want 6, one at a time", n, most)
	}
}
