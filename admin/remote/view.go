package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Views is [admin.Service.Views] of the server.
func (s *Service) Views(ctx context.Context) (admin.ViewList, error) {
	return get[admin.ViewList](ctx, s, call{route: route.Views})
}

// SaveView is [admin.Service.SaveView] of the server.
func (s *Service) SaveView(ctx context.Context, name string, v admin.NewView) (admin.ViewActed, error) {
	return get[admin.ViewActed](ctx, s, call{route: route.SaveView, path: []string{name}, body: v})
}

// DeleteView is [admin.Service.DeleteView] of the server.
func (s *Service) DeleteView(ctx context.Context, name string, why admin.Because) (admin.ViewActed, error) {
	return get[admin.ViewActed](ctx, s, call{route: route.DeleteView, path: []string{name}, body: why})
}
