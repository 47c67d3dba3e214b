package api_test

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
	"github.com/flowgen/flowgen/runtime/event"
)

// client returns a client that calls a handler over a network connection.
func client(t *testing.T, h http.Handler) *remote.Service {
	t.Helper()
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	s, err := remote.New(server.URL, remote.Config{Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestOPS1_AnExportThatIsCutOffIsNoticed(t *testing.T) {
	s := serve(t, api.Config{})
	input := admin.Payload(`"` + strings.Repeat("x", 64<<10) + `"`) // larger than the buffers of a connection
	large, err := s.direct.Start(t.Context(), admin.Start{Workflow: "api.nobody", Input: input})
	if err != nil {
		t.Fatal(err)
	}
	request := admin.ExportRequest{Runs: []string{large.Run}}
	var whole bytes.Buffer
	n, err := client(t, api.New(s.direct, api.Config{})).Export(t.Context(), request, &whole)
	if err != nil || n.Runs != 1 {
		t.Fatalf("the whole export: %+v, %v", n, err)
	}
	start := func(in admin.Start) string {
		t.Helper()
		got, err := s.direct.Start(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return got.Run
	}
	small, broken := start(admin.Start{Workflow: "api.nobody"}), start(admin.Start{Workflow: "api.nobody"})
	s.store.broken.Store(event.RunID(broken))
	for _, runs := range [][]string{{large.Run, broken}, {small, large.Run, broken}} { // the response has begun before the error occurs, so the server cannot return a problem
		var part bytes.Buffer
		_, err := client(t, api.New(s.direct, api.Config{})).Export(t.Context(), admin.ExportRequest{Runs: runs}, &part)
		if !errors.Is(err, io.ErrUnexpectedEOF) || part.Len() == 0 {
			t.Errorf("cut off after %d runs: got %v and %d bytes, want an unexpected end", len(runs)-1, err, part.Len())
		}
	}
	for _, runs := range [][]string{{broken}, {small, broken}} { // the error occurs before the response has begun
		var part bytes.Buffer
		_, err := client(t, api.New(s.direct, api.Config{})).Export(t.Context(), admin.ExportRequest{Runs: runs}, &part)
		p := admin.ProblemOf(err)
		if p == nil || p.Status != http.StatusServiceUnavailable && p.Status != http.StatusInternalServerError || !strings.Contains(p.Detail, "the store is gone") || part.Len() > 0 {
			t.Errorf("an export of %d runs that fails before it is sent: got %+v and %d bytes", len(runs), p, part.Len())
		}
	}
	for _, after := range []int{0, 1, whole.Len() / 2, whole.Len() - 1} { // the response is truncated as by a proxy that ends it as if it were complete
		proxy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(whole.Bytes()[:after]) })
		_, err := client(t, proxy).Export(t.Context(), request, io.Discard)
		if p := admin.ProblemOf(err); p == nil || p.Code != admin.CodeFailed || !strings.Contains(p.Detail, "cut off or damaged") {
			t.Errorf("a proxy that ends it after %d bytes: got %v", after, err)
		}
	}
	changed := bytes.Replace(whole.Bytes(), []byte(`"frame"`), []byte(`"frane"`), 1)
	proxy := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(changed) })
	if _, err := client(t, proxy).Export(t.Context(), request, io.Discard); err == nil {
		t.Error("a proxy that changes it is not noticed")
	}
	full := errors.New("the disk is full")
	if _, err := client(t, api.New(s.direct, api.Config{})).Export(t.Context(), request, refusing{full}); !errors.Is(err, full) {
		t.Errorf("a disk that is full: got %v", err)
	}
}

// TestOPS1_AnExportNamesAsManyRunsAsOneLikes proves that a request for an export can name more runs
// than fit into the headers of a request, because the names are in the body.
func TestOPS1_AnExportNamesAsManyRunsAsOneLikes(t *testing.T) {
	s := serve(t, api.Config{})
	names := make([]string, 5000)
	for i := range names {
		got, err := s.direct.Start(t.Context(), admin.Start{Workflow: "api.nobody"})
		if err != nil {
			t.Fatal(err)
		}
		names[i] = got.Run
	}
	server := httptest.NewUnstartedServer(api.New(s.direct, api.Config{}))
	server.Config.MaxHeaderBytes = 64 << 10 // the value that flowctl serve uses
	server.Start()
	defer server.Close()
	over, err := remote.New(server.URL, remote.Config{Client: server.Client()})
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{1, 1900, len(names)} {
		var file bytes.Buffer
		got, err := over.Export(t.Context(), admin.ExportRequest{Runs: names[:n]}, &file)
		if err != nil || got.Runs != n {
			t.Fatalf("%d runs: got %+v, %v", n, got, err)
		}
		checked, err := admin.CopyExport(io.Discard, &file, admin.ExportRequest{})
		if err != nil || checked != got {
			t.Errorf("%d runs: the file has %+v, %v, want %+v", n, checked, err, got)
		}
	}
}

// refusing is a writer whose writes fail.
type refusing struct{ err error }

func (r refusing) Write([]byte) (int, error) { return 0, r.err }
