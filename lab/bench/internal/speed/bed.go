package speed

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/flowgen/flowgen/runtime/store"
)

// target is a kind of store that is measured.
type target interface {
	name() string
	// fresh returns an empty store.
	fresh(ctx context.Context) (bed, error)
	close() error
}

// bed is an empty store with what is measured beside it.
type bed interface {
	store() store.Store
	// usage returns what the server has done since it was started, by whomever.
	usage(ctx context.Context) (usage, error)
	// bytes returns how much the store takes.
	bytes(ctx context.Context) (int64, error)
	// append is the limit: it appends a frame to the log of each of the runs, if
	// the last frame of the run is the one that the row names.
	append(ctx context.Context, rows []*row, frame []byte) error
	// drop removes what append has made.
	drop(ctx context.Context, rows []*row) error
	// discard closes the store and removes everything.
	discard() error
}

// usage counts the work of a server. A store without a server has none.
type usage struct {
	cpu      time.Duration
	commands float64 // that were sent to it
	calls    float64 // commands that it executed, those within scripts included
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
