package admin_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/runtime/workflow"
)

// scanned is a store that counts how many partitions are read at once, and lets none be read before release is closed.
type scanned struct {
	store.Store

	release chan struct{}
	mu      sync.Mutex
	now     int
	most    int
	all     int
}

var errScan = errors.New("not readable")

func (s *scanned) ScanPartition(ctx context.Context, _ int) (store.Scan, error) {
	s.mu.Lock()
	s.now, s.all = s.now+1, s.all+1
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	select {
	case <-s.release:
	case <-ctx.Done():
	}
	s.mu.Lock()
	s.now--
	s.mu.Unlock()
	return nil, errScan
}

func TestCheck_OneRunsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := &scanned{Store: memstore.New(), release: make(chan struct{})}
		defer func() { _ = st.Close() }()
		var all sync.WaitGroup
		for range 6 { // each with a service of its own, as the API and the console have
			d := admin.New(workflow.NewClient(st, workflow.ClientConfig{}))
			all.Go(func() {
				if _, err := d.Check(t.Context()); !errors.Is(err, errScan) {
					t.Errorf("check: got %v, want the error of the store", err)
				}
			})
		}
		synctest.Wait()
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := admin.New(workflow.NewClient(st, workflow.ClientConfig{})).Check(ended); !errors.Is(err, context.Canceled) {
			t.Errorf("a check whose caller is gone: got %v, want %v", err, context.Canceled)
		}
		close(st.release)
		all.Wait()
		if st.most != 1 || st.all != 6 {
			t.Errorf("%d checks read the store, %d at once; want 6, one at a time", st.all, st.most)
		}
	})
}
