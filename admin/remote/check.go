package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Examine is [admin.Service.Examine] of the server.
func (s *Service) Examine(ctx context.Context) (admin.Exam, error) {
	return get[admin.Exam](ctx, s, call{route: route.Examine})
}

// Check is [admin.Service.Check] of the server.
func (s *Service) Check(ctx context.Context) (admin.Checked, error) {
	return get[admin.Checked](ctx, s, call{route: route.Check})
}

// Repair is [admin.Service.Repair] of the server.
func (s *Service) Repair(ctx context.Context, why admin.Because) (admin.Checked, error) {
	return get[admin.Checked](ctx, s, call{route: route.Repair, body: why})
}
