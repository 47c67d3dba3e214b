package admin

import "context"

// all returns an error if a principal may not use what is about the runs of all owners.
func (l *limited) all(role Role, what, instead string) error {
	if err := l.p.Need(role, "to "+what); err != nil {
		return err
	}
	if l.p.Owner != "" {
		return &NotAllowedError{What: "to " + what + " is about the runs of all owners", Fix: instead}
	}
	return nil
}

// ownRuns is what a principal with an owner has instead of schedules and limits.
const ownRuns = "list and start runs: those of the token's owner"

// Schedules is part of Service.
func (l *limited) Schedules(ctx context.Context, f ScheduleFilter) (SchedulePage, error) {
	if err := l.all(RoleViewer, "see schedules", ownRuns); err != nil {
		return SchedulePage{}, err
	}
	return l.under.Schedules(ctx, f)
}

// Schedule is part of Service.
func (l *limited) Schedule(ctx context.Context, name string) (Schedule, error) {
	if err := l.all(RoleViewer, "see schedules", ownRuns); err != nil {
		return Schedule{}, err
	}
	return l.under.Schedule(ctx, name)
}

// PutSchedule is part of Service.
func (l *limited) PutSchedule(ctx context.Context, n NewSchedule) (ScheduleActed, error) {
	if err := l.all(RoleOperator, "make schedules", ownRuns); err != nil {
		return ScheduleActed{}, err
	}
	return l.under.PutSchedule(ctx, n)
}

// ActOnSchedule is part of Service.
func (l *limited) ActOnSchedule(ctx context.Context, name string, a ScheduleAction) (ScheduleActed, error) {
	role := RoleOperator
	if a.Verb == verbDelete {
		role = RoleAdmin
	}
	if err := l.all(role, a.Verb+" schedules", ownRuns); err != nil {
		return ScheduleActed{}, err
	}
	return l.under.ActOnSchedule(ctx, name, a)
}

// Catalog is part of Service. It says nothing of runs: who may start them may see it, whatever their owner.
func (l *limited) Catalog(ctx context.Context, f CatalogFilter) (CatalogPage, error) {
	if err := l.p.Need(RoleViewer, "to see the catalogue"); err != nil {
		return CatalogPage{}, err
	}
	return l.under.Catalog(ctx, f)
}

// Pools is part of Service.
func (l *limited) Pools(ctx context.Context, f PoolFilter) (PoolPage, error) {
	if err := l.all(RoleViewer, "see limits", ownRuns); err != nil {
		return PoolPage{}, err
	}
	return l.under.Pools(ctx, f)
}

// ActOnPool is part of Service.
func (l *limited) ActOnPool(ctx context.Context, name string, a PoolAction) (PoolActed, error) {
	if err := l.all(RoleOperator, a.Verb+" limits", ownRuns); err != nil {
		return PoolActed{}, err
	}
	return l.under.ActOnPool(ctx, name, a)
}

// Views is part of Service. Filters name workflows, ids and tags of all owners.
func (l *limited) Views(ctx context.Context) (ViewList, error) {
	if err := l.all(RoleViewer, "see shared views", ownRuns); err != nil {
		return ViewList{}, err
	}
	return l.under.Views(ctx)
}

// SaveView is part of Service.
func (l *limited) SaveView(ctx context.Context, name string, v NewView) (ViewActed, error) {
	if err := l.all(RoleOperator, "save shared views", ownRuns); err != nil {
		return ViewActed{}, err
	}
	return l.under.SaveView(ctx, name, v)
}

// DeleteView is part of Service.
func (l *limited) DeleteView(ctx context.Context, name string, why Because) (ViewActed, error) {
	if err := l.all(RoleOperator, "delete shared views", ownRuns); err != nil {
		return ViewActed{}, err
	}
	return l.under.DeleteView(ctx, name, why)
}

// Workers is part of Service.
func (l *limited) Workers(ctx context.Context, f FleetFilter) (WorkerPage, error) {
	if err := l.all(RoleViewer, "see workers", "use a token without an owner"); err != nil {
		return WorkerPage{}, err
	}
	return l.under.Workers(ctx, f)
}

// Queues is part of Service.
func (l *limited) Queues(ctx context.Context, f FleetFilter) (QueuePage, error) {
	if err := l.all(RoleViewer, "see queues", "list or count runs, with the filter queue"); err != nil {
		return QueuePage{}, err
	}
	return l.under.Queues(ctx, f)
}

// Depth is part of Service.
func (l *limited) Depth(ctx context.Context, queue string) (Depth, error) {
	if err := l.all(RoleViewer, "see queues", "use a token without an owner"); err != nil {
		return Depth{}, err
	}
	return l.under.Depth(ctx, queue)
}
