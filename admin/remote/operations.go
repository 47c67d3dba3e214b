package remote

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/url"
	"slices"
	"time"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Schedules calls [admin.Service.Schedules] on the server.
func (s *Service) Schedules(ctx context.Context, f admin.ScheduleFilter) (admin.SchedulePage, error) {
	return get[admin.SchedulePage](ctx, s, call{route: route.Schedules, query: route.ScheduleQuery(f)})
}

// Schedule calls [admin.Service.Schedule] on the server.
func (s *Service) Schedule(ctx context.Context, name string) (admin.Schedule, error) {
	return get[admin.Schedule](ctx, s, call{route: route.Schedule, path: []string{name}})
}

// PutSchedule calls [admin.Service.PutSchedule] on the server.
func (s *Service) PutSchedule(ctx context.Context, n admin.NewSchedule) (admin.ScheduleActed, error) {
	return get[admin.ScheduleActed](ctx, s, call{route: route.PutSchedule, body: n})
}

// ActOnSchedule calls [admin.Service.ActOnSchedule] on the server.
func (s *Service) ActOnSchedule(ctx context.Context, name string, a admin.ScheduleAction) (admin.ScheduleActed, error) {
	return get[admin.ScheduleActed](ctx, s, call{route: route.ActOnSchedule, path: []string{name, a.Verb}, body: route.BodyOf(&a), key: a.Key})
}

// Catalog calls [admin.Service.Catalog] on the server.
func (s *Service) Catalog(ctx context.Context, f admin.CatalogFilter) (admin.CatalogPage, error) {
	return get[admin.CatalogPage](ctx, s, call{route: route.Catalog, query: route.CatalogQuery(f)})
}

// Pools calls [admin.Service.Pools] on the server.
func (s *Service) Pools(ctx context.Context, f admin.PoolFilter) (admin.PoolPage, error) {
	return get[admin.PoolPage](ctx, s, call{route: route.Pools, query: route.PoolQuery(f)})
}

// ActOnPool calls [admin.Service.ActOnPool] on the server.
func (s *Service) ActOnPool(ctx context.Context, name string, a admin.PoolAction) (admin.PoolActed, error) {
	return get[admin.PoolActed](ctx, s, call{route: route.ActOnPool, path: []string{name, a.Verb}, body: route.PoolBodyOf(&a)})
}

// Preview calls [admin.Service.Preview] on the server.
func (s *Service) Preview(ctx context.Context, r admin.BulkRequest) (admin.BulkPreview, error) {
	return get[admin.BulkPreview](ctx, s, call{route: route.Preview, body: r})
}

// StartBulk calls [admin.Service.StartBulk] on the server. The server determines the principal.
func (s *Service) StartBulk(ctx context.Context, b admin.NewBulk) (admin.Bulk, error) {
	b.By = nil
	return get[admin.Bulk](ctx, s, call{route: route.StartBulk, body: b, key: b.Key})
}

// Bulk calls [admin.Service.Bulk] on the server.
func (s *Service) Bulk(ctx context.Context, id string) (admin.Bulk, error) {
	return get[admin.Bulk](ctx, s, call{route: route.Bulk, path: []string{id}})
}

// Bulks calls [admin.Service.Bulks] on the server.
func (s *Service) Bulks(ctx context.Context, f admin.BulkFilter) (admin.BulkPage, error) {
	return get[admin.BulkPage](ctx, s, call{route: route.Bulks, query: route.BulkQuery(f)})
}

// StopBulk calls [admin.Service.StopBulk] on the server.
func (s *Service) StopBulk(ctx context.Context, id string, why admin.Because) (admin.Bulk, error) {
	return get[admin.Bulk](ctx, s, call{route: route.StopBulk, path: []string{id}, body: why})
}

// Examine calls [admin.Service.Examine] on the server.
func (s *Service) Examine(ctx context.Context) (admin.Exam, error) {
	return get[admin.Exam](ctx, s, call{route: route.Examine})
}

// Check calls [admin.Service.Check] on the server.
func (s *Service) Check(ctx context.Context) (admin.Checked, error) {
	return get[admin.Checked](ctx, s, call{route: route.Check})
}

// Repair calls [admin.Service.Repair] on the server.
func (s *Service) Repair(ctx context.Context, why admin.Because) (admin.Checked, error) {
	return get[admin.Checked](ctx, s, call{route: route.Repair, body: why})
}

// Hooks calls [admin.Service.Hooks] on the server.
func (s *Service) Hooks(ctx context.Context, f admin.HookFilter) (admin.HookPage, error) {
	return get[admin.HookPage](ctx, s, call{route: route.Hooks, query: route.HookQuery(f)})
}

// Hook calls [admin.Service.Hook] on the server.
func (s *Service) Hook(ctx context.Context, token string) (admin.Hook, error) {
	return get[admin.Hook](ctx, s, call{route: route.Hook, path: []string{token}})
}

// ResumeHook calls [admin.Service.ResumeHook] on the server.
func (s *Service) ResumeHook(ctx context.Context, token string, m admin.Message) (admin.Sent, error) {
	return get[admin.Sent](ctx, s, call{route: route.ResumeHook, path: []string{token}, body: m, key: m.Key})
}

// Views calls [admin.Service.Views] on the server.
func (s *Service) Views(ctx context.Context) (admin.ViewList, error) {
	return get[admin.ViewList](ctx, s, call{route: route.Views})
}

// SaveView calls [admin.Service.SaveView] on the server.
func (s *Service) SaveView(ctx context.Context, name string, v admin.NewView) (admin.ViewActed, error) {
	return get[admin.ViewActed](ctx, s, call{route: route.SaveView, path: []string{name}, body: v})
}

// DeleteView calls [admin.Service.DeleteView] on the server.
func (s *Service) DeleteView(ctx context.Context, name string, why admin.Because) (admin.ViewActed, error) {
	return get[admin.ViewActed](ctx, s, call{route: route.DeleteView, path: []string{name}, body: why})
}

// Export calls [admin.Service.Export] on the server. It verifies the data, because a proxy may end
// a truncated response as if it were complete.
func (s *Service) Export(ctx context.Context, r admin.ExportRequest, w io.Writer) (admin.ExportCount, error) {
	r.Runs = slices.Clone(r.Runs)
	for i, ref := range r.Runs {
		if utf8.ValidString(ref) {
			continue
		}
		run, err := s.Run(ctx, ref) // a workflow ID may contain any bytes, which a URL can represent but JSON cannot
		if err != nil {
			return admin.ExportCount{}, err
		}
		r.Runs[i] = run.ID
	}
	answer, err := s.send(ctx, call{route: route.Export, body: r})
	if err != nil {
		return admin.ExportCount{}, err
	}
	defer answer.Body.Close()
	return admin.CopyExport(w, answer.Body, r)
}

// patience is the time limit of a request that waits for a result. When the time has passed, the
// client sends another request.
const patience = 30 * time.Second

// Wait calls [admin.Service.Wait] on the server.
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
		ref = r.ID // the workflow ID may refer to another run in the next request
	}
}

// Ask calls [admin.Service.Ask] on the server. It generates an idempotency key if there is none, so
// that it can repeat the request and wait longer than one request lasts.
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
