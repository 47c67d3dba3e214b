package api_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
)

// cutter cuts the answers that it carries after a few bytes: the next reads of it fail, and the
// server loses the connection.
type cutter struct {
	under http.RoundTripper
	after func() int // bytes of an answer that arrive
	cuts  atomic.Int64
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.under.RoundTrip(r)
	if err == nil && strings.HasSuffix(r.URL.Path, "/follow") {
		answer.Body = &cutBody{answer.Body, c, c.after()}
	}
	return answer, err
}

type cutBody struct {
	io.ReadCloser
	c    *cutter
	left int
}

var errCut = errors.New("the connection was cut")

func (b *cutBody) Read(p []byte) (int, error) {
	if b.left <= 0 {
		b.c.cuts.Add(1)
		return 0, errors.Join(errCut, b.Close())
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left)])
	b.left -= n
	return n, err
}

// A reader is cut off a thousand times, in the middle of events and between them, while the run goes on.
func TestOPS3_SSEThatIsCutDeliversEachEventOnceInOrder(t *testing.T) {
	const want = 1000
	s := serve(t, api.Config{})
	random := rand.New(rand.NewPCG(1, 2))
	cut := &cutter{under: s.Client().Transport}
	cut.after = func() int {
		if cut.cuts.Load() >= want {
			return math.MaxInt
		}
		return 200 + random.IntN(200) // one event or two, or none
	}
	service, err := remote.New(s.URL, remote.Config{Client: &http.Client{Transport: cut}})
	if err != nil {
		t.Fatal(err)
	}
	for range 50 {
		s.send("item")
	}
	last, ending := uint64(0), false
	for e, err := range service.Follow(t.Context(), s.run, 1) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Fatalf("event %d follows event %d", e.Seq, last)
		}
		last = e.Seq
		switch cuts := cut.cuts.Load(); {
		case cuts >= want && !ending:
			ending = true
			s.send("stop")
		case !ending && last%2 == 0: // so that there is something to cut
			s.send("item")
		}
	}
	r, err := s.direct.Run(t.Context(), s.run)
	if err != nil || r.Status != "completed" || r.Events != last {
		t.Errorf("got %d events of run %+v, %v", last, r, err)
	}
	if cuts := cut.cuts.Load(); cuts < want {
		t.Errorf("the reader was cut off %d times, want %d", cuts, want)
	}
	t.Logf("%d events, cut %d times", last, cut.cuts.Load())
}

// message is one of a stream.
type message struct{ id, event, data string }

// messages reads what a stream sends; each comment has the event ":".
func (s *server) messages(body io.Reader) func() message {
	lines := bufio.NewReader(body)
	return func() message {
		s.Helper()
		var m message
		for {
			line, err := lines.ReadString('\n')
			if err != nil {
				s.Fatalf("the stream has ended: %v", err)
			}
			line = strings.TrimSuffix(line, "\n")
			name, value, _ := strings.Cut(line, ": ")
			switch {
			case line == "":
				return m
			case name == "":
				m.event = ":"
			case name == "id":
				m.id = value
			case name == "event":
				m.event = value
			case name == "data":
				m.data = value
			default:
				s.Fatalf("the line %q is of no event stream", line)
			}
		}
	}
}

func (s *server) follow(query string, header ...string) func() message {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.URL+"/v1/runs/"+s.run+"/follow"+query, nil)
	if err != nil {
		s.Fatal(err)
	}
	for _, line := range header {
		if name, value, ok := strings.Cut(line, ": "); ok {
			r.Header.Set(name, value)
		}
	}
	answer, err := s.Client().Do(r)
	if err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() { _ = answer.Body.Close() })
	if answer.StatusCode != http.StatusOK || answer.Header.Get("Content-Type") != "text/event-stream" {
		s.Fatalf("got %d %v", answer.StatusCode, answer.Header)
	}
	return s.messages(answer.Body)
}

func TestOPS3_SSETellsWhereItIsAndThatItIsAlive(t *testing.T) {
	s := serve(t, api.Config{KeepAlive: 5 * time.Millisecond})
	next := s.follow("")
	event := func(next func() message) message {
		for {
			if m := next(); m.event != ":" {
				return m
			}
		}
	}
	if m := next(); m.event != ":" {
		t.Errorf("the stream begins with %+v, want a comment", m)
	}
	first := event(next)
	var e admin.Event
	if err := json.Unmarshal([]byte(first.data), &e); err != nil || first.id != "1" || first.event != "event" || e.Seq != 1 || e.Type != "run_created" {
		t.Errorf("got %+v, %v", first, err)
	}
	for seen := 0; seen < 3; { // nothing happens, and the stream says so
		if next().event == ":" {
			seen++
		}
	}
	s.send("stop")
	lastID := ""
	for m := event(next); ; m = event(next) {
		if m.event == "end" {
			if m.id != "" || m.data != "{}" {
				t.Errorf("got %+v", m)
			}
			break
		}
		lastID = m.id
	}
	r, err := s.direct.Run(t.Context(), s.run)
	if err != nil || lastID != fmt.Sprint(r.Events) {
		t.Errorf("the last event is %s, want %d: %v", lastID, r.Events, err)
	}
	for what, tt := range map[string]struct {
		query, header, want string
	}{
		"from":                         {"?from=2", "", "2"},
		"the last one that it has got": {"", "Last-Event-ID: 2", "3"},
		"both, as EventSource says":    {"?from=1", "Last-Event-ID: 2", "3"},
	} {
		if m := event(s.follow(tt.query, tt.header)); m.id != tt.want {
			t.Errorf("%s: got %+v, want event %s", what, m, tt.want)
		}
	}
	if m := event(s.follow("", "Last-Event-ID: "+lastID)); m.event != "end" {
		t.Errorf("after the last one: got %+v, want end", m)
	}
	s.wants("an id behind the end", s.ask("GET", "/v1/runs/"+s.run+"/follow", "", "Last-Event-ID: 100000"), 400, admin.CodeInput)
	s.wants("an id that is none", s.ask("GET", "/v1/runs/"+s.run+"/follow", "", "Last-Event-ID: -1"), 400, admin.CodeInput)
	s.wants("a run that is not there", s.ask("GET", "/v1/runs/id:nobody/follow", ""), 404, admin.CodeNotFound)
}
