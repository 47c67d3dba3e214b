package remote

import (
	"context"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Export is [admin.Service.Export] of the server. What comes is checked on its way, for a proxy may end an answer as if it were whole.
func (s *Service) Export(ctx context.Context, r admin.ExportRequest, w io.Writer) (admin.ExportCount, error) {
	r.Runs = slices.Clone(r.Runs)
	for i, ref := range r.Runs {
		if utf8.ValidString(ref) {
			continue
		}
		run, err := s.Run(ctx, ref) // a workflow id may be any bytes, for which an address has room, and JSON has none
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
	return admin.CopyExport(w, answer.Body, r.Told)
}
