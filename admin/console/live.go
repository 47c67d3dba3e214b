package console

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/flowgen/flowgen/admin"
	"github.com/flowgen/flowgen/admin/httpauth"
)

// Intervals in which open pages are drawn.
const (
	listEvery   = time.Second            // for lists, about whose changes the store sends no notifications
	logsEvery   = 5 * time.Second        // for hooks and alerts, which are read from the logs of all runs on the page
	runEvery    = 3 * time.Second        // for runs, because data outside of the log may change, for example that the run is blocked
	runCoalesce = 100 * time.Millisecond // for runs: minimum interval between drawings, however many events arrive
	keepAlive   = 15 * time.Second
	sendWithin  = 10 * time.Second
	maxReaders  = 1000 // maximum number of connections of a principal
)

// live sends a page to its readers after its contents have changed. All readers that view the same
// page as the same principal share a feed. Therefore the store is read once for all of them, and is
// not read if there are no readers.
type live struct {
	h *Handler

	mu      sync.Mutex
	feeds   map[feedKey]*feed
	readers map[string]int // number of readers by name of the principal
}

type feedKey struct {
	who  admin.Principal
	page string
}

// feed draws one page for its readers.
type feed struct {
	key     feedKey
	readers map[chan []byte]bool
	last    []byte
	stop    context.CancelFunc
}

func newLive(h *Handler) *live {
	return &live{h: h, feeds: map[feedKey]*feed{}, readers: map[string]int{}}
}

// serve sends the changing part of a page as server-sent events. It sends the first event
// immediately, and another event after each change.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	key := feedKey{principalOf(r.Context()), r.URL.Query().Get("page")}
	news, leave := l.join(key)
	if news == nil {
		http.Error(w, "the limit of open pages of a principal is reached", http.StatusTooManyRequests)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // keeps proxies from buffering the events
	to := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = to.SetWriteDeadline(time.Now().Add(sendWithin)) // response recorders in tests do not support deadlines
		if _, err := w.Write(text); err != nil {
			return false
		}
		return to.Flush() == nil
	}
	alive := time.NewTicker(keepAlive)
	defer alive.Stop()
	again := time.NewTicker(l.h.cfg.Recheck)
	defer again.Stop()
	for ok := send([]byte(": the page\n\n")); ok; {
		select {
		case <-r.Context().Done():
			return
		case <-again.C:
			ok = httpauth.Still(l.h.identifier, r, key.who) == nil // if the login has expired, the connection ends, and the browser reconnects and is refused
		case <-alive.C:
			ok = send([]byte(": alive\n\n"))
		case text := <-news:
			ok = send(text)
		}
	}
}

// join subscribes a reader to a page. It returns a channel that contains the newest drawing that
// the reader has not received. It returns a nil channel if the principal has too many readers.
func (l *live) join(key feedKey) (news chan []byte, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers[key.who.Name] >= maxReaders {
		return nil, nil
	}
	l.readers[key.who.Name]++
	f := l.feeds[key]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background()) // not derived from the context of the first reader, which may leave before the others
		f = &feed{key: key, readers: map[chan []byte]bool{}, stop: stop}
		l.feeds[key] = f
		go l.feed(ctx, f)
	}
	news = make(chan []byte, 1)
	f.readers[news] = true
	if f.last != nil {
		news <- f.last
	}
	return news, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.readers[key.who.Name]--; l.readers[key.who.Name] == 0 {
			delete(l.readers, key.who.Name)
		}
		if delete(f.readers, news); len(f.readers) == 0 {
			f.stop()
			delete(l.feeds, key)
		}
	}
}

// feed draws a page while it has readers.
func (l *live) feed(ctx context.Context, f *feed) {
	var drawn []byte // last drawing without its times, which scripts update
	run := runOfPage(f.key.page)
	events := l.events(ctx, f.key.who, run)
	every := listEvery
	switch {
	case run != "":
		every = runEvery
	case strings.HasPrefix(f.key.page, "/inbox"), strings.HasPrefix(f.key.page, "/alerts"):
		every = logsEvery
	}
	for ctx.Err() == nil {
		began := time.Now()
		text := l.draw(ctx, f.key)
		if still := withoutTimes(text); !bytes.Equal(still, drawn) {
			drawn = still
			l.publish(f, event(text))
		}
		select {
		case <-ctx.Done():
		case <-time.After(max(every, 10*time.Since(began))): // the interval increases with the cost of the page
		case _, more := <-events:
			if !more {
				events = nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(runCoalesce - time.Since(began)): // the first event after a pause is shown without delay
			}
		}
	}
}

// publish sends a drawing to all readers. It replaces a drawing that a reader has not received yet.
func (l *live) publish(f *feed, text []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.last = text
	for news := range f.readers {
		select {
		case <-news:
		default:
		}
		news <- text
	}
}

// events returns a channel that receives a value if a run has new events. It returns nil for a page
// that does not show a run. The channel is closed after the last event.
func (l *live) events(ctx context.Context, who admin.Principal, run string) <-chan struct{} {
	if run == "" {
		return nil
	}
	came := make(chan struct{}, 1)
	go func() {
		defer close(came)
		s := l.h.service(who)
		r, err := s.Run(ctx, run)
		if err != nil {
			return
		}
		for _, err := range s.Follow(ctx, r.ID, admin.EventFilter{From: r.Events + 1}) {
			if err != nil {
				return
			}
			select {
			case came <- struct{}{}:
			default:
			}
		}
	}()
	return came
}

// draw draws the changing part of a page.
func (l *live) draw(ctx context.Context, key feedKey) []byte {
	u, err := url.ParseRequestURI(key.page)
	if err != nil || u.Path == "/live" { // the stream of updates never ends, so it cannot be drawn
		u = &url.URL{Path: "/nowhere"}
	}
	r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}, Body: http.NoBody}).WithContext(onlyMain(withPrincipal(ctx, key.who)))
	var page memory
	l.h.mux.ServeHTTP(&page, r)
	return page.Bytes()
}

// memory is an http.ResponseWriter that keeps the response in memory.
type memory struct {
	bytes.Buffer
	header http.Header
}

// Header implements http.ResponseWriter.
func (m *memory) Header() http.Header {
	if m.header == nil {
		m.header = http.Header{}
	}
	return m.header
}

// WriteHeader implements http.ResponseWriter.
func (m *memory) WriteHeader(int) {}

// runOfPage returns the run that a page shows. It returns the empty string if the page does not
// show a run.
func runOfPage(page string) string {
	rest, ok := strings.CutPrefix(page, "/runs/")
	if !ok {
		return ""
	}
	end := strings.IndexAny(rest, "/?")
	if end >= 0 {
		rest = rest[:end]
	}
	id, _ := url.PathUnescape(rest)
	return id
}

// withoutTimes removes everything between <time …> and </time>, because these contents change with
// the clock.
func withoutTimes(text []byte) []byte {
	var b bytes.Buffer
	for {
		at := bytes.Index(text, []byte("<time"))
		if at < 0 {
			break
		}
		end := bytes.IndexByte(text[at:], '>')
		to := bytes.Index(text[at:], []byte("</time>"))
		if end < 0 || to < end {
			break
		}
		b.Write(text[:at+end+1])
		text = text[at+to:]
	}
	b.Write(text)
	return b.Bytes()
}

// event formats a text as a server-sent event.
func event(text []byte) []byte {
	var b bytes.Buffer
	b.WriteString("event: page\n")
	for line := range bytes.Lines(text) {
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	b.WriteByte('\n')
	return b.Bytes()
}
