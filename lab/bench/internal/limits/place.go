package limits

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/lab/internal/harm"
	"github.com/flowgen/flowgen/memstore"
	"github.com/flowgen/flowgen/runtime/store"
)

// place is an empty store with access to the statistics of its servers.
type place struct {
	// open opens the store. On Redis, each call returns a store with its own connections.
	open  func(ctx context.Context) (store.Store, error)
	size  func(ctx context.Context) (int64, error) // returns the size in bytes; called while the store is not open
	nodes []*redis.Client                          // clients of the Redis servers
	end   func() error
}

// newPlace creates an empty store of the measured kind.
func (s *session) newPlace(ctx context.Context) (*place, error) { return s.newPlaceOf(ctx, "") }

// newHome creates a store with one partition, which also contains the limits. Therefore runs with
// and without limits are comparable for any number of runs.
func (s *session) newHome(ctx context.Context) (*place, error) {
	return s.newPlaceOf(ctx, "partitions=1")
}

func (s *session) newPlaceOf(ctx context.Context, parameters string) (*place, error) {
	switch s.kind() {
	case "redis":
		return s.newServers(ctx, "redis", parameters)
	case "memory":
		st := memstore.New()
		return &place{
			open: func(context.Context) (store.Store, error) { return kept{st}, nil },
			size: func(context.Context) (int64, error) { return inUse(), nil }, end: st.Close,
		}, nil
	}
	return s.newFile(ctx)
}

// newFile creates a SQLite file.
func (s *session) newFile(ctx context.Context) (*place, error) {
	s.places++
	path := fmt.Sprintf("%s-limits-%d-%d", strings.TrimPrefix(s.store, "sqlite:"), os.Getpid(), s.places)
	st, err := store.Open(ctx, "sqlite:"+path)
	if err != nil {
		return nil, err
	}
	return &place{
		open: func(context.Context) (store.Store, error) { return kept{st}, nil },
		size: func(context.Context) (int64, error) { // Closing the store writes the log of the file back.
			if err := st.Close(); err != nil {
				return 0, err
			}
			info, err := os.Stat(path)
			if err != nil {
				return 0, err
			}
			st, err = store.Open(ctx, "sqlite:"+path)
			return info.Size(), err
		},
		end: func() error {
			err := st.Close()
			left, globbed := filepath.Glob(path + "*")
			for _, name := range left {
				err = errors.Join(err, os.Remove(name))
			}
			return errors.Join(err, globbed)
		},
	}, nil
}

// kept is a store that all workers share. No worker closes it.
type kept struct{ store.Store }

// Unwrap returns the underlying store. That store may implement optional interfaces.
func (k kept) Unwrap() store.Store { return k.Store }

// Close does nothing.
func (kept) Close() error { return nil }

// newServers starts one server, or a cluster of three servers.
func (s *session) newServers(ctx context.Context, what, parameters string) (*place, error) {
	site, err := harm.Open(ctx, "", what)
	if err != nil {
		return nil, err
	}
	address := site.URL
	if parameters != "" {
		address += "?" + parameters
	}
	p := &place{open: func(ctx context.Context) (store.Store, error) { return store.Open(ctx, address) }}
	for _, server := range site.Servers {
		p.nodes = append(p.nodes, redis.NewClient(&redis.Options{Addr: server.Addr}))
	}
	p.size = func(ctx context.Context) (int64, error) {
		all, err := p.usage(ctx)
		sum := int64(0)
		for _, u := range all {
			sum += u.bytes
		}
		return sum, err
	}
	p.end = func() error {
		var err error
		for _, c := range p.nodes {
			err = errors.Join(err, c.Close())
		}
		site.Close()
		return err
	}
	return p, nil
}

// usage contains the work of a server since its start, and its memory.
type usage struct {
	cpu   time.Duration
	calls float64 // number of commands, including commands within scripts
	bytes int64   // memory without client buffers and scripts
}

// usage reads the statistics of each server.
func (p *place) usage(ctx context.Context) ([]usage, error) {
	all := make([]usage, len(p.nodes))
	for i, c := range p.nodes {
		done, err := harm.ReadStats(ctx, c)
		if err != nil {
			return nil, err
		}
		all[i] = usage{done.CPU(), done.Calls(), int64(done["used_memory"])}
		for _, name := range []string{"mem_clients_normal", "mem_clients_slaves", "used_memory_scripts_eval"} {
			all[i].bytes -= int64(done[name])
		}
	}
	return all, nil
}

// since returns the work of each server since an earlier call of usage.
func (p *place) since(ctx context.Context, before []usage) ([]usage, error) {
	now, err := p.usage(ctx)
	for i := range now {
		now[i].cpu -= before[i].cpu
		now[i].calls -= before[i].calls
		now[i].bytes -= before[i].bytes
	}
	return now, err
}

// busiest returns the usage of the server with the highest CPU time, and the sum of the usage of
// all servers.
func busiest(all []usage) (busiest, total usage) {
	for _, u := range all {
		total.cpu += u.cpu
		total.calls += u.calls
	}
	if len(all) > 0 {
		busiest = slices.MaxFunc(all, func(a, b usage) int { return int(a.cpu - b.cpu) })
	}
	return busiest, total
}

// inUse returns the number of heap bytes that are in use.
func inUse() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
