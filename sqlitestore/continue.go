package sqlitestore

import (
	"fmt"

	"github.com/flowgen/flowgen/runtime/event"
	"github.com/flowgen/flowgen/runtime/store"
)

// continuable checks that a commit that continues a run says as what.
func continuable(c *store.Commit) error {
	switch {
	case c.Effect != store.EffectContinue:
		return nil
	case c.Continue == nil:
		return fmt.Errorf("continue run %s: there is no new run", c.Run)
	case c.WorkflowID != c.Continue.WorkflowID:
		return fmt.Errorf("continue run %s as run %s: workflow id %q becomes %q", c.Run, c.Continue.Run, c.WorkflowID, c.Continue.WorkflowID)
	}
	return nil
}

// guardContinue is the guards of a commit that continues as a new run, and
// consumes the items up to number upTo.
func (t *tx) guardContinue(r *run, c *store.Commit, upTo int64) (refused, err error) {
	if r.inbox > max(c.Consume, 0) {
		bound, err := t.number(`SELECT count(*) FROM inbox WHERE run = +? AND seq > +? AND scope = +?`, r.key, upTo, int(store.ScopeRun))
		if err != nil {
			return nil, err
		}
		if bound > 0 {
			return store.ErrMail, nil
		}
	}
	w, err := t.workflowID(r.workflowID)
	if err != nil {
		return nil, err
	}
	if r.wid != 0 && w.active != r.key {
		return r.conflict(c, "the run is not the active one of its workflow id"), nil
	}
	known, err := t.number(`SELECT key FROM runs WHERE id = +?`, packRun(c.Continue.Run))
	if err == nil && known != 0 {
		return r.conflict(c, "the run that it continues as is there already"), nil
	}
	return nil, err
}

// continueAs ends a run and puts a new one into its place: the workflow id, the
// items that are left, and the chain are handed on.
func (t *tx) continueAs(r *run, c *store.Create) error {
	fresh := *c
	fresh.Birth = "" // it is no relay that creates it
	heir, err := t.insert(&fresh, workflowID{id: r.wid}, r.chain)
	if err != nil {
		return err
	}
	if r.inbox > 0 {
		if err := t.exec(`UPDATE inbox SET run = ? WHERE run = +?`, heir.key, r.key); err != nil {
			return err
		}
		heir.inbox, r.inbox = r.inbox, 0
	}
	if err := t.retire(r); err != nil {
		return err
	}
	if err := t.link(r, heir.id); err != nil {
		return err
	}
	if r.wid != 0 {
		if err := t.exec(`UPDATE workflow_ids SET active = ? WHERE id = +?`, heir.key, r.wid); err != nil {
			return err
		}
	}
	return t.makeReady(heir)
}

// link makes the heir the next run of the chain, and its last.
func (t *tx) link(r *run, heir event.RunID) error {
	if err := t.exec(`UPDATE runs SET next = ? WHERE key = +?`, packRun(heir), r.key); err != nil {
		return err
	}
	return t.exec(`UPDATE runs SET tip = ? WHERE id = +?`, packRun(heir), packRun(r.chain))
}
