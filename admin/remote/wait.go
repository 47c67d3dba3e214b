package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"net/url"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// patience is how long one request waits for something; then the next one does.
const patience = 30 * time.Second

// Wait is [admin.Service.Wait] of the server.
func (s *Service) Wait(ctx context.Context, ref string, most time.Duration) (admin.Run, error) {
	for until := time.Now().Add(most); ; {
		wait := min(time.Until(until), patience)
		q := url.Values{}
		if wait > 0 {
			q.Set("wait", wait.String())
		}
		r, err := get[admin.Run](ctx, s, call{route: route.Result, path: []string{ref}, query: q})
		if err != nil || !r.EndedAt.IsZero() || wait <= 0 {
			return r, err
		}
		ref = r.ID // the workflow id could be another run's by now
	}
}

// Ask is [admin.Service.Ask] of the server. A question without a key gets one, so that it can wait for long.
func (s *Service) Ask(ctx context.Context, ref, name string, m admin.Message) (admin.Answer, error) {
	if m.Key == "" {
		m.Key = "ask-" + rand.Text()
	}
	for {
		got, err := get[admin.Answer](ctx, s, call{route: route.Ask, path: []string{ref, name}, body: m, key: m.Key, prefer: patience})
		if p, ok := errors.AsType[*admin.Problem](err); !ok || p.Code != admin.CodeTimeout || ctx.Err() != nil {
			return got, err
		}
	}
}
