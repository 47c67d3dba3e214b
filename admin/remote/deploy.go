package remote

import (
	"context"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Deploys calls [admin.Service.Deploys] on the server.
func (s *Service) Deploys(ctx context.Context) (admin.Deploys, error) {
	return get[admin.Deploys](ctx, s, call{route: route.Deploys})
}

// Drained calls [admin.Service.Drained] on the server.
func (s *Service) Drained(ctx context.Context, build string) (admin.Drained, error) {
	return get[admin.Drained](ctx, s, call{route: route.Drained, path: []string{build}})
}

// Ramp calls [admin.Service.Ramp] on the server.
func (s *Service) Ramp(ctx context.Context, r admin.Ramp) (admin.Ramped, error) {
	if r.Percent == nil {
		r.Percent = map[string]int{} // The server refuses a request without the field.
	}
	return get[admin.Ramped](ctx, s, call{route: route.Ramp, body: r})
}

// ActOnDeploy calls [admin.Service.ActOnDeploy] on the server.
func (s *Service) ActOnDeploy(ctx context.Context, build string, a admin.DeployAction) (admin.DeployActed, error) {
	return get[admin.DeployActed](ctx, s, call{route: route.ActOnDeploy, path: []string{build, a.Verb}, body: route.DeployAct{To: a.To, Reason: a.Reason}})
}
