package api

import (
	"net/http"
	"time"

	"github.com/flowgen/flowgen/admin"
)

// export sends a file as it is written. Once a part of it was sent a problem can only cut off the answer: then the reader sees
// that the connection was broken, and that the last line is missing.
func export(q *request) error {
	var asked admin.ExportRequest
	if err := q.read(&asked); err != nil {
		return err
	}
	asked.Source = "server"
	to := &sender{q: q}
	_, err := q.service.Export(q.ctx(), asked, to)
	if err != nil && to.sent {
		panic(http.ErrAbortHandler)
	}
	return err
}

// sender writes an answer to a reader as long as it reads.
type sender struct {
	q    *request
	sent bool
}

func (s *sender) Write(p []byte) (int, error) {
	if !s.sent {
		s.q.w.Header().Set("Content-Type", s.q.route.Kind)
		s.sent = true
	}
	_ = http.NewResponseController(s.q.w).SetWriteDeadline(time.Now().Add(writeTime)) // a recorder of a test has none
	return s.q.w.Write(p)
}
