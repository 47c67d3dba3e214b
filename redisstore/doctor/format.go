package doctor

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/flowgen/flowgen/runtime/store"
)

const otherPrefix = "Use another prefix, or the server that has the store; there is no CONFIG line for it."

// checkFormatMark compares the mark in the database with the mark of the store. It does so only on
// the server that has partition 0.
func checkFormatMark(ctx context.Context, n *node) []store.Finding {
	if len(n.parts) == 0 || n.parts[0].Number != 0 {
		return nil
	}
	p := n.parts[0]
	mark, err := n.client.Get(ctx, p.Format).Result()
	switch {
	case err == nil:
		return []store.Finding{n.judgeMark(mark)}
	case redis.HasErrorPrefix(err, "WRONGTYPE"):
		return []store.Finding{fail("key "+p.Format+" is of another kind", "a string", otherPrefix)}
	case !errors.Is(err, redis.Nil):
		return []store.Finding{fail("key "+p.Format+" cannot be read: "+err.Error(), "", n.repair(err, "get"))}
	}
	if runs, err := n.client.Exists(ctx, p.Routes, p.Leases).Result(); err == nil && runs > 0 {
		return []store.Finding{warn("the mark of the store is gone, and there are runs: the server has lost data", p.Format,
			"See what checks persistence and eviction say; the next worker that starts sets the mark again. There is no CONFIG line for it.")}
	}
	return []store.Finding{fine(fmt.Sprintf("no store has used prefix %q yet", n.target.Prefix))}
}

// judgeMark returns a finding for the given mark of the database.
func (n *node) judgeMark(mark string) store.Finding {
	fix, err := n.target.JudgeMark(mark)
	if err == nil {
		return fine(mark)
	}
	return fail(err.Error(), n.target.Mark, cmp.Or(fix, otherPrefix))
}
