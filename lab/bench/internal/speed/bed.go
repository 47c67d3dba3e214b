package speed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// target is a kind of store that the program can measure.
type target interface {
	name() string
	// fresh returns an empty store.
	fresh(ctx context.Context) (bed, error)
	close() error
}

// bed is an empty store with functions that a measurement needs.
type bed interface {
	store() store.Store
	// usage returns the total work of the server since its start, including the work for other
	// clients.
	usage(ctx context.Context) (usage, error)
	// bytes returns the size of the store.
	bytes(ctx context.Context) (int64, error)
	// append is the operation of the limit. For each row it appends frame to the log of the run,
	// provided that the last frame of the log is the one in the row.
	append(ctx context.Context, rows []*row, frame []byte) error
	// drop removes the logs that append created.
	drop(ctx context.Context, rows []*row) error
	// discard closes the store and removes all its data.
	discard() error
}

// usage contains the work of a server. It is zero for a store without a server.
type usage struct {
	cpu      time.Duration
	commands float64 // number of commands received
	calls    float64 // number of commands executed, including commands within scripts
}

func (u usage) minus(v usage) usage {
	return usage{u.cpu - v.cpu, u.commands - v.commands, u.calls - v.calls}
}

func openTarget(ctx context.Context, url string) (target, error) {
	scheme, rest, _ := strings.Cut(url, ":")
	switch {
	case url == "memory:":
		return memoryTarget{}, nil
	case scheme == "sqlite" && rest != "":
		return newSQLiteTarget(rest)
	case url == "redis":
		return startRedis(ctx)
	case scheme == "redis" || scheme == "rediss":
		return newRedisTarget(ctx, url)
	}
	return nil, fmt.Errorf("-store %q: use memory:, sqlite:PATH, redis://HOST:PORT or redis", url)
}
