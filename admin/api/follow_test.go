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

	"github.com/google/go-cmp/cmp"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/api"
	"github.com/flowgen/flowgen/admin/remote"
)

// cutter is a transport that truncates responses after a few bytes. Further reads fail, and the
// server loses the connection.
type cutter struct {
	under http.RoundTripper
	after func() int // number of bytes of a response that arrive
	cuts  atomic.Int64
}

func (c *cutter) RoundTrip(r *http.Request) (*http.Response, error) {
	follows := strings.HasSuffix(r.URL.Path, "/follow") || strings.HasSuffix(r.URL.Path, "/live")
	if follows { // the server sends each event without a delay, so that most events arrive before the cut
		r = r.Clone(r.Context())
		q := r.URL.Query()
		q.Set("delay", "0s")
		r.URL.RawQuery = q.Encode()
	}
	answer, err := c.under.RoundTrip(r)
	if err == nil && follows {
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

// cutOff returns a client whose connections are cut at least the given number of times. The cuts
// are within messages and between them.
func (s *server) cutOff(times int64) (*cutter, *remote.Service) {
	s.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	cut := &cutter{under: s.Client().Transport}
	cut.after = func() int {
		if cut.cuts.Load() >= times {
			return math.MaxInt
		}
		return 200 + random.IntN(200) // enough for zero to two events
	}
	service, err := remote.New(s.URL, remote.Config{Client: &http.Client{Transport: cut}})
	if err != nil {
		s.Fatal(err)
	}
	return cut, service
}

// manyCuts is the number of cuts in the tests.
const manyCuts = 1000

// TestOPS3_SSEThatIsCutDeliversEachEventOnceInOrder proves that a reader receives each event once
// and in order, although its connection is cut a thousand times while the run progresses.
func TestOPS3_SSEThatIsCutDeliversEachEventOnceInOrder(t *testing.T) {
	s := serve(t, api.Config{})
	cut, service := s.cutOff(manyCuts)
	for range 50 {
		s.send("item")
	}
	last, ending := uint64(0), false
	for e, err := range service.Follow(t.Context(), s.run, admin.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Seq != last+1 {
			t.Fatalf("event %d follows event %d", e.Seq, last)
		}
		last = e.Seq
		switch cuts := cut.cuts.Load(); {
		case cuts >= manyCuts && !ending:
			ending = true
			s.send("stop")
		case !ending && last%2 == 0: // causes further events, so that connections are cut while data remain
			s.send("item")
		}
	}
	r, err := s.direct.Run(t.Context(), s.run)
	if err != nil || r.Status != "completed" || r.Events != last {
		t.Errorf("got %d events of run %+v, %v", last, r, err)
	}
	if cuts := cut.cuts.Load(); cuts < manyCuts {
		t.Errorf("the reader was cut off %d times, want %d", cuts, manyCuts)
	}
	t.Logf("%d events, cut %d times", last, cut.cuts.Load())
}

// TestRUN6_SSEWithAFilterThatIsCutDeliversEachEventOnceInOrder proves that a reader whose
// connection is cut receives each event that the filter selects once, although the filter omits
// most events.
func TestRUN6_SSEWithAFilterThatIsCutDeliversEachEventOnceInOrder(t *testing.T) {
	s := serve(t, api.Config{})
	cut, service := s.cutOff(100)
	var got []uint64
	ending := false
	s.send("item")
	for e, err := range service.Follow(t.Context(), s.run, admin.EventFilter{Types: []string{"message_received", "run_completed"}}) {
		if err != nil {
			t.Fatal(err)
		}
		switch got = append(got, e.Seq); {
		case cut.cuts.Load() < 100:
			s.send("item")
		case !ending:
			ending = true
			s.send("stop")
		}
	}
	var want []uint64
	for e, err := range s.direct.Follow(t.Context(), s.run, admin.EventFilter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type == "message_received" || e.Type == "run_completed" {
			want = append(want, e.Seq)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) < 50 {
		t.Errorf("%d events (-log +followed):\n%s", len(want), diff)
	}
}

// TestRUN6_SSEThatIsCutDeliversEachChunkOnceInOrder proves that a reader receives each chunk of a
// stream once and in order, although its connection is cut a thousand times.
func TestRUN6_SSEThatIsCutDeliversEachChunkOnceInOrder(t *testing.T) {
	s := serve(t, api.Config{})
	cut, service := s.cutOff(manyCuts)
	sent := 0
	send := func() {
		for range 50 { // causes further chunks, so that connections are cut while data remain
			sent++
			s.send(fmt.Sprintf("%60d", sent))
		}
	}
	send()
	last, ending := uint64(0), false
	for c, err := range service.FollowStream(t.Context(), s.run, "told", 0) {
		if err != nil {
			t.Fatal(err)
		}
		if c.Index != last+1 || string(c.Value) != fmt.Sprintf(`"%60d"`, c.Index) {
			t.Fatalf("chunk %d, %s, follows chunk %d", c.Index, c.Value, last)
		}
		last = c.Index
		switch cuts := cut.cuts.Load(); {
		case cuts >= manyCuts && !ending:
			ending = true
			s.send("stop")
		case !ending && int(last) == sent:
			send()
		}
	}
	page, err := s.direct.Stream(t.Context(), s.run, "told", 0, 1)
	if err != nil || page.Last != last || int(last) != sent || !page.Ended {
		t.Errorf("got %d chunks of %+v, %d were sent, %v", last, page, sent, err)
	}
	if cuts := cut.cuts.Load(); cuts < manyCuts {
		t.Errorf("the reader was cut off %d times, want %d", cuts, manyCuts)
	}
	t.Logf("%d chunks, cut %d times", last, cut.cuts.Load())
}

// message is a server-sent event.
type message struct{ id, event, data string }

// messages returns a function that reads the next message from body. A comment is returned as a
// message whose event is ":".
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
	return s.events("/v1/runs/"+s.run+"/follow"+query, header...)
}

// events opens a stream, and returns a function that reads the next message of the stream.
func (s *server) events(path string, header ...string) func() message {
	s.Helper()
	r, err := http.NewRequestWithContext(s.Context(), http.MethodGet, s.URL+path, nil)
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

// said returns the next message that is not a comment.
func said(next func() message) message {
	for {
		if m := next(); m.event != ":" {
			return m
		}
	}
}

func TestOPS3_SSETellsWhereItIsAndThatItIsAlive(t *testing.T) {
	s := serve(t, api.Config{KeepAlive: 5 * time.Millisecond})
	next := s.follow("")
	if m := next(); m.event != ":" {
		t.Errorf("the stream begins with %+v, want a comment", m)
	}
	first := said(next)
	var e admin.Event
	if err := json.Unmarshal([]byte(first.data), &e); err != nil || first.id != "1" || first.event != "event" || e.Seq != 1 || e.Type != "run_created" {
		t.Errorf("got %+v, %v", first, err)
	}
	for seen := 0; seen < 3; { // an idle stream sends comments to keep the connection alive
		if next().event == ":" {
			seen++
		}
	}
	s.send("stop")
	lastID := ""
	for m := said(next); ; m = said(next) {
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
		if m := said(s.follow(tt.query, tt.header)); m.id != tt.want {
			t.Errorf("%s: got %+v, want event %s", what, m, tt.want)
		}
	}
	if m := said(s.follow("", "Last-Event-ID: "+lastID)); m.event != "end" {
		t.Errorf("after the last one: got %+v, want end", m)
	}
	s.wants("an id that is none", s.ask("GET", "/v1/runs/"+s.run+"/follow", "", "Last-Event-ID: -1"), 400, admin.CodeInput)
	s.wants("a run that is not there", s.ask("GET", "/v1/runs/id:nobody/follow", ""), 404, admin.CodeNotFound)
}

// TestRUN6_SSETellsThatItLags proves that a reader that cannot continue at its position receives
// the position at which the stream continues, and that it continues there after a reconnect.
func TestRUN6_SSETellsThatItLags(t *testing.T) {
	s := serve(t, api.Config{})
	for range 5 {
		s.send("item")
	}
	s.written(5)
	stream := "/v1/runs/" + s.run + "/streams/newest/follow"
	for _, tt := range []struct{ what, path, header, lag, next string }{
		{"a chunk that is not kept", stream + "?from=1", "", `{"wanted":1,"next":4}`, "4"},
		{"after a chunk that is not kept", stream, "Last-Event-ID: 1", `{"wanted":2,"next":4}`, "4"},
		{"after the last that is not kept", stream, "Last-Event-ID: 3", "", "4"},
		{"from the first chunk that is kept", stream, "", "", "4"},
	} {
		next := s.events(tt.path, lines(tt.header)...)
		if tt.lag != "" {
			s.lags(tt.what, said(next), tt.lag)
		}
		if m := said(next); m.event != "event" || m.id != tt.next {
			t.Errorf("%s: got %+v, want chunk %s", tt.what, m, tt.next)
		}
	}
	r, err := s.direct.Run(t.Context(), s.run)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ what, path, header, lag string }{
		{"after an event that was never there", "/v1/runs/" + s.run + "/follow", "Last-Event-ID: 1000", fmt.Sprintf(`{"wanted":1001,"next":%d}`, r.Events+1)},
		{"after a chunk that was never there", stream, "Last-Event-ID: 77", `{"wanted":78,"next":7}`},
	} {
		next := s.events(tt.path, tt.header)
		lag := said(next)
		s.lags(tt.what, lag, tt.lag)
		again := s.events(tt.path, "Last-Event-ID: "+lag.id)
		s.send("more")
		if one, other := said(next), said(again); one.event != "event" || one != other {
			t.Errorf("%s: got %+v, and %+v when asked again", tt.what, one, other)
		}
		s.written(6)
	}
	s.lags("an empty stream", said(s.events("/v1/runs/"+s.run+"/streams/unwritten/follow", "Last-Event-ID: 7")), `{"wanted":8,"next":1}`)
	s.send("stop")
	for c, err := range s.direct.FollowStream(t.Context(), s.run, "told", 0) {
		if err != nil {
			t.Fatal(c, err)
		}
	}
	next := s.events(stream, "Last-Event-ID: 77")
	if lag, end := said(next), said(next); lag.event != "lag" || end.event != "end" {
		t.Errorf("a stream that has ended: got %+v, %+v", lag, end)
	}
}

// written waits until the run has written n chunks.
func (s *server) written(n uint64) {
	s.Helper()
	for c, err := range s.direct.FollowStream(s.Context(), s.run, "told", n) {
		if err != nil || c.Index != n {
			s.Fatal(c, err)
		}
		break
	}
}

func lines(header string) []string {
	if header == "" {
		return nil
	}
	return []string{header}
}

// lags reports a test error unless m is the wanted message of kind lag.
func (s *server) lags(what string, m message, want string) {
	s.Helper()
	var lag admin.Lag
	if err := json.Unmarshal([]byte(m.data), &lag); err != nil || m.event != "lag" || m.data != want || m.id != fmt.Sprint(lag.Next-1) {
		s.Errorf("%s: got %+v, want the lag %s: %v", what, m, want, err)
	}
}
