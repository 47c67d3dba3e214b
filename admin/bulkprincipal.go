package admin

import (
	"context"
	"errors"
	"fmt"

	"github.com/flowgen/flowgen/runtime/workflow"
)

// mayBulk returns an error unless the principal may act on all that a filter selects, and the filter as it is for the principal.
func (l *limited) mayBulk(f Filter, a Action) (Filter, error) {
	if err := l.p.Need(roleFor(a.Verb), "to "+a.Verb+" runs"); err != nil {
		return f, err
	}
	return l.owned(f)
}

// Preview is part of Service.
func (l *limited) Preview(ctx context.Context, r BulkRequest) (BulkPreview, error) {
	if l.p.Owner != "" && !r.All && r.Filter.isZero() { // of the token, not of the request
		return BulkPreview{}, errNoFilter
	}
	var err error
	if r.Filter, err = l.mayBulk(r.Filter, r.Action); err != nil {
		return BulkPreview{}, err
	}
	p, err := l.under.Preview(ctx, r)
	for i := range p.Samples {
		l.hide(&p.Samples[i])
	}
	return p, err
}

// StartBulk is part of Service. A preview gives no right: it is judged as the filter and the action in it.
func (l *limited) StartBulk(ctx context.Context, b NewBulk) (Bulk, error) {
	if b.Token == "" {
		if l.p.Owner != "" && !b.All && b.Filter.isZero() {
			return Bulk{}, errNoFilter
		}
		var err error
		if b.Filter, err = l.mayBulk(b.Filter, b.Action); err != nil {
			return Bulk{}, err
		}
	} else {
		t, err := readPreview(b.Token)
		if err != nil {
			return Bulk{}, err
		}
		f, err := l.mayBulk(t.Filter, t.Action)
		if err != nil {
			return Bulk{}, err
		}
		if f.Tags[ownerTag] != t.Filter.Tags[ownerTag] {
			return Bulk{}, &NotAllowedError{What: "the preview is about the runs of all owners", Fix: "ask for a preview with this token"}
		}
	}
	if b.Key != "" && !l.local {
		b.Key = l.p.Name + "\x00" + b.Key
	}
	b.By = &l.p
	return l.under.StartBulk(ctx, b)
}

// Bulk is part of Service.
func (l *limited) Bulk(ctx context.Context, id string) (Bulk, error) {
	if err := l.p.Need(RoleViewer, "to see bulk actions"); err != nil {
		return Bulk{}, err
	}
	b, err := l.under.Bulk(ctx, id)
	veil(l.p, &b)
	if l.p.Owner != "" && (err == nil && b.Owner != l.p.Owner || errors.Is(err, workflow.ErrRunNotFound) || isNotFound(err)) { // one text for both
		return Bulk{}, noBulk(id)
	}
	return b, err
}

// Bulks is part of Service.
func (l *limited) Bulks(ctx context.Context, f BulkFilter) (BulkPage, error) {
	if err := l.p.Need(RoleViewer, "to see bulk actions"); err != nil {
		return BulkPage{}, err
	}
	if l.p.Owner == "" {
		page, err := l.under.Bulks(ctx, f)
		veil(l.p, &page)
		return page, err
	}
	f.Owner = l.p.Owner
	page, err := l.under.Bulks(ctx, f)
	mine := []Bulk{} // even if the service below takes no owner
	for _, b := range page.Bulks {
		if b.Owner == l.p.Owner {
			mine = append(mine, b)
		}
	}
	page.Bulks = mine
	veil(l.p, &page)
	return page, err
}

// StopBulk is part of Service.
func (l *limited) StopBulk(ctx context.Context, id string, why Because) (Bulk, error) {
	if err := l.p.Need(RoleOperator, "to stop bulk actions"); err != nil {
		return Bulk{}, err
	}
	if _, err := l.Bulk(ctx, id); err != nil {
		return Bulk{}, err
	}
	return l.under.StopBulk(ctx, id, why)
}

// remakes reports whether an action makes a new run of what a run was started with.
func remakes(verb string) bool {
	return verb == "retry" || verb == "resume-new" || verb == "restart" || verb == "fork"
}

// noBulk says that there is no bulk action of an id.
func noBulk(id string) error {
	return fmt.Errorf("find bulk action %s: %w", id, workflow.ErrRunNotFound)
}
