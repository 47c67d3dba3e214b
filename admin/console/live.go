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

// How often pages are drawn again while somebody looks at them.
const (
	listEvery   = time.Second            // lists: asking is all there is
	hooksEvery  = 5 * time.Second        // hooks: they are in the logs of the runs of a page, which are many to look at
	runEvery    = 3 * time.Second        // runs: what stands beside the log, such as that it is blocked
	runCoalesce = 100 * time.Millisecond // runs: from one drawing to the next, however many events come
	keepAlive   = 15 * time.Second
	sendWithin  = 10 * time.Second
	maxReaders  = 1000 // of a principal
)

// live sends pages again when what they show has changed. All that look at the same page, as the same
// principal, are one feed: the store is asked once for all of them, and is not asked when nobody looks.
type live struct {
	h *Handler

	mu      sync.Mutex
	feeds   map[feedKey]*feed
	readers map[string]int // by the name of the principal
}

type feedKey struct {
	who  admin.Principal
	page string
}

// feed is one page.
type feed struct {
	key     feedKey
	readers map[chan []byte]bool
	last    []byte
	stop    context.CancelFunc
}

func newLive(h *Handler) *live {
	return &live{h: h, feeds: map[feedKey]*feed{}, readers: map[string]int{}}
}

// serve sends the part of a page that changes, each time that it has, as server-sent events.
func (l *live) serve(w http.ResponseWriter, r *http.Request) {
	key := feedKey{principalOf(r.Context()), r.URL.Query().Get("page")}
	news, leave := l.join(key)
	if news == nil {
		http.Error(w, "more pages are open than one principal may look at", http.StatusTooManyRequests)
		return
	}
	defer leave()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // proxies pass each event on
	to := http.NewResponseController(w)
	send := func(text []byte) bool {
		_ = to.SetWriteDeadline(time.Now().Add(sendWithin)) // a recorder of a test has none
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
			ok = httpauth.Still(l.h.identifier, r, key.who) == nil // else the browser asks again, and is refused
		case <-alive.C:
			ok = send([]byte(": alive\n\n"))
		case text := <-news:
			ok = send(text)
		}
	}
}

// join returns what is sent to a reader of a page, of which only the newest is kept; nil: it is one too many.
func (l *live) join(key feedKey) (news chan []byte, leave func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.readers[key.who.Name] >= maxReaders {
		return nil, nil
	}
	l.readers[key.who.Name]++
	f := l.feeds[key]
	if f == nil {
		ctx, stop := context.WithCancel(context.Background()) // it outlives the reader that has come first
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
	var drawn []byte // without the times in it, which browsers go on with
	run := runOfPage(f.key.page)
	events := l.events(ctx, f.key.who, run)
	every := listEvery
	switch {
	case run != "":
		every = runEvery
	case strings.HasPrefix(f.key.page, "/inbox"):
		every = hooksEvery
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
		case <-time.After(max(every, 10*time.Since(began))): // what costs much is asked less often
		case _, more := <-events:
			if !more {
				events = nil
			}
			select {
			case <-ctx.Done():
			case <-time.After(runCoalesce - time.Since(began)): // an event that comes alone is shown at once
			}
		}
	}
}

// publish sends to all readers. One that has not taken what came before gets only this.
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

// events says that a run has got events; nil: it is about no run. It is closed when there will be no more.
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

// draw draws the part of a page that changes.
func (l *live) draw(ctx context.Context, key feedKey) []byte {
	u, err := url.ParseRequestURI(key.page)
	if err != nil || u.Path == "/live" { // which has no end
		u = &url.URL{Path: "/nowhere"}
	}
	r := (&http.Request{Method: http.MethodGet, URL: u, Header: http.Header{}, Body: http.NoBody}).WithContext(onlyMain(withPrincipal(ctx, key.who)))
	var page memory
	l.h.mux.ServeHTTP(&page, r)
	return page.Bytes()
}

// memory takes an answer.
type memory struct {
	bytes.Buffer
	header http.Header
}

// Header is part of http.ResponseWriter.
func (m *memory) Header() http.Header {
	if m.header == nil {
		m.header = http.Header{}
	}
	return m.header
}

// WriteHeader is part of http.ResponseWriter.
func (m *memory) WriteHeader(int) {}

// runOfPage returns the run that a page is about; empty: none.
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

// withoutTimes leaves out what goes on by itself: what stands between <time …> and </time>.
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

// event writes a text as a server-sent event.
func event(text []byte) []byte {
	var b bytes.Buffer
	b.WriteString("event: page\n")
	for line := range bytes.Lines(text) {
		fmt.Fprintf(&b, "data: %s\n", bytes.TrimRight(line, "\r\n"))
	}
	b.WriteByte('\n')
	return b.Bytes()
}
