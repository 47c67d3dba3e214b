package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Preview is [admin.Service.Preview] of the server.
func (s *Service) Preview(ctx context.Context, r admin.BulkRequest) (admin.BulkPreview, error) {
	return get[admin.BulkPreview](ctx, s, call{route: route.Preview, body: r})
}

// StartBulk is [admin.Service.StartBulk] of the server. The server knows who asks.
func (s *Service) StartBulk(ctx context.Context, b admin.NewBulk) (admin.Bulk, error) {
	b.By = nil
	return get[admin.Bulk](ctx, s, call{route: route.StartBulk, body: b, key: b.Key})
}

// Bulk is [admin.Service.Bulk] of the server.
func (s *Service) Bulk(ctx context.Context, id string) (admin.Bulk, error) {
	return get[admin.Bulk](ctx, s, call{route: route.Bulk, path: []string{id}})
}

// Bulks is [admin.Service.Bulks] of the server.
func (s *Service) Bulks(ctx context.Context, f admin.BulkFilter) (admin.BulkPage, error) {
	return get[admin.BulkPage](ctx, s, call{route: route.Bulks, query: route.BulkQuery(f)})
}

// StopBulk is [admin.Service.StopBulk] of the server.
func (s *Service) StopBulk(ctx context.Context, id string, why admin.Because) (admin.Bulk, error) {
	return get[admin.Bulk](ctx, s, call{route: route.StopBulk, path: []string{id}, body: why})
}
