package remote

import (
	"context"
	"io"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/internal/route"
)

// Export is part of admin.Service. What comes is checked on its way, for a proxy may end an answer as if it were whole.
func (s *Service) Export(ctx context.Context, r admin.ExportRequest, w io.Writer) (admin.ExportCount, error) {
	answer, err := s.send(ctx, call{route: route.Export, query: route.ExportQuery(r)})
	if err != nil {
		return admin.ExportCount{}, err
	}
	defer answer.Body.Close()
	return admin.CopyExport(w, answer.Body, r.Told)
}
