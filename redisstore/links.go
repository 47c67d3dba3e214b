package redisstore

import (
	"context"
	"fmt"

	"github.com/flowgen/flowgen/runtime/store"
)

// RepairLinks changes the outbox of a run and what others have left with it, if both
// are as they were examined.
func (e *partitionScan) RepairLinks(ctx context.Context, m store.LinkRepair) (bool, error) {
	p, run, owner := e.p, short(m.Run), ""
	if r := e.snap.Runs[m.Run]; r != nil {
		owner = string(r.Owner)
	}
	if e.sent[run] == nil && len(m.Remove) > 0 {
		return false, nil // the scan has not seen it
	}
	args := []any{e.s.at(), run, string(m.Reason), string(m.By), owner, len(m.Remove), len(m.Write), len(m.Confirm)}
	for _, o := range m.Remove {
		id := string(o.ID)
		args = append(args, id, e.sent[run].Val()[id], e.bodies[run].Val()[id])
	}
	for _, s := range m.Write {
		args = append(args, string(s.ID), string(s.To), s.Body)
	}
	for _, id := range m.Confirm {
		args = append(args, string(id))
	}
	c := &call{
		script: scriptRepairLinks, p: p, args: args,
		keys: []string{p.meta(run), p.hidden(run), p.sent(run), p.bodies(run), p.outbox(), p.purges(), p.held()},
	}
	if err := e.s.do(ctx, c); err != nil {
		return false, fmt.Errorf("repair links of run %s: %w", m.Run, err)
	}
	return c.answer().word() == "ok", nil
}
