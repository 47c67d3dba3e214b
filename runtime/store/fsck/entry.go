package fsck

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/flowgen/flowgen/runtime/store"
)

// checkEntries checks invariant 24: the entries can be read, and are in order.
func (c *checker) checkEntries() {
	var before store.Entry
	for _, e := range c.Entries {
		order := cmp.Or(cmp.Compare(e.Space, before.Space), cmp.Compare(e.Key, before.Key))
		switch {
		case e.Damage() != nil:
			c.findings = append(c.findings, damaged(&e))
		case c.cfg.partial: // for one partition, the store reports the following defects
		case order == 0:
			c.find(24, "", fmt.Sprintf("entry %.60q of %s exists twice", e.Key, e.Space), "it is shown twice, with two values")
		case order < 0:
			c.find(24, "", fmt.Sprintf("entry %.60q of %s comes after %.60q", e.Key, e.Space, before.Key), "it is out of order")
		}
		before = e
	}
}

// damaged returns the finding about an entry that cannot be read.
func damaged(e *store.Entry) Finding {
	return Finding{Invariant: 24, What: fmt.Sprintf("%s has %.60q under %.60q, which is not an entry", cmp.Or(e.Space, "no space"), e.Value, e.Key), Explain: "it is not shown"}
}

// entryFixes returns a fix for each entry that cannot be read. A fix removes the entry, because
// there are no data to restore it from. It does nothing if the value of the entry has changed.
func (d *decider) entryFixes(entries store.Entries) (fixes []Fix) {
	if entries == nil {
		return nil
	}
	for _, e := range d.Entries {
		if e.Damage() == nil {
			continue
		}
		found := damaged(&e)
		d.nowhere = slices.DeleteFunc(d.nowhere, func(f Finding) bool { return f == found })
		remove := store.EntryWrite{Entry: store.Entry{Space: e.Space, Key: e.Key}, Match: true, Old: e.Value}
		fixes = append(fixes, Fix{Findings: []Finding{found}, Action: "remove it", do: func(ctx context.Context) (bool, error) {
			err := entries.WriteEntry(ctx, remove)
			if errors.Is(err, store.ErrEntryChanged) || errors.Is(err, store.ErrEntryNotFound) {
				return false, nil
			}
			return err == nil, err
		}})
	}
	return fixes
}
