package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Hooks is [admin.Service.Hooks] of the server.
func (s *Service) Hooks(ctx context.Context, f admin.HookFilter) (admin.HookPage, error) {
	return get[admin.HookPage](ctx, s, call{route: route.Hooks, query: route.HookQuery(f)})
}

// Hook is [admin.Service.Hook] of the server.
func (s *Service) Hook(ctx context.Context, token string) (admin.Hook, error) {
	return get[admin.Hook](ctx, s, call{route: route.Hook, path: []string{token}})
}

// ResumeHook is [admin.Service.ResumeHook] of the server.
func (s *Service) ResumeHook(ctx context.Context, token string, m admin.Message) (admin.Sent, error) {
	return get[admin.Sent](ctx, s, call{route: route.ResumeHook, path: []string{token}, body: m, key: m.Key})
}
