package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Examine is part of admin.Service.
func (s *Service) Examine(ctx context.Context) (admin.Exam, error) {
	return get[admin.Exam](ctx, s, call{route: route.Examine})
}

// Check is part of admin.Service.
func (s *Service) Check(ctx context.Context) (admin.Checked, error) {
	return get[admin.Checked](ctx, s, call{route: route.Check})
}

// Repair is part of admin.Service.
func (s *Service) Repair(ctx context.Context, why admin.Because) (admin.Checked, error) {
	return get[admin.Checked](ctx, s, call{route: route.Repair, body: why})
}
