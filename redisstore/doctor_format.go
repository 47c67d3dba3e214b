package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

const otherPrefix = "Use another prefix, or the server that has the store; there is no CONFIG line for it."

// checkFormatMark compares what the database says of itself with how this store
// is configured, on the server that has partition 0.
func checkFormatMark(ctx context.Context, n *node) []store.Finding {
	if len(n.parts) == 0 || n.parts[0].number != 0 {
		return nil
	}
	p := n.parts[0]
	mark, err := n.client.Get(ctx, p.format()).Result()
	switch {
	case err == nil:
		return []store.Finding{n.judgeMark(mark)}
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return []store.Finding{fail("key "+p.format()+" is of another kind", "a string", otherPrefix)}
	case !errors.Is(err, redis.Nil):
		return []store.Finding{fail("key "+p.format()+" cannot be read: "+err.Error(), "", n.repair(err, "get"))}
	}
	if runs, err := n.client.Exists(ctx, p.routes(), p.leases()).Result(); err == nil && runs > 0 {
		return []store.Finding{warn("the mark of the store is gone, and there are runs: the server has lost data", p.format(),
			"See what checks persistence and eviction say; the next worker that starts sets the mark again. There is no CONFIG line for it.")}
	}
	return []store.Finding{fine(fmt.Sprintf("no store has used prefix %q yet", n.store.cfg.Prefix))}
}

// judgeMark compares the mark of a database with the store.
func (n *node) judgeMark(mark string) store.Finding {
	s := n.store
	err := s.compareMark(mark)
	if err == nil {
		return fine(mark)
	}
	fix := otherPrefix
	if e, ok := errors.AsType[*PartitionsError](err); ok {
		fix = fmt.Sprintf("Open the store with partitions=%d; there is no CONFIG line for it.", e.Want)
	}
	if e, ok := errors.AsType[*store.VersionError](err); ok {
		fix = strings.ToUpper(e.Fix()[:1]) + e.Fix()[1:] + "; there is no CONFIG line for it."
	}
	return fail(err.Error(), s.mark(), fix)
}
