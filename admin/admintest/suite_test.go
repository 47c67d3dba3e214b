package admintest_test

import (
	"context"
	"net/http/httptest"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/admintest"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/internal/testutil/redistest"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/redisstore"
	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
	"github.com/flowgen/flowgen/sqlitestore"
)

// TestOPS3_DirectAndRemoteAreOneService proves that the service over HTTP behaves as the service
// with direct access, for each kind of store.
func TestOPS3_DirectAndRemoteAreOneService(t *testing.T) {
	stores := map[string]func(t testing.TB) store.Store{
		"memory": func(testing.TB) store.Store { return memstore.New() },
		"sqlite": func(t testing.TB) store.Store {
			return opened(t)(sqlitestore.Open(filepath.Join(t.TempDir(), "runs.db")))
		},
		"redis": func(t testing.TB) store.Store {
			return opened(t)(redisstore.Open(redistest.Shared(t).URL() + "?prefix=" + redistest.Prefix()))
		},
	}
	services := map[string]func(t testing.TB, direct *admin.Service) admintest.Service{
		"direct": func(_ testing.TB, direct *admin.Service) admintest.Service { return direct },
		"remote": overHTTP,
	}
	for store, open := range stores {
		for service, over := range services {
			t.Run(store+"/"+service, func(t *testing.T) {
				t.Parallel()
				admintest.Run(t, open, over)
			})
		}
	}
}

func opened(t testing.TB) func(s store.Store, err error) store.Store {
	return func(s store.Store, err error) store.Store {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
}

func overHTTP(t testing.TB, direct *admin.Service) admintest.Service {
	t.Helper()
	server := httptest.NewServer(api.New(direct, api.Config{Mutations: 10_000}))
	t.Cleanup(server.Close)
	s, err := remote.New(server.URL, remote.Config{Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// behind is a store whose next read of a waiting run returns the status that the run had when its
// worker recorded its last event, before it parked.
type behind struct {
	store.Store
	next atomic.Bool
}

func (b *behind) Unwrap() store.Store { return b.Store }

func (b *behind) Load(ctx context.Context, loads []store.Load) ([]store.Loaded, error) {
	got, err := b.Store.Load(ctx, loads)
	for i := range got {
		if r := &got[i].Record; r.Status == event.StatusWaiting && b.next.CompareAndSwap(true, false) {
			r.Status = event.StatusRunning
		}
	}
	return got, err
}

// TestScene_UntilNoticesAStatusThatChangesWithoutAnEvent proves that a test does not wait for an event
// if its run parks between a read of the status and the wait.
func TestScene_UntilNoticesAStatusThatChangesWithoutAnEvent(t *testing.T) {
	st := &behind{Store: memstore.New()}
	s := admintest.NewScene(t, st, func(_ testing.TB, direct *admin.Service) admintest.Service { return direct })
	run := s.Start("wait", "")
	s.Until(run, "waiting")
	st.next.Store(true)
	s.Until(run, "waiting")
	if st.next.Load() {
		t.Error("the status was not read")
	}
}
