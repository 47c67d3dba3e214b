package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Schedules is [admin.Service.Schedules] of the server.
func (s *Service) Schedules(ctx context.Context, f admin.ScheduleFilter) (admin.SchedulePage, error) {
	return get[admin.SchedulePage](ctx, s, call{route: route.Schedules, query: route.ScheduleQuery(f)})
}

// Schedule is [admin.Service.Schedule] of the server.
func (s *Service) Schedule(ctx context.Context, name string) (admin.Schedule, error) {
	return get[admin.Schedule](ctx, s, call{route: route.Schedule, path: []string{name}})
}

// PutSchedule is [admin.Service.PutSchedule] of the server.
func (s *Service) PutSchedule(ctx context.Context, n admin.NewSchedule) (admin.ScheduleActed, error) {
	return get[admin.ScheduleActed](ctx, s, call{route: route.PutSchedule, body: n})
}

// ActOnSchedule is [admin.Service.ActOnSchedule] of the server.
func (s *Service) ActOnSchedule(ctx context.Context, name string, a admin.ScheduleAction) (admin.ScheduleActed, error) {
	return get[admin.ScheduleActed](ctx, s, call{route: route.ActOnSchedule, path: []string{name, a.Verb}, body: route.BodyOf(&a), key: a.Key})
}

// Catalog is [admin.Service.Catalog] of the server.
func (s *Service) Catalog(ctx context.Context, f admin.CatalogFilter) (admin.CatalogPage, error) {
	return get[admin.CatalogPage](ctx, s, call{route: route.Catalog, query: route.CatalogQuery(f)})
}

// Pools is [admin.Service.Pools] of the server.
func (s *Service) Pools(ctx context.Context, f admin.PoolFilter) (admin.PoolPage, error) {
	return get[admin.PoolPage](ctx, s, call{route: route.Pools, query: route.PoolQuery(f)})
}

// ActOnPool is [admin.Service.ActOnPool] of the server.
func (s *Service) ActOnPool(ctx context.Context, name string, a admin.PoolAction) (admin.PoolActed, error) {
	return get[admin.PoolActed](ctx, s, call{route: route.ActOnPool, path: []string{name, a.Verb}, body: route.PoolBodyOf(&a)})
}
