// Package promtest starts Prometheus servers for tests.
package promtest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/flowgen/flowgen/internal/testutil/install"
)

// patience is the maximum duration of a wait. It suffices on a busy machine.
const patience = time.Minute

var find = sync.OnceValues(func() (string, error) {
	return install.Program("prometheus", map[string]string{
		"apt-get": "prometheus", "dnf": "golang-github-prometheus", "apk": "prometheus", "pacman": "prometheus", "brew": "prometheus",
	})
})

// Server is a Prometheus server.
type Server struct {
	URL string
	t   testing.TB
}

// Start starts a server that scrapes the given addresses every 200 ms. It installs Prometheus if it
// is missing, and fails the test if that is not possible.
func Start(t testing.TB, targets ...string) *Server {
	t.Helper()
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 200ms, scrape_timeout: 200ms}\nscrape_configs: [{job_name: flowgen, static_configs: [{targets: [%s]}]}]\n", strings.Join(targets, ", "))
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &Server{t: t}
	var output bytes.Buffer
	cmd := exec.Command(path, "--config.file="+filepath.Join(dir, "prometheus.yml"), "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+s.free(), "--enable-feature=exemplar-storage")
	cmd.Stderr = &output
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("prometheus: %s", &output)
		}
	})
	s.Eventually("prometheus is ready", func() bool {
		answer, err := http.Get(s.URL + "/-/ready")
		if err != nil {
			return false
		}
		_ = answer.Body.Close()
		return answer.StatusCode == http.StatusOK
	})
	return s
}

// free sets the URL of the server to a free address, and returns the address.
func (s *Server) free() string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		s.t.Fatal(err)
	}
	defer l.Close()
	s.URL = "http://" + l.Addr().String()
	return l.Addr().String()
}

// Tool runs promtool with the given arguments. It returns the output, and whether it succeeded.
func Tool(t testing.TB, args ...string) (output string, ok bool) {
	t.Helper()
	path, err := find()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(filepath.Join(filepath.Dir(path), "promtool"), args...).CombinedOutput()
	return string(out), err == nil
}

// Series is a time series with its last value.
type Series struct {
	Labels map[string]string
	Value  float64
}

// Query evaluates an expression now. It fails the test if the expression is not valid.
func (s *Server) Query(expr string) []Series {
	s.t.Helper()
	var answer struct {
		Data struct {
			ResultType string
			Result     json.RawMessage
		}
	}
	s.get("/api/v1/query?query="+url.QueryEscape(expr), &answer)
	if answer.Data.ResultType != "vector" {
		return nil
	}
	var rows []struct {
		Metric map[string]string
		Value  [2]any
	}
	if err := json.Unmarshal(answer.Data.Result, &rows); err != nil {
		s.t.Fatal(err)
	}
	var all []Series
	for _, row := range rows {
		v, err := strconv.ParseFloat(fmt.Sprint(row.Value[1]), 64)
		if err != nil {
			s.t.Fatal(err)
		}
		all = append(all, Series{row.Metric, v})
	}
	return all
}

// Sum returns the sum of the series that match an expression.
func (s *Server) Sum(expr string) (sum float64) {
	s.t.Helper()
	for _, one := range s.Query(expr) {
		sum += one.Value
	}
	return sum
}

// Await waits until the sum of the series that match an expression has a value.
func (s *Server) Await(expr string, want float64) {
	s.t.Helper()
	got := 0.0
	defer func() {
		if got != want {
			s.t.Errorf("%s is %v, want %v", expr, got, want)
		}
	}()
	s.Eventually(expr, func() bool {
		got = s.Sum(expr)
		return got == want && len(s.Query(expr)) > 0
	})
}

// Exemplars returns the trace IDs of the exemplars of the series that match an expression.
func (s *Server) Exemplars(expr string) (traces []string) {
	s.t.Helper()
	var answer struct {
		Data []struct {
			Exemplars []struct{ Labels map[string]string }
		}
	}
	now := time.Now()
	s.get(fmt.Sprintf("/api/v1/query_exemplars?query=%s&start=%d&end=%d", url.QueryEscape(expr), now.Add(-time.Hour).Unix(), now.Add(time.Hour).Unix()), &answer)
	for _, series := range answer.Data {
		for _, e := range series.Exemplars {
			traces = append(traces, e.Labels["trace_id"])
		}
	}
	return traces
}

func (s *Server) get(path string, answer any) {
	s.t.Helper()
	got, err := http.Get(s.URL + path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer got.Body.Close()
	var body bytes.Buffer
	if _, err := body.ReadFrom(got.Body); err != nil {
		s.t.Fatal(err)
	}
	if got.StatusCode != http.StatusOK {
		s.t.Fatalf("%s: %s: %s", path, got.Status, &body)
	}
	if err := json.Unmarshal(body.Bytes(), answer); err != nil {
		s.t.Fatalf("%s: %v: %s", path, err, &body)
	}
}

// Eventually waits until cond holds. It fails the test if that takes too long.
func (s *Server) Eventually(what string, cond func() bool) {
	s.t.Helper()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(patience); !cond(); <-tick.C {
		if time.Now().After(deadline) {
			s.t.Fatalf("not within %v: %s", patience, what)
		}
	}
}
