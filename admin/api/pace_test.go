package api_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin/api"
)

// pieces is a response recorder that records each write.
type pieces struct {
	*httptest.ResponseRecorder
	all []string
}

// Write implements http.ResponseWriter.
func (p *pieces) Write(b []byte) (int, error) { return p.WriteString(string(b)) }

// WriteString implements io.StringWriter.
func (p *pieces) WriteString(text string) (int, error) {
	p.all = append(p.all, text)
	return p.ResponseRecorder.WriteString(text)
}

// TestOPS3_SSESendsNoMoreAtOnceThanItWasAskedFor proves that a batch does not exceed the requested
// size, even if all events of an ended run are available immediately and the requested delay is one
// second.
func TestOPS3_SSESendsNoMoreAtOnceThanItWasAskedFor(t *testing.T) {
	s := serve(t, api.Config{})
	for range 30 {
		s.send("item")
	}
	s.send("stop")
	if _, err := s.direct.Wait(t.Context(), s.run, time.Minute); err != nil {
		t.Fatal(err)
	}
	r, err := s.direct.Run(t.Context(), s.run)
	if err != nil || r.Events < 30 {
		t.Fatalf("got %+v, %v", r, err)
	}
	h := api.New(s.direct, api.Config{AllowUnauthenticated: true})
	for query, most := range map[string]int{"batch=7&delay=1s": 7, "batch=1&delay=1s": 1, "batch=1000&delay=0s": 1} {
		w := &pieces{ResponseRecorder: httptest.NewRecorder()}
		h.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/v1/runs/"+s.run+"/follow?"+query, nil))
		sent := 0
		for _, piece := range w.all {
			n := strings.Count(piece, "event: event\n")
			if sent += n; n > most {
				t.Errorf("%s: %d events were sent at once, want up to %d", query, n, most)
			}
		}
		if uint64(sent) != r.Events {
			t.Errorf("%s: %d events were sent, want %d", query, sent, r.Events)
		}
	}
}
